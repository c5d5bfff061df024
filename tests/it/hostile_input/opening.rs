//! The address is open when everything answers, and not before.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use choirmaster::{app, app::Options};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    deadline::DEADLINE,
    ports::free_address,
    world::{AREA, client},
};

/// Enough that loading them takes a while in any build.
const CHILDREN: usize = 3_000;

fn options(folder: &tempfile::TempDir, listen: SocketAddr) -> Options {
    let store = format!("sqlite://{}", folder.path().join("choir.db").display());
    Options { listen, ..Options::local(store, env!("CARGO_MANIFEST_DIR").into()) }
}

async fn fill(manager: &app::Manager, client: &reqwest::Client) -> Vec<String> {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let url = format!("http://{}/poll", manager.address);
    let mut ids = Vec::new();
    for slice in 0..CHILDREN / 100 {
        let calls = (0..100).map(|number| {
            let id = format!("child-{slice}-{number}");
            ids.push(id.clone());
            client.post(&url).json(&json!({"id": id, "geographic_area": area})).send()
        });
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.unwrap().status(), StatusCode::OK);
        }
    }
    ids
}

/// Whoever can connect is answered, and knows of no time at which the manager was there and not ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_who_can_connect_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let client = client().build().unwrap();
    let first = app::start(options(&folder, free_address())).await.unwrap();
    let last = fill(&first, &client).await.pop().unwrap();
    first.stop().await.unwrap();
    let listen = free_address();
    let (url, early) = (Arc::new(format!("http://{listen}")), client.clone());
    let knocking = tokio::spawn(async move {
        let area: Value = serde_json::from_str(AREA).unwrap();
        loop {
            let poll = early.post(format!("{url}/poll")).json(&json!({"id": last, "geographic_area": area}));
            if let Ok(answer) = poll.send().await {
                let ready = early.get(format!("{url}/readyz")).send().await.unwrap().status();
                return (answer.status(), ready);
            }
        }
    });
    let second = app::start(options(&folder, listen)).await.unwrap();
    let seen = timeout(DEADLINE, knocking).await.expect("an answer").unwrap();
    assert_eq!(seen, (StatusCode::OK, StatusCode::OK));
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_standby_on_the_same_address_takes_it_over_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let listen = free_address();
    let first = app::start(options(&folder, listen)).await.unwrap();
    let mut standby = options(&folder, listen);
    standby.open.wait = true;
    let waiting = tokio::spawn(app::start(standby));
    // It is the first that answers until it is gone.
    let client = client().pool_max_idle_per_host(0).build().unwrap();
    let ready =
        async || client.get(format!("http://{listen}/readyz")).send().await.map(|answer| answer.status());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ready().await.unwrap(), StatusCode::OK);
    assert!(!waiting.is_finished());
    first.stop().await.unwrap();
    let second = timeout(DEADLINE, waiting).await.expect("it takes over").unwrap().unwrap();
    assert_eq!(second.address, listen);
    assert_eq!(ready().await.unwrap(), StatusCode::OK);
    second.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_leaves_the_store_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = app::start(options(&folder, taken.local_addr().unwrap())).await.unwrap_err();
    assert!(format!("{error:#}").contains("can't listen on 127.0.0.1:"), "{error:#}");
    let manager = app::start(options(&folder, free_address())).await.unwrap();
    manager.stop().await.unwrap();
}
