//! Connections to versions: who shares them, and when they end.

use proxy::{Limits, form::TableForm};
use serde_json::json;

use crate::world::{Peer, Scripted, ok, start_with};

/// Services, each with a version at a target, which has this content.
fn table(generation: u64, services: &[(&str, &Scripted, &str)]) -> TableForm {
    let service = |(name, at, content): &(&str, &Scripted, &str)| json!({"name": name, "variations": [{"name": "base", "version": content, "targets": [at.target()]}]});
    let services: Vec<_> = services.iter().map(service).collect();
    serde_json::from_value(json!({"generation": generation, "services": services})).unwrap()
}

/// Calls a service whose version gets the call over this connection.
async fn call_over(caller: &mut Peer, service: &str, version: &mut Peer) {
    caller.send(format!("GET /{service}/x HTTP/1.1\r\nHost: h\r\n\r\n")).await;
    version.head().await;
    version.send(ok(service)).await;
    assert_eq!(caller.answer().await.1, service);
}

#[tokio::test]
async fn services_at_one_target_share_its_connections_and_another_content_there_gets_new_ones() {
    let running = start_with(1, Limits::default());
    let at = Scripted::new().await;
    running.proxy.apply(&table(1, &[("a", &at, "1"), ("b", &at, "1"), ("c", &at, "2")])).await.unwrap();
    let mut caller = running.caller().await;
    caller.send("GET /a/x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut first = at.accept().await;
    first.head().await;
    first.send(ok("a")).await;
    caller.answer().await;
    call_over(&mut caller, "b", &mut first).await;
    call_over(&mut caller, "a", &mut first).await;
    assert!(at.is_left_alone().await);
    // What isn't the same is reached over a connection of its own.
    caller.send("GET /c/x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut second = at.accept().await;
    second.head().await;
    second.send(ok("c")).await;
    caller.answer().await;
    // Who stays keeps what is shared, and what nobody leads to any more is closed.
    running.proxy.apply(&table(2, &[("b", &at, "1")])).await.unwrap();
    second.gone().await;
    call_over(&mut caller, "b", &mut first).await;
    running.proxy.apply(&table(3, &[("b", &at, "3")])).await.unwrap();
    first.gone().await;
    assert!(running.proxy.leaving().is_empty());
}
