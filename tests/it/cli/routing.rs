//! Routers, services and who gets what, on the command line.

use serde_json::{Value, json};
use std::path::Path;

use super::{code, err, out, run};
use crate::world::World;

/// A router that leads a service, as its agent tells of it.
async fn led(world: &World, answers: &Value) -> String {
    let poll = |id: &str| json!({"id": id, "kind": "agent", "name": "edge-1", "capabilities": {"leads": "whole", "routers": ["nginx"]}});
    let known = world.get("/api/v1/children").await.ok().json()["items"][0]["id"].as_str().map(str::to_owned);
    let id = match known {
        Some(id) => id,
        None => world.post("/poll", &poll("")).await.ok().json()["id"].as_str().unwrap().to_owned(),
    };
    world.post("/poll", &poll(&id)).await.ok();
    let variation = |name: &str, share: u16, calls: u64| json!({"name": name, "wanted": share, "seen": share, "targets": {"healthy": 1, "total": 2}, "calls": calls, "errors": 1});
    let target = |name: &str, port: u16| json!({"name": name, "targets": [format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1)]});
    let service = json!({
        "name": "checkout", "epoch": 2, "generation": 7, "standing": true, "measured_ms": 1000,
        "variations": [variation("A", 9975, 9980), variation("B", 25, 20)],
        "led": {"ports": [{"port": 8080, "protocol": "HTTP"}], "variations": [target("A", 9101), target("B", 9111)]},
    });
    let router = json!({"kind": "nginx", "version": "1.26.0", "phase": "paused", "reached": true, "trouble": "it is left alone"});
    let body = json!({"id": id, "router": router, "services": [service], "answers": answers});
    world.post("/traffic", &body).await.ok();
    id
}

/// What a command prints, with its exit code, without what differs from run to run.
async fn said(world: &World, id: &str, args: &[&str]) -> String {
    let url = format!("http://{}", world.manager.address);
    let args: Vec<String> =
        args.iter().map(|arg| (*arg).to_owned()).chain(["--url".to_owned(), url]).collect();
    let output = tokio::task::spawn_blocking(move || run(Path::new("."), args)).await.unwrap();
    let text = format!("{}{}", out(&output), err(&output)).replace(id, "ID");
    let text = settled(&text);
    format!("{text}{}", code(&output))
}

/// Times and ages, which differ.
fn settled(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| {
                let is_age = word.len() > 1
                    && word.ends_with('s')
                    && word[..word.len() - 1].bytes().all(|b| b.is_ascii_digit());
                let is_time = word.len() > 20 && word.contains('T') && word.ends_with('Z');
                let number = word.trim_matches(['(', ')', ':']);
                let is_number =
                    !number.is_empty() && word.starts_with('(') && number.bytes().all(|b| b.is_ascii_digit());
                if is_age {
                    "0s".to_owned()
                } else if is_time {
                    "TIME".to_owned()
                } else if is_number {
                    "(N):".to_owned()
                } else {
                    word.to_owned()
                }
            })
            .collect();
        lines.push_str(words.join(" ").trim_end());
        lines.push('\n');
    }
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_and_services_are_listed_and_shown() {
    let world = World::start().await;
    let id = led(&world, &json!([])).await;
    insta::assert_snapshot!(said(&world, &id, &["router", "list"]).await, @r"
    ID                                    NAME    KIND   PHASE   SERVICES  DRIFTS  LAST CALL  TROUBLE
    ID  edge-1  nginx  paused  1         0       0s ago     it is left alone
    0
    ");
    insta::assert_snapshot!(said(&world, &id, &["router", "show", &id]).await, @r"
    ID
      name       edge-1
      kind       nginx
      version    1.26.0
      phase      paused
      since      0s ago
      trouble    it is left alone
      drifts     0
      repairs    0 within the last hour
      last call  0s ago
    ROUTER                                SERVICE   STATE  VARIATION  WANTED   SEEN     MEASURED  ERRORS     HEALTHY  DRAIN
    ID  checkout  2.7    A          99.75 %  99.75 %  99.8 %    1 of 9980  1 of 2   -
    ID  checkout  2.7    B          0.25 %   0.25 %   0.2 %     1 of 20    1 of 2   -
    checkout at ID stands at A 99.75 %, B 0.25 %, since 0s ago
    0
    ");
    insta::assert_snapshot!(said(&world, &id, &["service", "list"]).await, @r"
    SERVICE   WANTED               ROUTERS DO  STATE   RELEASE
    checkout  A 99.75 %, B 0.25 %  1 of 1      stands  -
    0
    ");
    insta::assert_snapshot!(said(&world, &id, &["service", "show", "checkout"]).await, @r"
    SERVICE   WANTED               ROUTERS DO  STATE   RELEASE
    checkout  A 99.75 %, B 0.25 %  1 of 1      stands  -
    VARIATION  WANTED   SEEN     MEASURED  ERRORS     HEALTHY
    A          99.75 %  99.75 %  99.8 %    1 of 9980  1 of 2
    B          0.25 %   0.25 %   0.2 %     1 of 20    1 of 2
    ROUTER                                SERVICE   STATE  VARIATION  WANTED   SEEN     MEASURED  ERRORS     HEALTHY  DRAIN
    ID  checkout  2.7    A          99.75 %  99.75 %  99.8 %    1 of 9980  1 of 2   -
    ID  checkout  2.7    B          0.25 %   0.25 %   0.2 %     1 of 20    1 of 2   -
    checkout at ID stands at A 99.75 %, B 0.25 %, since 0s ago
    A: 127.0.0.1:9101, 127.0.0.1:9102
    B: 127.0.0.1:9111, 127.0.0.1:9112
    0
    ");
    let listed: Value =
        serde_json::from_str(said(&world, &id, &["router", "list", "--json"]).await.trim_end_matches('0'))
            .unwrap();
    assert_eq!(listed[0]["trouble"], json!("it is left alone"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lists_show_as_a_name_is_taken_as_one_unless_it_is_several() {
    let world = World::start().await;
    let id = led(&world, &json!([])).await;
    for command in ["router", "children"] {
        let by_id = said(&world, &id, &[command, "show", &id]).await;
        assert_eq!(said(&world, &id, &[command, "show", "edge-1"]).await, by_id);
    }
    let checked = said(&world, &id, &["router", "check", "edge-1", "--wait", "10ms"]).await;
    assert!(checked.starts_with("ID: check (N): open\n"), "{checked}");
    // Another agent that leads no router has the same name.
    let poll = json!({"id": "", "kind": "agent", "name": "edge-1"});
    let other = world.post("/poll", &poll).await.ok().json()["id"].as_str().unwrap().to_owned();
    assert!(said(&world, &id, &["router", "show", "edge-1"]).await.starts_with("ID\n"));
    let unclear = said(&world, &id, &["children", "cordon", "edge-1"]).await.replace(&other, "OTHER");
    insta::assert_snapshot!(unclear, @r"
    error: edge-1 may be ID (edge-1), OTHER (edge-1): write more of the id of the one that you mean
    1
    ");
    let cordoned = said(&world, &other, &["children", "cordon", &other[..13]]).await;
    assert_eq!(cordoned, "ID: cordoned\n0");
    let unknown = said(&world, &id, &["router", "show", "edge-2"]).await;
    assert!(unknown.ends_with("\n1") && unknown.contains("edge-2"), "{unknown}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_waited_for_and_its_outcome_is_the_exit_code() {
    let world = World::start().await;
    let id = led(&world, &json!([])).await;
    let nobody = said(&world, &id, &["router", "repair", &id, "--wait", "10ms"]).await;
    insta::assert_snapshot!(nobody, @r"
    ID: repair (N): open
    1
    ");
    let shown = world.get(&format!("/api/v1/routers/{id}")).await.ok().json();
    let number = shown["orders"][0]["number"].clone();
    led(&world, &json!([{"number": number, "ok": true, "text": "in force again"}])).await;
    let check = said(&world, &id, &["router", "show", &id]).await;
    assert!(check.contains("ID: repair (N): done\n  in force again\n"), "{check}");
    let retired = said(&world, &id, &["service", "retire", "checkout"]).await;
    insta::assert_snapshot!(retired, @r"
    ID: retire checkout (N): open
    0
    ");
    let unknown = said(&world, &id, &["service", "retire", "nothing"]).await;
    insta::assert_snapshot!(unknown, @r"
    error: no router leads a service nothing
    1
    ");
    world.stop().await;
}
