//! Every call with every token.

use std::collections::HashMap;

use http_api::auth::{ChildTokens, JoinToken, OperatorToken, Settings, Token};
use language::render::ROLLOUT_STAGE;
use serde_json::{Value, json};

use super::routes;
use crate::world::{AREA, Answer, STAGE, World, strategy, summary};

const OPERATOR: &str = "the-secret-of-an-operator";

const DOOR: &str = "the-secret-of-a-door";

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
        operators: vec![OperatorToken::new("ada", OPERATOR)],
        operator_required: true,
        metrics_open: false,
        children: ChildTokens::new(tokens, required),
        doors: vec![JoinToken::new("edge", DOOR)],
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

/// No token, and those of others than the one who may.
fn wrong(others: &[&str]) -> Vec<Option<String>> {
    let mut tokens = vec![None, Some("a-guess-of-somebody".to_owned())];
    tokens.extend(others.iter().map(|token| Some((*token).to_owned())));
    tokens
}

#[tokio::test]
async fn calls_of_people_are_opened_by_an_operators_token_alone() {
    let world = with_release(false).await;
    let tokens = wrong(&[&secret("kid"), &secret("sis"), &secret("gone"), DOOR]);
    for (method, path) in routes::of_people(&world, Some(OPERATOR)).await {
        for token in &tokens {
            let answer = call(&world, &method, &path, None, token.as_deref()).await;
            assert_eq!(answer.status, 401, "{method} {path} {token:?}: {answer:?}");
        }
        if !routes::is_endless(&path) {
            let answer = call(&world, &method, &path, None, Some(OPERATOR)).await;
            assert_ne!(answer.status, 401, "{method} {path}: {answer:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn calls_in_the_name_of_a_child_are_opened_by_its_own_token_alone() {
    let tokens = wrong(&[OPERATOR, DOOR, &secret("sis"), &secret("gone")]);
    for required in [false, true] {
        let world = with_release(required).await;
        for routes::Call { method, target, body } in routes::of_child("kid", "a") {
            for token in &tokens {
                let answer = call(&world, method, &target, body.as_ref(), token.as_deref()).await;
                assert_eq!(answer.status, 401, "{method} {target} {token:?}: {answer:?}");
            }
            let answer = call(&world, method, &target, body.as_ref(), Some(&secret("kid"))).await;
            // Nothing was asked of it, and it leads no router.
            let expected = if ["/answers", "/traffic"].contains(&&*target) { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{method} {target}: {answer:?}");
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
