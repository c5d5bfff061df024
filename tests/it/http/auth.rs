//! Who may do what.

use std::collections::HashMap;

use http_api::auth::{ChildTokens, OperatorToken, Settings, Token};
use serde_json::{Value, json};

use crate::world::{AREA, Answer, World, client, strategy};

const SECRET: &str = "a-secret-that-is-nowhere-else";

fn operators() -> Settings {
    Settings {
        operators: vec![OperatorToken::new("ada", SECRET), OperatorToken::new("bob", "bobs-own-secret")],
        operator_required: true,
        ..Settings::default()
    }
}

async fn with_token(world: &World, method: &str, path: &str, token: &str) -> Answer {
    world.send(world.request(method, path).bearer_auth(token)).await
}

#[tokio::test]
async fn operators_need_their_token_and_nobody_else_does() {
    let world = World::with(|options| options.auth = operators()).await;
    let mut seen = String::new();
    for (method, path) in [
        ("POST", "/release"),
        ("GET", "/api/v1/releases"),
        ("POST", "/api/v1/releases/a/abort"),
        ("DELETE", "/api/v1/children/a"),
        ("GET", "/api/v1/audit"),
        ("GET", "/events"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/release"),
        ("POST", "/poll"),
        ("GET", "/release/functions/a"),
        ("POST", "/result"),
        ("POST", "/end_stage"),
        ("POST", "/answers"),
        ("GET", "/nowhere"),
        ("PATCH", "/api/v1/releases"),
    ] {
        let none = world.call(method, path).await;
        let wrong = with_token(&world, method, path, "guess").await;
        let right = if path == "/events" {
            let answer = world.request(method, path).bearer_auth(SECRET).send().await.unwrap();
            answer.status().as_u16()
        } else {
            with_token(&world, method, path, SECRET).await.status
        };
        if none.status == 401 {
            assert_eq!(none.header("www-authenticate"), "Bearer");
            assert!(none.problem().contains("Bearer TOKEN"));
        }
        seen += &format!("{method} {path}: {} {} {right}\n", none.status, wrong.status);
    }
    insta::assert_snapshot!(seen, @"
    POST /release: 401 401 422
    GET /api/v1/releases: 401 401 200
    POST /api/v1/releases/a/abort: 401 401 404
    DELETE /api/v1/children/a: 401 401 404
    GET /api/v1/audit: 401 401 200
    GET /events: 401 401 200
    GET /metrics: 401 401 200
    GET /openapi.json: 401 401 200
    GET /healthz: 200 200 200
    GET /readyz: 200 200 200
    GET /release: 400 400 400
    POST /poll: 400 400 400
    GET /release/functions/a: 404 404 404
    POST /result: 400 400 400
    POST /end_stage: 400 400 400
    POST /answers: 400 400 400
    GET /nowhere: 404 404 404
    PATCH /api/v1/releases: 405 405 405
    ");
    world.stop().await;
}

#[tokio::test]
async fn the_name_of_the_token_is_in_the_audit_trail_and_its_secret_nowhere() {
    let world = World::with(|options| options.auth = operators()).await;
    let shown = format!("{:?}", operators());
    assert!(!shown.contains("secret") && shown.contains("ada"), "{shown}");
    let request = world.request("POST", "/release?by=mallory").bearer_auth("bobs-own-secret");
    let request = request.header("content-type", "application/yaml").body(strategy("a"));
    world.send(request).await.ok();
    let trail = with_token(&world, "GET", "/api/v1/audit", SECRET).await.ok();
    assert_eq!(trail.json()["items"][0]["actor"], "operator:bob");
    assert!(!trail.text().contains("secret"));
    world.stop().await;
}

#[tokio::test]
async fn a_token_that_is_sent_though_none_is_needed_must_be_known() {
    let open = Settings { operator_required: false, ..operators() };
    let world = World::with(|options| options.auth = open).await;
    assert_eq!(world.get("/api/v1/releases").await.status, 200);
    assert_eq!(with_token(&world, "GET", "/api/v1/releases", "guess").await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn a_page_of_another_site_can_not_release() {
    let world = World::start().await;
    let from = |origin: String| {
        let request = world.request("POST", "/release").header("origin", origin);
        world.send(request.header("content-type", "text/plain").body(strategy("a")))
    };
    let refused = from("https://elsewhere.example".to_owned()).await;
    assert_eq!(refused.problem(), "403 about:blank: a page of another site may not act here");
    assert_eq!(from(format!("http://{}", world.manager.address)).await.status, 201);
    world.stop().await;
}

#[tokio::test]
async fn children_with_a_token_must_send_their_own() {
    let tokens: HashMap<String, Token> =
        [("kid".to_owned(), Token::new("kids-secret")), ("sis".to_owned(), Token::new("sis-secret"))].into();
    let children = ChildTokens::new(tokens, true);
    let world = World::with(|options| {
        options.auth = Settings { children, ..Settings::default() };
        options.child_listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    assert_ne!(world.manager.address, world.manager.child_address);
    let area: Value = serde_json::from_str(AREA).unwrap();
    let poll = async |id: &str, token: Option<&str>| {
        let request = world.request("POST", "/poll").json(&json!({"id": id, "geographic_area": area}));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        world.send(request).await
    };
    // Who asks for an id is whose token it has.
    assert_eq!(poll("", Some("kids-secret")).await.ok().json()["id"], "kid");
    let none = poll("", None).await;
    assert_eq!((none.status, none.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(none.text(), "this child's own token is needed: Authorization: Bearer TOKEN\n");
    assert_eq!(poll("kid", Some("kids-secret")).await.status, 200);
    for (id, token) in
        [("kid", None), ("kid", Some("sis-secret")), ("other", Some("kids-secret")), ("", Some("x"))]
    {
        assert_eq!(poll(id, token).await.status, 401, "{id} {token:?}");
    }
    world.submit(&strategy("a")).await.ok();
    let fetch = "/release?childID=kid&releaseID=a";
    assert_eq!(world.get(fetch).await.status, 401);
    assert_eq!(with_token(&world, "GET", fetch, "sis-secret").await.status, 401);
    assert_eq!(with_token(&world, "GET", fetch, "kids-secret").await.status, 200);
    assert_eq!(world.get("/release/functions/a").await.status, 401);
    assert_eq!(with_token(&world, "GET", "/release/functions/a", "kids-secret").await.status, 200);
    assert_eq!(world.report("kid", "a", "x", 4).await.status, 401);
    assert_eq!(world.end_stage("kid", "a", "x").await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn with_an_address_of_their_own_children_are_answered_only_there() {
    let world = World::with(|options| options.child_listen = Some("127.0.0.1:0".parse().unwrap())).await;
    let client = client().build().unwrap();
    let status = async |address, method: &str, path: &str| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        client.request(method, format!("http://{address}{path}")).send().await.unwrap().status().as_u16()
    };
    let (own, main) = (world.manager.child_address, world.manager.address);
    assert_eq!((status(own, "POST", "/poll").await, status(main, "POST", "/poll").await), (400, 404));
    assert_eq!((status(own, "GET", "/release").await, status(main, "GET", "/release").await), (400, 405));
    assert_eq!((status(own, "POST", "/release").await, status(main, "POST", "/release").await), (405, 422));
    assert_eq!(
        (status(own, "GET", "/api/v1/releases").await, status(main, "GET", "/api/v1/releases").await),
        (404, 200)
    );
    assert_eq!((status(own, "GET", "/metrics").await, status(main, "GET", "/metrics").await), (404, 200));
    world.stop().await;
}
