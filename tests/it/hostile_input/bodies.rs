//! Bodies that stall, drip or are cut short.

use std::time::Duration;

use http_api::{
    context::{MAX_REPORTING_KIB, MAX_SUBMISSIONS},
    serve::Timeouts,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, timeout},
};

use super::raw::{first_answer, raw};
use crate::{
    deadline::DEADLINE,
    world::{World, strategy},
};

/// A multipart body with a strategy, and with a zip that is none.
fn multipart() -> String {
    format!(
        "--x\r\ncontent-disposition: form-data; name=\"strategy\"\r\n\r\n{}\r\n\
         --x\r\ncontent-disposition: form-data; name=\"functions\"; filename=\"fns.zip\"\r\n\r\nPK\r\n--x--\r\n",
        strategy("a")
    )
}

fn head(path: &str, kind: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn uploads_that_stall_keep_nobody_from_submitting() {
    let world = World::start().await;
    let mut stalled = Vec::new();
    for number in 0..4 * MAX_SUBMISSIONS {
        let mut stream = TcpStream::connect(world.manager.address).await.unwrap();
        let kind = if number % 2 == 0 { "application/yaml" } else { "multipart/form-data; boundary=x" };
        let text = head("/release", kind, 10_000) + "--x\r\n";
        stream.write_all(text.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    let submitted = timeout(DEADLINE, world.submit(&strategy("a"))).await.expect("an answer");
    assert_eq!(submitted.status, 201, "{submitted:?}");
    let yaml = strategy("b");
    let planned = world.submit_to("/api/v1/plan", &yaml);
    assert_eq!(timeout(DEADLINE, planned).await.expect("an answer").status, 200);
    drop(stalled);
    world.stop().await;
}

#[tokio::test]
async fn large_bodies_of_strangers_take_a_bounded_amount_of_memory_and_agents_get_through() {
    const LARGE: usize = 1_000 * 1024;
    let world = World::start().await;
    let child = world.child().await;
    let mut stalled = Vec::new();
    // Each sends all but the end, and waits.
    let text = head("/result", "application/json", LARGE) + &" ".repeat(LARGE - 1);
    for _ in 0..MAX_REPORTING_KIB * 1024 / LARGE {
        let mut stream = TcpStream::connect(world.manager.child_address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    let refused = async {
        loop {
            let mut stream = TcpStream::connect(world.manager.child_address).await.unwrap();
            let _ = stream.write_all(text.as_bytes()).await;
            let answer = timeout(Duration::from_millis(200), first_answer(&mut stream)).await;
            // One that waits for the last byte was taken: what the others have sent has not all arrived yet.
            if let Ok(answer) = answer {
                return answer;
            }
            stalled.push(stream);
        }
    };
    let refused = timeout(DEADLINE, refused).await.expect("an answer");
    assert_eq!(refused.status(), 503, "{refused:?}");
    assert_eq!(world.poll(&child).await.0, child);
    let submitted = timeout(DEADLINE, world.submit(&strategy("a"))).await.expect("an answer");
    assert_eq!(submitted.status, 201, "{submitted:?}");
    drop(stalled);
    world.stop().await;
}

#[tokio::test]
async fn the_whole_of_a_body_has_a_minute_however_it_drips() {
    assert_eq!(Timeouts::default().body, Duration::from_mins(1));
    let world = World::with(|options| options.timeouts.body = Duration::from_millis(300)).await;
    for path in ["/release", "/poll", "/api/v1/plan"] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(world.manager.address).await.unwrap();
        let kind = if path == "/poll" { "application/json" } else { "application/yaml" };
        stream.write_all(head(path, kind, 100_000).as_bytes()).await.unwrap();
        // Each drop comes in time; all of them would take an hour.
        while stream.write_all(b"#").await.is_ok() && began.elapsed() < DEADLINE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(began.elapsed() < DEADLINE, "{path} was never cut");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_multipart_body_that_is_cut_short_is_the_callers_fault() {
    let world = World::start().await;
    let whole = multipart();
    let kind = "multipart/form-data; boundary=x";
    for cut in (0..whole.len()).step_by(97) {
        // As if that were all.
        let request = head("/release", kind, cut) + &whole[..cut];
        let answer = raw(world.manager.address, request.as_bytes()).await;
        assert_eq!(answer.status(), 400, "cut at {cut}: {answer:?}");
        // With the announced rest missing, as after a lost connection.
        let mut stream = TcpStream::connect(world.manager.address).await.unwrap();
        stream.write_all((head("/release", kind, whole.len()) + &whole[..cut]).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = first_answer(&mut stream).await;
        assert!(matches!(answer.status(), 0 | 400), "cut at {cut}: {answer:?}");
    }
    world.stop().await;
}
