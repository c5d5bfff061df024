//! Names that lead here: a page of any site can have its own name resolved to this machine.

use choirmaster::http::auth::{self, Token};

use super::raw::{Raw, raw};
use crate::world::{AREA, World, strategy};

/// Calls of developers and operators, and whether they are answered with something when all is well.
const PEOPLE: [(&str, &str); 10] = [
    ("POST", "/release"),
    ("GET", "/api/v1/releases"),
    ("GET", "/api/v1/children"),
    ("GET", "/api/v1/audit"),
    ("POST", "/api/v1/plan"),
    ("POST", "/api/v1/releases/a/abort"),
    ("GET", "/events"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/"),
];

/// Calls of children, with what they are answered by a manager that knows none.
const CHILDREN: [(&str, &str, u16); 5] = [
    ("POST", "/poll", 200),
    ("GET", "/release?childID=x&releaseID=y", 404),
    ("GET", "/release/functions/y", 404),
    ("POST", "/result", 404),
    ("POST", "/end_stage", 200),
];

fn body(path: &str) -> String {
    match path {
        "/release" | "/api/v1/plan" => strategy("a"),
        "/poll" => format!(r#"{{"id": "", "geographic_area": {AREA}, "number_of_children": 0}}"#),
        "/result" => {
            r#"{"id": "x", "release_id": "y", "stage_summaries": [{"stage_name": "s", "status": 4}], "next_stage": ""}"#
                .to_owned()
        }
        "/end_stage" => r#"{"id": "x", "strategy_id": "y", "stage_name": "s"}"#.to_owned(),
        _ => String::new(),
    }
}

async fn call(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Raw {
    let body = body(path);
    let lines =
        headers.iter().fold(String::new(), |lines, (name, value)| lines + name + ": " + value + "\r\n");
    let head = format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {}\r\n\r\n", body.len());
    raw(world.manager.address, format!("{head}{body}").as_bytes()).await
}

#[tokio::test]
async fn under_an_unknown_name_nothing_of_people_is_answered() {
    let world = World::start().await;
    for name in ["evil.example", "evil.example:9991", "localhost.evil.example", "127.0.0.1.evil.example", ""]
    {
        for (method, path) in PEOPLE {
            let own = format!("http://{name}");
            for headers in [&[("host", name)][..], &[("host", name), ("origin", &own)]] {
                let answer = call(&world, method, path, headers).await;
                assert_eq!(answer.status(), 421, "{method} {path} {headers:?}: {answer:?}");
                assert!(!answer.0.contains("canary"), "{answer:?}");
            }
        }
    }
    let answer = world.get("/api/v1/releases").await.ok().json();
    assert_eq!(answer["items"].as_array().unwrap().len(), 0, "nothing was submitted");
    let refused = call(&world, "GET", "/api/v1/releases", &[("host", "evil.example")]).await;
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
    for name in
        [own.as_str(), "localhost", "localhost:1", "LOCALHOST.", "127.8.8.8", "[::1]:80", "Choir.Example:443"]
    {
        for (method, path) in PEOPLE {
            let answer = call(&world, method, path, &[("host", name)]).await;
            assert_ne!(answer.status(), 421, "{method} {path} {name}: {answer:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn children_are_served_under_any_name_and_browsers_are_not() {
    let world = World::start().await;
    for (method, path, status) in CHILDREN {
        let plain = call(&world, method, path, &[("host", "edge.internal:9991")]).await;
        assert_eq!(plain.status(), status, "{method} {path}: {plain:?}");
        for browser in [
            &[("origin", "http://edge.internal:9991")][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-mode", "cors")],
            &[("origin", "null")],
        ] {
            let headers = [&[("host", "edge.internal:9991")], browser].concat();
            let answer = call(&world, method, path, &headers).await;
            assert_eq!(answer.status(), 421, "{method} {path} {browser:?}: {answer:?}");
            assert!(answer.0.contains("text/plain"), "{answer:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_page_of_another_site_can_not_speak_as_a_child() {
    let world = World::start().await;
    let own = world.manager.address.to_string();
    for (method, path, status) in CHILDREN {
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let answer = call(&world, method, path, &[("host", &own), (name, value)]).await;
            assert_eq!(answer.status(), 403, "{method} {path} {name} {value}: {answer:?}");
        }
        // Somebody who types the address looks for himself.
        let typed = call(&world, method, path, &[("host", &own), ("sec-fetch-site", "none")]).await;
        assert_eq!(typed.status(), status, "{typed:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn probes_are_answered_under_any_name_and_so_are_metrics_that_are_open() {
    for open in [false, true] {
        let world = World::with(|options| {
            options.auth = auth::Settings {
                operators: vec![("ada".to_owned(), Token::new("a-secret-of-an-operator"))],
                operator_required: true,
                metrics_open: open,
                ..auth::Settings::default()
            };
        })
        .await;
        let mut seen = Vec::new();
        for path in ["/healthz", "/readyz", "/metrics"] {
            seen.push(call(&world, "GET", path, &[("host", "10-0-0-7.pods.example")]).await.status());
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
