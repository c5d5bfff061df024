//! Names that lead here: a page of any site can have its own name resolved to this machine.

use http_api::auth::{self, OperatorToken};
use serde_json::json;

use super::{
    raw::{Raw, raw},
    routes,
};
use crate::world::{World, strategy};

/// What a manager that knows no releases answers to a child that it knows.
fn answered(target: &str) -> u16 {
    if matches!(target, "/poll" | "/end_stage" | "/placements") { 200 } else { 404 }
}

/// Every call of people, and what leads nowhere.
async fn of_people(world: &World) -> Vec<(String, String)> {
    let mut calls = routes::of_people(world, None).await;
    calls.extend(["/", "/nowhere"].map(|path| ("GET".to_owned(), path.to_owned())));
    calls
}

fn submitted(path: &str) -> String {
    if matches!(path, "/release" | "/api/v1/plan") { strategy("a") } else { String::new() }
}

async fn call(world: &World, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> Raw {
    let lines =
        headers.iter().fold(String::new(), |lines, (name, value)| lines + name + ": " + value + "\r\n");
    let head = format!(
        "{method} {path} HTTP/1.1\r\n{lines}connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    raw(world.manager.address, format!("{head}{body}").as_bytes()).await
}

#[tokio::test]
async fn under_an_unknown_name_nothing_of_people_is_answered() {
    let world = World::start().await;
    let people = of_people(&world).await;
    for name in ["evil.example", "evil.example:9991", "localhost.evil.example", "127.0.0.1.evil.example", ""]
    {
        for (method, path) in &people {
            let own = format!("http://{name}");
            for headers in [&[("host", name)][..], &[("host", name), ("origin", &own)]] {
                let answer = call(&world, method, path, &submitted(path), headers).await;
                assert_eq!(answer.status(), 421, "{method} {path} {headers:?}: {answer:?}");
                assert!(!answer.0.contains("canary"), "{answer:?}");
            }
        }
    }
    let answer = world.get("/api/v1/releases").await.ok().json();
    assert_eq!(answer["items"].as_array().unwrap().len(), 0, "nothing was submitted");
    let refused = call(&world, "GET", "/api/v1/releases", "", &[("host", "evil.example")]).await;
    assert!(
        refused.0.contains("application/problem+json") && refused.0.contains("http.hosts"),
        "{refused:?}"
    );
    world.stop().await;
}

#[tokio::test]
async fn the_manager_answers_under_every_name_of_its_own() {
    let world = World::with(|options| options.hosts = vec!["choir.example".to_owned()]).await;
    let own = world.manager.address.to_string();
    let people = of_people(&world).await;
    for name in
        [own.as_str(), "localhost", "localhost:1", "LOCALHOST.", "127.8.8.8", "[::1]:80", "Choir.Example:443"]
    {
        for (method, path) in &people {
            let answer = call(&world, method, path, &submitted(path), &[("host", name)]).await;
            assert_ne!(answer.status(), 421, "{method} {path} {name}: {answer:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn children_are_served_under_any_name_and_browsers_are_not() {
    let world = World::start().await;
    world.post("/poll", &json!({"id": "x", "kind": "agent"})).await.ok();
    for routes::Call { method, target, body } in routes::of_child("x", "y") {
        let body = body.map_or(String::new(), |body| body.to_string());
        let plain = call(&world, method, &target, &body, &[("host", "edge.internal:9991")]).await;
        assert_eq!(plain.status(), answered(&target), "{method} {target}: {plain:?}");
        for browser in [
            &[("origin", "http://edge.internal:9991")][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-mode", "cors")],
            &[("origin", "null")],
        ] {
            let headers = [&[("host", "edge.internal:9991")], browser].concat();
            let answer = call(&world, method, &target, &body, &headers).await;
            assert_eq!(answer.status(), 421, "{method} {target} {browser:?}: {answer:?}");
            assert!(answer.0.contains("text/plain"), "{answer:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_page_of_another_site_can_not_speak_as_a_child() {
    let world = World::start().await;
    let own = world.manager.address.to_string();
    world.post("/poll", &json!({"id": "x", "kind": "agent"})).await.ok();
    for routes::Call { method, target, body } in routes::of_child("x", "y") {
        let body = body.map_or(String::new(), |body| body.to_string());
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let answer = call(&world, method, &target, &body, &[("host", &own), (name, value)]).await;
            assert_eq!(answer.status(), 403, "{method} {target} {name} {value}: {answer:?}");
        }
        // Somebody who types the address looks for himself.
        let typed = call(&world, method, &target, &body, &[("host", &own), ("sec-fetch-site", "none")]).await;
        assert_eq!(typed.status(), answered(&target), "{typed:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn probes_are_answered_under_any_name_and_so_are_metrics_that_are_open() {
    for open in [false, true] {
        let world = World::with(|options| {
            options.auth = auth::Settings {
                operators: vec![OperatorToken::new("ada", "a-secret-of-an-operator")],
                operator_required: true,
                metrics_open: open,
                ..auth::Settings::default()
            };
        })
        .await;
        let mut seen = Vec::new();
        for path in ["/healthz", "/readyz", "/metrics"] {
            seen.push(call(&world, "GET", path, "", &[("host", "10-0-0-7.pods.example")]).await.status());
        }
        assert_eq!(seen, [200, 200, if open { 200 } else { 421 }]);
        world.stop().await;
    }
}

#[tokio::test]
async fn the_name_in_the_target_counts_as_much_as_the_header() {
    let world = World::start().await;
    let request = b"GET http://evil.example/api/v1/releases HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(raw(world.manager.address, request).await.status(), 421);
    let request = b"GET http://localhost/api/v1/releases HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(raw(world.manager.address, request).await.status(), 200);
    world.stop().await;
}
