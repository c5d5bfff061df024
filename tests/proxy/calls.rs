use choirmaster_proxy::Limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{read_head, start, table, version};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";
const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\nbroken";

#[tokio::test]
async fn a_new_version_that_fails_each_call_is_felt_by_no_caller_and_counted_to_the_call() {
    let running = start(Limits::default());
    let (base, new) = (version(BASE).await, version(BROKEN).await);
    running.proxy.apply(&table(1, base, new, 10_000)).await.unwrap();
    let mut caller = TcpStream::connect(running.at).await.unwrap();
    for _ in 0..300 {
        caller.write_all(b"GET /a/b?c HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
        let head = read_head(&mut caller).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("X-Choirmaster-Version: base\r\n"), "{head}");
        let mut body = [0; 4];
        caller.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"base");
    }
    let gathered = running.proxy.gather().await;
    let of_new = gathered.iter().filter(|of_one| &*of_one.key.variation == "new").map(|of_one| &of_one.tally);
    let (mut calls, mut repeated, mut passed_over) = (0, 0, 0);
    for tally in of_new {
        calls += tally.calls;
        repeated += tally.repeated;
        passed_over += tally.passed_over;
    }
    assert_eq!((calls, repeated + passed_over), (300, 300));
    assert!(repeated >= 20, "{repeated}");
}
