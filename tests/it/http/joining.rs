//! Children that join, and the doors through which they may.

use std::collections::HashMap;

use http_api::auth::{ChildTokens, JoinToken, Settings, Token};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    deadline::DEADLINE,
    hostile_input::routes,
    world::{AREA, Answer, World, strategy},
};

const DOOR: &str = "join-token-of-the-edge";

fn doors(required: bool) -> Settings {
    Settings {
        doors: vec![JoinToken::new("edge", DOOR), JoinToken::new("lab", "another-door-of-the-lab")],
        children: ChildTokens::new(HashMap::new(), required),
        ..Settings::default()
    }
}

async fn open() -> World {
    World::with(|options| options.auth = doors(false)).await
}

async fn join(world: &World, token: Option<&str>, body: &Value) -> Answer {
    let request = world.request("POST", "/join").json(body);
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    world.send(request).await
}

/// Id and token of somebody who has joined.
async fn joined(world: &World) -> (String, String) {
    let answer = join(world, Some(DOOR), &json!({"name": "kiosk", "kind": "agent"})).await.ok().json();
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

async fn poll(world: &World, id: &str, token: Option<&str>) -> Answer {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let request = world.request("POST", "/poll").json(&json!({"id": id, "geographic_area": area}));
    world.send(token.into_iter().fold(request, RequestBuilder::bearer_auth)).await
}

#[tokio::test]
async fn nobody_joins_without_a_token_that_lets_it_in() {
    let world = World::start().await;
    let closed = join(&world, Some(DOOR), &json!({})).await;
    assert_eq!(
        (closed.status, closed.text()),
        (403, "nobody can join this manager: it has no join tokens (auth.join_token_file)\n".to_owned())
    );
    world.stop().await;
    let world = open().await;
    for token in [None, Some("a-guess-of-somebody"), Some("")] {
        let refused = join(&world, token, &json!({})).await;
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"), "{token:?}");
        assert!(refused.text().starts_with("a join token that is known here is needed"));
    }
    let get = world.get("/join").await;
    assert_eq!((get.status, get.text()), (405, "GET is not a method of this path\n".to_owned()));
    for (body, why) in [
        (json!([]), "the body must be a JSON object"),
        (json!({"kind": "king"}), "the body can't be read"),
        (json!({"name": "x".repeat(129)}), "`name` has at most 128 bytes"),
        (json!({"name": "a\nb"}), "`name` has a control character in it"),
    ] {
        let refused = join(&world, Some(DOOR), &body).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.text().starts_with(why), "{}", refused.text());
    }
    assert_eq!(join(&world, Some(DOOR), &json!({"name": "x".repeat(5_000)})).await.status, 413);
    // Nobody has a token, so that nobody is asked for one.
    assert_eq!(poll(&world, "", None).await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn audit_trail_names_join_token_of_new_child_without_secrets() {
    let world = open().await;
    let (id, token) = joined(&world).await;
    assert!(token.len() == 64 && id.len() == 36);
    let revoke = world.request("DELETE", &format!("/api/v1/children/{id}/token"));
    world.send(revoke.json(&json!({"by": "ada", "note": "stolen"}))).await.ok();
    let trail = world.get("/api/v1/audit").await.ok();
    let events: Vec<String> = trail.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{}: {}", row["actor"].as_str().unwrap(), row["events"]))
        .collect();
    let events = events.join("\n").replace(&id, "ID");
    insta::assert_snapshot!(events, @r#"
    child: [{"child":"ID","event":"child_enrolled","join_token":"edge","kind":"agent","name":"kiosk"}]
    operator:ada: [{"child":"ID","event":"child_token_revoked","note":"stolen"}]
    "#);
    for secret in [token.as_str(), DOOR] {
        assert!(!trail.text().contains(secret));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_from_then_on_whatever_its_child_calls() {
    let mut world = open().await;
    let (id, token) = joined(&world).await;
    poll(&world, &id, Some(&token)).await.ok();
    world.submit(&strategy("a")).await.ok();
    let release = format!("/release?childID={id}&releaseID=a");
    world.send(world.request("GET", &release).bearer_auth(&token)).await.ok();
    let functions = "/release/functions/a";
    world.send(world.request("GET", functions).bearer_auth(&token)).await.ok();
    world.send(world.request("DELETE", &format!("/api/v1/children/{id}/token"))).await.ok();
    for life in 0..2 {
        for routes::Call { method, target, body } in routes::of_child(&id, "a") {
            for token in [None, Some(token.as_str())] {
                let mut request = world.request(method, &target);
                if let Some(body) = &body {
                    request = request.json(body);
                }
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                let answer = world.send(request).await;
                assert_eq!(answer.status, 401, "{life} {method} {target} {token:?}: {answer:?}");
                let why = "the token of this child was revoked: it has to join anew, with a join token\n";
                assert_eq!(answer.text(), why);
            }
        }
        // Without its name as well.
        assert_eq!(world.send(world.request("GET", functions).bearer_auth(&token)).await.status, 401);
        assert_eq!(poll(&world, "", Some(&token)).await.status, 401);
        // Others are none the worse.
        assert_eq!(poll(&world, "", None).await.status, 200);
        world = world.restart_with(|options| options.auth = doors(false)).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn where_tokens_are_required_those_of_joining_are_enough() {
    let world = World::with(|options| options.auth = doors(true)).await;
    assert_eq!(poll(&world, "", None).await.status, 401);
    let (id, token) = joined(&world).await;
    assert_eq!(poll(&world, "", Some(&token)).await.ok().json()["id"], id.as_str());
    let (other, _) = joined(&world).await;
    assert_eq!(poll(&world, &other, Some(&token)).await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn an_id_to_which_an_operator_gave_a_token_goes_by_that_one() {
    let world = open().await;
    let (id, token) = joined(&world).await;
    let written = Settings {
        children: ChildTokens::new(HashMap::from([(id.clone(), Token::new("written-down"))]), false),
        ..doors(false)
    };
    let world = world.restart_with(|options| options.auth = written).await;
    assert_eq!(poll(&world, &id, Some("written-down")).await.status, 200);
    assert_eq!(poll(&world, &id, Some(&token)).await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn only_so_many_join_and_only_so_often() {
    let world = World::with(|options| {
        options.auth = doors(false);
        options.rules.max_children = 2;
    })
    .await;
    let (first, _) = joined(&world).await;
    joined(&world).await;
    let full = join(&world, Some(DOOR), &json!({})).await;
    assert_eq!(
        (full.status, full.text()),
        (403, "2 children have joined, and more may not: revoke the tokens of some\n".to_owned())
    );
    world.send(world.request("DELETE", &format!("/api/v1/children/{first}/token"))).await.ok();
    joined(&world).await;
    // Whoever guesses is counted as well.
    let mut refused = Vec::new();
    for _ in 0..121 {
        refused.push(join(&world, Some("a-guess-of-somebody"), &json!({})).await.status);
    }
    assert_eq!((refused.first(), refused.last()), (Some(&401), Some(&429)));
    let late = join(&world, Some(DOOR), &json!({})).await;
    assert_eq!(
        (late.status, late.text()),
        (429, "too many wanted to join from this address; try again in a minute\n".to_owned())
    );
    // Those who are in are not meant.
    assert_eq!(poll(&world, "", None).await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_token_that_can_not_be_read_opens_nothing_until_it_is_revoked() {
    let world = open().await;
    let (id, token) = joined(&world).await;
    let (other, others) = joined(&world).await;
    world.sql("UPDATE settings SET value = '{\"digest\":\"0g\"}' WHERE name LIKE 'child_token/%' AND at_ms >= 0").await;
    let world = world.restart_with(|options| options.auth = doors(false)).await;
    assert_eq!(world.unreadable("settings").await, 2);
    for (id, token) in [(&id, Some(&token)), (&id, None), (&other, Some(&others))] {
        let answer = poll(&world, id, token.map(String::as_str)).await;
        assert_eq!(answer.status, 401);
        assert!(answer.text().starts_with("the token of this child can't be read"), "{}", answer.text());
    }
    world.send(world.request("DELETE", &format!("/api/v1/children/{id}/token"))).await.ok();
    let world = world.restart_with(|options| options.auth = doors(false)).await;
    assert_eq!(world.unreadable("settings").await, 1);
    assert!(poll(&world, &id, Some(&token)).await.text().contains("was revoked"));
    world.stop().await;
}

#[tokio::test]
async fn who_has_no_token_has_none_to_revoke() {
    let world = open().await;
    let child = poll(&world, "", None).await.ok().json()["id"].as_str().unwrap().to_owned();
    for id in [child.as_str(), "nobody"] {
        let none = world.send(world.request("DELETE", &format!("/api/v1/children/{id}/token"))).await;
        assert_eq!(
            none.problem(),
            format!("404 /problems/no-token: {id} has no token that it got by joining")
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_ends_when_its_token_is_revoked() {
    let world = open().await;
    let (id, token) = joined(&world).await;
    poll(&world, &id, Some(&token)).await.ok();
    let area: Value = serde_json::from_str(AREA).unwrap();
    let waiting = world.request("POST", "/poll?wait=1m").json(&json!({"id": id, "geographic_area": area}));
    let waiting = tokio::spawn(waiting.bearer_auth(&token).send());
    let waiters = &world.manager.engine.view().waiters;
    let began = Instant::now();
    while waiters.count() != 1 {
        assert!(began.elapsed() < DEADLINE, "nobody waits");
        tokio::task::yield_now().await;
    }
    world.send(world.request("DELETE", &format!("/api/v1/children/{id}/token"))).await.ok();
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.status(), 401);
    assert!(answer.text().await.unwrap().contains("was revoked"));
    world.stop().await;
}

/// What is stored now is read by all builds that follow.
#[tokio::test]
async fn tokens_are_stored_in_a_form_that_stays() {
    let world = open().await;
    world
        .sql(
            r#"INSERT INTO settings (name, value, at_ms) VALUES
                ('child_token/kid', '{"digest":"37bef339ea76a27650af33ae421acf11078347464d342d391919a2e3cfac0dbd","door":"edge"}', 0),
                ('child_token/sis', '{"digest":"afcfa18f2f3a6f36b2a4a6a1bcc0f5fa7f7ba6a3a1ba5b9c5a5ae0aafa31a9bc","door":"edge","revoked":true}', 0),
                ('child_token/new', '{"version":2,"digest":"x"}', 0)"#,
        )
        .await;
    let world = world.restart_with(|options| options.auth = doors(false)).await;
    assert_eq!(poll(&world, "kid", Some("kid-of-an-earlier-build")).await.ok().json()["id"], "kid");
    for (id, why) in [("kid", "own token is needed"), ("sis", "was revoked"), ("new", "can't be read")] {
        let answer = poll(&world, id, None).await;
        assert!(answer.status == 401 && answer.text().contains(why), "{id}: {answer:?}");
    }
    world.stop().await;
}

const NONCE: &str = "0123456789abcdef0123456789abcdef";

async fn join_as(world: &World, nonce: &str) -> Answer {
    join(world, Some(DOOR), &json!({"name": "kiosk", "kind": "agent", "nonce": nonce})).await
}

fn said(answer: &Answer) -> (String, String) {
    let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

async fn children(world: &World) -> usize {
    world.get("/api/v1/children").await.ok().json()["items"].as_array().unwrap().len()
}

/// Once each answer that was lost left a token that held for ever and that nobody had.
#[tokio::test]
async fn who_joins_again_with_its_nonce_is_the_same_child_with_the_same_token() {
    let mut world = open().await;
    // Twice at once, and again after that.
    let (one, two) = tokio::join!(join_as(&world, NONCE), join_as(&world, NONCE));
    let first = said(&one.ok());
    assert_eq!(first, said(&two.ok()));
    assert_eq!(first, said(&join_as(&world, NONCE).await.ok()));
    world = world.restart_with(|options| options.auth = doors(false)).await;
    assert_eq!(first, said(&join_as(&world, NONCE).await.ok()));
    let (id, token) = &first;
    assert!(token.len() == 64 && id.len() == 36 && !token.contains(NONCE));
    assert_eq!(poll(&world, id, Some(token)).await.status, 200);
    assert_eq!(poll(&world, id, Some(NONCE)).await.status, 401, "the nonce is no token");

    // With another nonce, or by another door, it is another.
    let other = said(&join_as(&world, &NONCE.replace('0', "f")).await.ok());
    assert!(other.0 != first.0 && other.1 != first.1);
    let body = json!({"nonce": NONCE});
    let lab = said(&join(&world, Some("another-door-of-the-lab"), &body).await.ok());
    assert!(lab.0 != first.0 && lab.1 != first.1);
    for short in ["", "0123456789abcdef", &"x".repeat(129), "0123456789abcdef 0123456789abcdef"] {
        let refused = join_as(&world, short).await;
        assert_eq!(refused.status, 400, "{short}");
        assert!(refused.text().contains("`nonce` has 32 to 128 characters"), "{}", refused.text());
    }
    // A token that was revoked does not come back.
    world.send(world.request("DELETE", &format!("/api/v1/children/{id}/token"))).await.ok();
    let refused = join_as(&world, NONCE).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text().contains("join with another nonce"));
    assert_eq!(poll(&world, id, Some(token)).await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn who_joins_again_takes_no_place_of_those_that_may() {
    let world = World::with(|options| {
        options.auth = doors(false);
        options.rules.max_children = 1;
    })
    .await;
    join_as(&world, NONCE).await.ok();
    join_as(&world, NONCE).await.ok();
    assert_eq!(join_as(&world, &NONCE.replace('0', "f")).await.status, 403);
    world.stop().await;
}

/// Once it held on, and whoever had it came back as a new child.
#[tokio::test]
async fn who_is_forgotten_has_no_token_any_more() {
    let mut world = open().await;
    let (id, token) = joined(&world).await;
    let (other, others) = joined(&world).await;
    poll(&world, &id, Some(&token)).await.ok();
    poll(&world, &other, Some(&others)).await.ok();
    world.send(world.request("DELETE", &format!("/api/v1/children/{id}"))).await.ok();
    for _ in 0..2 {
        for said in [id.as_str(), ""] {
            let refused = poll(&world, said, Some(&token)).await;
            assert_eq!(refused.status, 401, "{said}: {refused:?}");
            assert!(refused.text().contains("was revoked"), "{}", refused.text());
        }
        assert_eq!(poll(&world, &other, Some(&others)).await.status, 200);
        world = world.restart_with(|options| options.auth = doors(false)).await;
    }
    let trail = world.get("/api/v1/audit").await.ok().text();
    assert!(trail.contains("child_token_revoked"), "{trail}");
    world.stop().await;
}

async fn first_poll(world: &World, nonce: &str, token: Option<&str>) -> Answer {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": "", "nonce": nonce, "kind": "agent", "geographic_area": area});
    let request = world.request("POST", "/poll").json(&body);
    world.send(token.into_iter().fold(request, RequestBuilder::bearer_auth)).await
}

/// Once each was a child of its own, of which one never called again.
#[tokio::test]
async fn a_first_poll_that_comes_twice_makes_one_child() {
    let world = World::start().await;
    let (one, two) = tokio::join!(first_poll(&world, NONCE, None), first_poll(&world, NONCE, None));
    let id = one.ok().json()["id"].as_str().unwrap().to_owned();
    assert_eq!(two.ok().json()["id"], id.as_str());
    assert_eq!(first_poll(&world, NONCE, None).await.ok().json()["id"], id.as_str());
    assert_eq!(children(&world).await, 1);
    let other = first_poll(&world, &NONCE.replace('0', "f"), None).await.ok();
    assert_ne!(other.json()["id"], id.as_str());
    // Deployed agents have no nonce, and each first poll is a child.
    poll(&world, "", None).await.ok();
    poll(&world, "", None).await.ok();
    assert_eq!(children(&world).await, 4);
    world.stop().await;

    // With a token it is known who calls, with a nonce and without.
    let world = open().await;
    let (id, token) = joined(&world).await;
    for _ in 0..2 {
        assert_eq!(first_poll(&world, NONCE, Some(&token)).await.ok().json()["id"], id.as_str());
        assert_eq!(poll(&world, "", Some(&token)).await.ok().json()["id"], id.as_str());
    }
    assert_eq!(children(&world).await, 1);
    world.stop().await;
}
