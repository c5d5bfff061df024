//! Every call with every token.

use std::collections::HashMap;

use choirmaster::{
    http::auth::{ChildTokens, Settings, Token},
    strategy::render::ROLLOUT_STAGE,
};
use serde_json::{Value, json};

use crate::world::{AREA, Answer, STAGE, World, strategy, summary};

const OPERATOR: &str = "the-secret-of-an-operator";

/// An area far from [`AREA`].
const ELSEWHERE: &str =
    r#"{"type":"Polygon","coordinates":[[[2.2,48.8],[2.4,48.8],[2.4,48.9],[2.2,48.9],[2.2,48.8]]]}"#;

fn secret(child: &str) -> String {
    format!("the-secret-of-{child}")
}

/// Three children have tokens; whether others are refused is up to `required`.
fn rights(required: bool) -> Settings {
    let token = |child: &str| (child.to_owned(), Token::new(&secret(child)));
    let tokens: HashMap<String, Token> = ["kid", "sis", "gone"].map(token).into();
    Settings {
        operators: vec![("ada".to_owned(), Token::new(OPERATOR))],
        operator_required: true,
        metrics_open: false,
        children: ChildTokens::new(tokens, required),
    }
}

async fn call(world: &World, method: &str, path: &str, body: Option<&Value>, token: Option<&str>) -> Answer {
    let mut request = world.request(method, path);
    if let Some(body) = body {
        request = request.json(body);
    }
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    world.send(request).await
}

async fn poll(world: &World, id: &str, area: &str, token: Option<&str>) -> Answer {
    let area: Value = serde_json::from_str(area).unwrap();
    call(world, "POST", "/poll", Some(&json!({"id": id, "geographic_area": area})), token).await
}

/// A release in the area of `kid` alone, which has fetched it; `gone` was there and was forgotten.
async fn with_release(required: bool) -> World {
    let world = World::with(|options| options.auth = rights(required)).await;
    for (child, area) in [("kid", AREA), ("sis", ELSEWHERE), ("gone", ELSEWHERE)] {
        for _ in 0..2 {
            poll(&world, child, area, Some(&secret(child))).await.ok();
        }
    }
    let yaml = strategy("a") + &format!("target:\n  area: {AREA}\n");
    let submit = world.request("POST", "/release").header("content-type", "application/yaml");
    world.send(submit.bearer_auth(OPERATOR).body(yaml)).await.ok();
    call(&world, "GET", "/release?childID=kid&releaseID=a", None, Some(&secret("kid"))).await.ok();
    call(&world, "DELETE", "/api/v1/children/gone", None, Some(OPERATOR)).await.ok();
    world
}

#[tokio::test]
async fn calls_of_people_are_opened_by_an_operators_token_alone() {
    let world = with_release(false).await;
    let document = call(&world, "GET", "/openapi.json", None, Some(OPERATOR)).await.ok().json();
    let of_children = ["/poll", "/result", "/end_stage", "/answers", "/release/functions/{offer}"];
    let open = ["/healthz", "/readyz"];
    let mut looked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete"].iter().filter(|method| item.get(**method).is_some()) {
            let is_childs = of_children.contains(&path.as_str()) || (path == "/release" && *method == "get");
            if is_childs || open.contains(&path.as_str()) {
                continue;
            }
            looked += 1;
            let (method, path) = (method.to_uppercase(), path.replace(['{', '}'], ""));
            let tokens = [
                None,
                Some("a-guess-of-somebody".to_owned()),
                Some(secret("kid")),
                Some(secret("sis")),
                Some(secret("gone")),
            ];
            for token in tokens {
                let answer = call(&world, &method, &path, None, token.as_deref()).await;
                assert_eq!(answer.status, 401, "{method} {path} {token:?}: {answer:?}");
            }
            if path != "/events" {
                let answer = call(&world, &method, &path, None, Some(OPERATOR)).await;
                assert_ne!(answer.status, 401, "{method} {path}: {answer:?}");
            }
        }
    }
    assert!(looked > 25, "{looked}");
    world.stop().await;
}

#[tokio::test]
async fn calls_in_the_name_of_a_child_are_opened_by_its_own_token_alone() {
    for required in [false, true] {
        let world = with_release(required).await;
        let area: Value = serde_json::from_str(AREA).unwrap();
        let result =
            json!({"id": "kid", "release_id": "a", "stage_summaries": [summary(STAGE, 2)], "next_stage": ""});
        let calls = [
            ("POST", "/poll", Some(json!({"id": "kid", "geographic_area": area}))),
            ("GET", "/release?childID=kid&releaseID=a", None),
            ("GET", "/release/functions/a?childID=kid", None),
            ("POST", "/result", Some(result)),
            ("POST", "/end_stage", Some(json!({"id": "kid", "strategy_id": "a", "stage_name": STAGE}))),
        ];
        let wrong = [
            None,
            Some("a-guess-of-somebody".to_owned()),
            Some(OPERATOR.to_owned()),
            Some(secret("sis")),
            Some(secret("gone")),
        ];
        for (method, path, body) in &calls {
            for token in &wrong {
                let answer = call(&world, method, path, body.as_ref(), token.as_deref()).await;
                assert_eq!(answer.status, 401, "{method} {path} {token:?}: {answer:?}");
            }
        }
        for (method, path, body) in &calls[1..] {
            call(&world, method, path, body.as_ref(), Some(&secret("kid"))).await.ok();
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn a_token_opens_the_functions_of_releases_in_which_its_child_has_a_part() {
    for required in [false, true] {
        let mut world = with_release(required).await;
        // In memory, after it is over, and after a restart.
        for life in ["open", "over", "restarted"] {
            for query in ["", "?childID="] {
                let path = |child: &str| {
                    format!("/release/functions/a{query}{}", if query.is_empty() { "" } else { child })
                };
                let own = call(&world, "GET", &path("kid"), None, Some(&secret("kid"))).await;
                assert_eq!(own.status, 200, "{life} {query}: {own:?}");
                for other in ["sis", "gone"] {
                    let answer = call(&world, "GET", &path(other), None, Some(&secret(other))).await;
                    assert_eq!(answer.status, 404, "{life} {other} {query}: {answer:?}");
                }
            }
            let unnamed = call(&world, "GET", "/release/functions/a", None, None).await;
            assert_eq!(unnamed.status, if required { 401 } else { 200 }, "deployed agents have no token");
            if life == "open" {
                end(&world).await;
            } else if life == "over" {
                world = world.restart_with(|options| options.auth = rights(required)).await;
            }
        }
        world.stop().await;
    }
}

/// Takes `kid` through what it is offered, and the release to its end.
async fn end(world: &World) {
    let kid = secret("kid");
    for (offer, stage) in [("a", STAGE), ("a.rollout", ROLLOUT_STAGE)] {
        poll(world, "kid", AREA, Some(&kid)).await.ok();
        let fetch = format!("/release?childID=kid&releaseID={offer}");
        call(world, "GET", &fetch, None, Some(&kid)).await.ok();
        for status in [2, 4] {
            let summaries = [summary(stage, status)];
            let body =
                json!({"id": "kid", "release_id": offer, "stage_summaries": summaries, "next_stage": ""});
            call(world, "POST", "/result", Some(&body), Some(&kid)).await.ok();
            let ask = json!({"id": "kid", "strategy_id": offer, "stage_name": stage});
            call(world, "POST", "/end_stage", Some(&ask), Some(&kid)).await.ok();
        }
    }
    let shown = call(world, "GET", "/api/v1/releases/a", None, Some(OPERATOR)).await.ok().json();
    assert_eq!(shown["state"], "Done", "{shown}");
}

#[tokio::test]
async fn a_token_of_somebody_is_the_id_of_nobody_else() {
    for required in [false, true] {
        let world = with_release(required).await;
        // Who asks for an id gets the one of its token, and whoever has none a new one or nothing.
        assert_eq!(poll(&world, "", AREA, Some(&secret("kid"))).await.ok().json()["id"], "kid");
        let stranger = poll(&world, "", AREA, None).await;
        assert_eq!(stranger.status, if required { 401 } else { 200 });
        assert!(!stranger.text().contains("kid"));
        // A child that was forgotten still is who its token says, and comes back as that.
        let back = poll(&world, "", ELSEWHERE, Some(&secret("gone"))).await.ok().json();
        assert_eq!(back["id"], "gone");
        assert_eq!(
            call(&world, "GET", "/release?childID=gone&releaseID=a", None, Some(&secret("gone")))
                .await
                .status,
            404
        );
        world.stop().await;
    }
}
