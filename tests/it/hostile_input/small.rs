//! Small things that were open, one story each.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use model::area::MAX_VERTICES;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};

use crate::{
    deadline::DEADLINE,
    world::{AREA, World, strategy},
};

#[tokio::test]
async fn a_release_without_participants_is_known_and_can_not_be_steered() {
    let world = World::start().await;
    world.submit(&strategy("empty")).await.ok();
    for verb in ["abort", "pause", "resume", "approve", "promote"] {
        let answer = world.call("POST", &format!("/api/v1/releases/empty/{verb}")).await;
        assert_eq!(answer.status, 409, "{verb}: {answer:?}");
    }
    let unknown = world.call("POST", "/api/v1/releases/nobody/abort").await;
    assert_eq!(unknown.status, 404);
    world.stop().await;
}

/// A ring like a gear, which has as many corners as are asked for and crosses itself nowhere.
fn gear(corners: usize) -> Value {
    let mut ring: Vec<[f64; 2]> = (0..corners)
        .map(|corner| {
            let angle = corner as f64 / corners as f64 * std::f64::consts::TAU;
            let radius = if corner % 2 == 0 { 1.0 } else { 0.9 };
            [13.0 + radius * angle.cos(), 52.0 + radius * angle.sin()]
        })
        .collect();
    ring.push(ring[0]);
    json!({"type": "Polygon", "coordinates": [ring]})
}

#[tokio::test]
async fn the_position_that_closes_a_ring_is_no_vertex() {
    let world = World::start().await;
    for (corners, status) in [(MAX_VERTICES, 200), (MAX_VERTICES + 1, 400)] {
        let answer = world.post("/poll", &json!({"id": "", "geographic_area": gear(corners)})).await;
        assert_eq!(answer.status, status, "{corners}: {}", answer.text());
    }
    world.stop().await;
}

/// Large areas wait for each other and not for anybody else; a wrong one is refused as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_change_large_areas_all_the_time_hold_nobody_up() {
    let world = World::start().await;
    let kid = world.child().await;
    let busy = (0..8).map(|caller| {
        let request = world.request("POST", "/poll");
        let client = request.try_clone().unwrap();
        drop(request);
        tokio::spawn(async move {
            for turn in 0..20 {
                let corners = MAX_VERTICES - 2 * (turn % 10) - caller;
                let body = json!({"id": format!("large-{caller}"), "geographic_area": gear(corners)});
                let answer = client.try_clone().unwrap().json(&body).send().await.unwrap();
                assert_eq!(answer.status().as_u16(), 200);
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    while !busy.iter().all(tokio::task::JoinHandle::is_finished) {
        timeout(DEADLINE, world.poll(&kid)).await.expect("an answer");
    }
    for caller in busy {
        caller.await.unwrap();
    }
    let mut crossed = gear(MAX_VERTICES);
    let ring = crossed["coordinates"][0].as_array_mut().unwrap();
    ring.swap(300, 700);
    let refused = world.post("/poll", &json!({"id": "x", "geographic_area": crossed})).await;
    assert_eq!(refused.text(), "`geographic_area`: the area is not valid: a ring crosses itself\n");
    assert_eq!(refused.status, 400);
    world.stop().await;
}

#[tokio::test]
async fn a_plan_names_children_whose_area_has_no_surface() {
    let world = World::start().await;
    world.child().await;
    let flat =
        json!({"type": "Polygon", "coordinates": [[[13.3, 52.4], [13.4, 52.5], [13.5, 52.6], [13.3, 52.4]]]});
    for _ in 0..2 {
        world.post("/poll", &json!({"id": "line", "geographic_area": flat})).await.ok();
    }
    let everywhere = strategy("a");
    let plan = world.submit_to("/api/v1/plan", &everywhere).await.ok().json();
    assert_eq!(plan["participants"]["children"], 2, "without a target it takes part");
    assert_eq!(plan["without_surface"], Value::Null);
    let in_berlin = strategy("b") + &format!("target:\n  area: {AREA}\n");
    let plan = world.submit_to("/api/v1/plan", &in_berlin).await.ok().json();
    assert_eq!(plan["participants"]["children"], 1);
    assert_eq!(plan["without_surface"], json!({"children": 1, "names": ["line"]}));
    world.stop().await;
}

/// A server of one answer, which tells each time it is asked.
async fn answering(answer: String) -> (String, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (asked, was_asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = asked.send(());
        }
    });
    (url, was_asked)
}

#[tokio::test]
async fn a_webhook_is_not_led_to_another_address() {
    let (elsewhere, mut led) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let (hook, mut asked) = answering(redirect).await;
    let world = World::with(|options| options.task.webhooks = vec![hook]).await;
    world.submit(&strategy("empty")).await.ok();
    // It is tried again, for a redirect is no success.
    for _ in 0..2 {
        timeout(DEADLINE, asked.recv()).await.expect("it is called").unwrap();
    }
    assert!(led.try_recv().is_err(), "it went where it was sent");
    world.stop().await;
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_store_and_its_folder_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let url = format!("sqlite://{}", data.join("choir.db").display());
    let world = World::with(|options| options.store = url.clone()).await;
    world.child().await;
    let look = || {
        let mut files: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    assert_eq!(mode(&data), 0o700);
    let files = look();
    assert!(files.len() >= 3, "{files:?}");
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    world.stop().await;
    // What somebody copied there, open to others, is closed.
    for file in look() {
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let world = World::with(|options| options.store = url.clone()).await;
    world.child().await;
    for file in look() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    world.stop().await;
}

/// Serves go on from what is known; what can't be kept is refused with the reason, and a probe is told too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_space_says_so() {
    let world = World::with(|options| options.open.max_bytes = Some(400 * 1024)).await;
    let long: String = "x".repeat(100);
    let refused = timeout(DEADLINE, async {
        loop {
            let calls = (0..100).map(|_| {
                let body = json!({"id": "", "name": long, "geographic_area": gear(40)});
                let request = world.request("POST", "/poll").json(&body);
                world.send(request)
            });
            let answers = futures_util::future::join_all(calls).await;
            if let Some(refused) = answers.into_iter().find(|answer| answer.status != 200) {
                return refused;
            }
        }
    });
    let refused = refused.await.expect("it is full in the end");
    assert_eq!((refused.status, refused.header("retry-after")), (503, "2"));
    assert!(refused.text().contains("no space left"), "{}", refused.text());
    let unready = world.get("/readyz").await;
    assert!(
        unready.problem().starts_with("503 /problems/store-full: the store has no space left"),
        "{unready:?}"
    );
    // The engine still tries to keep what it was given: it is cut off with this test.
    let _ = timeout(Duration::from_millis(1), world.stop()).await;
}
