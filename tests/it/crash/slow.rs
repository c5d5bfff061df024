//! Callers that are slow, or connected and nothing more, take nobody's turn.

use std::time::Duration;

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::Instant};

use super::{server::Start, world::World};
use crate::store::place::{Kind, Place};

/// Connections of each bad kind.
const BAD: usize = 100;

/// A poll that nobody is in the way of takes milliseconds.
const SOON: Duration = Duration::from_secs(2);

/// What each kind sends before it falls silent.
const FRAGMENTS: [&str; 4] = [
    "",
    "POST /poll HT",
    "POST /result HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"id\"",
    "GET /release?childID=a&releaseID=b HTTP/1.1\r\nHost: x\r\nX-Slow: ",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_half_open_callers_do_not_hold_up_others() {
    Place::with(Kind::Sqlite, async |place| {
        let server = Start::on(place).listening().await;
        let world = World::new();
        world.serves_at(Some(server.address));
        let mut held = Vec::new();
        for fragment in FRAGMENTS {
            for _ in 0..BAD {
                let mut stream = TcpStream::connect(server.address).await.unwrap();
                stream.write_all(fragment.as_bytes()).await.unwrap();
                held.push(stream);
            }
        }
        let poll = json!({"id": "", "kind": "agent"});
        for _ in 0..20 {
            let began = Instant::now();
            let answer = world.post("/poll", &poll).await.unwrap().unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        }
        // An orderly end does not wait for them without an end either.
        let status = tokio::time::timeout(Duration::from_secs(20), server.terminate()).await.unwrap();
        assert_eq!(status.code(), Some(0));
        drop(held);
    })
    .await;
}
