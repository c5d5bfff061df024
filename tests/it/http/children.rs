//! What operators do to children, and what runs where.

use serde_json::{Value, json};

use crate::world::{World, settled, strategy};

#[tokio::test]
async fn a_child_is_shown_labelled_cordoned_and_forgotten() {
    let world = World::start().await;
    let child = world.child().await;
    let path = format!("/api/v1/children/{child}");
    let shown = world.get(&path).await.ok().json();
    assert_eq!(shown["area"]["type"], "Polygon");
    assert_eq!(
        (&shown["kind"], &shown["cordon"], &shown["runtimes"]),
        (&json!("agent"), &json!("open"), &Value::Null)
    );
    assert_eq!(settled(shown["doing"].as_str().unwrap()), "nothing waits for it");
    let label = format!("{path}/labels/tier");
    let body = json!({"value": "edge", "by": "eve", "note": "moved"});
    assert_eq!(world.send_json("PUT", &label, &body).await.ok().json()["labels"], json!({"tier": "edge"}));
    assert_eq!(
        world.get("/api/v1/children?label=tier:edge").await.ok().json()["items"][0]["id"],
        json!(child)
    );
    assert_eq!(world.get("/api/v1/children?label=tier:cloud").await.ok().json()["items"], json!([]));
    assert_eq!(world.call("DELETE", &label).await.ok().json()["labels"], json!({}));
    assert_eq!(world.call("POST", &format!("{path}/cordon")).await.ok().json()["cordon"], "cordoned");
    assert_eq!(world.submit(&strategy("a")).await.ok().json()["excluded"], json!({"cordoned": 1}));
    assert_eq!(
        world.get("/api/v1/children?cordon=cordoned").await.ok().json()["items"][0]["id"],
        json!(child)
    );
    assert_eq!(world.call("POST", &format!("{path}/uncordon")).await.ok().json()["cordon"], "open");
    world.submit(&strategy("b")).await.ok();
    let waits = world.get(&path).await.ok().json();
    assert_eq!(waits["releases"], json!(["b"]));
    assert!(waits["doing"].as_str().unwrap().starts_with("release b: waits to be fetched"), "{waits}");
    assert_eq!(world.call("POST", &format!("{path}/drain")).await.ok().json()["cordon"], "drained");
    assert_eq!(world.get("/api/v1/releases/b").await.ok().json()["state"], "NoParticipants");
    assert_eq!(world.call("DELETE", &path).await.status, 204);
    let gone = format!("404 /problems/unknown-child: child {child} is not known here");
    for (method, path) in [("GET", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/drain"))]
    {
        assert_eq!(world.call(method, &path).await.problem(), gone);
    }
    assert_eq!(world.send_json("PUT", &label, &body).await.problem(), gone);
    let trail = world.get("/api/v1/audit").await.ok().json();
    let by_eve =
        trail["items"].as_array().unwrap().iter().find(|entry| entry["actor"] == "operator:eve").unwrap();
    assert_eq!(
        (&by_eve["events"][0]["event"], &by_eve["events"][0]["note"]),
        (&json!("child_labelled"), &json!("moved"))
    );
    world.stop().await;
}

#[tokio::test]
async fn bad_actions_are_refused() {
    let world = World::start().await;
    let child = world.child().await;
    let label = format!("/api/v1/children/{child}/labels/tier");
    let cordon = format!("/api/v1/children/{child}/cordon");
    let long = "x".repeat(200);
    let mut seen = String::new();
    for (method, path, body) in [
        ("PUT", &label, json!({})),
        ("PUT", &label, json!({"value": 1})),
        ("PUT", &label, json!({"value": long})),
        ("PUT", &label, json!({"value": "a\u{0}b"})),
        ("PUT", &label, json!({"value": "a", "nota": "b"})),
        ("POST", &cordon, json!({"by": "a\nb"})),
        ("POST", &cordon, json!({"by": "x".repeat(65)})),
        ("POST", &cordon, json!({"note": "a\u{0}"})),
        ("POST", &cordon, json!({"note": "x".repeat(2000)})),
        ("POST", &cordon, json!({"note": "x".repeat(20_000)})),
        ("POST", &cordon, json!([])),
    ] {
        seen += &format!("{}\n", world.send_json(method, path, &body).await.problem());
    }
    seen += &format!("{}\n", world.call("PUT", &label).await.problem());
    let text = world.request("POST", &cordon).header("content-type", "text/plain").body("{}");
    seen += &format!("{}\n", world.send(text).await.problem());
    let cut = world.request("POST", &cordon).header("content-type", "application/json").body("{\"by\": ");
    seen += &format!("{}\n", world.send(cut).await.problem());
    let deep =
        world.request("POST", &cordon).header("content-type", "application/json").body("[".repeat(10_000));
    seen += &format!("{}\n", world.send(deep).await.problem());
    insta::assert_snapshot!(seen, @r#"
    400 about:blank: the body can't be read: missing field `value` at line 1 column 2
    400 about:blank: the body can't be read: invalid type: integer `1`, expected a string at line 1 column 10
    400 about:blank: a label's value has at most 128 bytes and no control characters
    400 about:blank: a label's value has at most 128 bytes and no control characters
    400 about:blank: the body can't be read: unknown field `nota`, expected one of `value`, `by`, `note` at line 1 column 7
    400 about:blank: `by` has 1 to 64 characters, none of them a control character
    400 about:blank: `by` has 1 to 64 characters, none of them a control character
    400 about:blank: `note` has at most 1000 characters and no NUL
    400 about:blank: `note` has at most 1000 characters and no NUL
    413 about:blank: the body is larger than this call accepts
    400 about:blank: the body must be a JSON object
    400 about:blank: the body must be JSON: {"value": "edge"}
    415 about:blank: the body must be JSON: send it with Content-Type: application/json
    400 about:blank: the body can't be read: EOF while parsing a value at line 1 column 7
    400 about:blank: the body must be a JSON object
    "#);
    assert_eq!(world.get(&format!("/api/v1/children/{child}")).await.ok().json()["cordon"], "open");
    world.stop().await;
}

#[tokio::test]
async fn children_come_in_pages_and_by_their_silence() {
    let world = World::start().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(world.child().await);
    }
    let first = world.get("/api/v1/children?limit=3").await.ok().json();
    let second = world
        .get(&format!("/api/v1/children?limit=3&after={}", first["next"].as_str().unwrap()))
        .await
        .ok()
        .json();
    let ids: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|child| child["id"].as_str().unwrap())
        .collect();
    assert_eq!((ids, &second["next"]), (all.iter().map(String::as_str).collect(), &Value::Null));
    assert_eq!(world.get("/api/v1/children?silent_for=1h").await.ok().json()["items"], json!([]));
    assert_eq!(
        world.get("/api/v1/children?silent_for=0s&kind=agent").await.ok().json()["items"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    assert_eq!(world.get("/api/v1/children?kind=rm").await.ok().json()["items"], json!([]));
    // No silence is older than the manager's life, but what was before is not known.
    let world = world.restart().await;
    assert_eq!(world.get("/api/v1/children?silent_for=1h").await.ok().json()["items"], json!([]));
    let shown = world.get(&format!("/api/v1/children/{}", all[0])).await.ok().json();
    assert_eq!(shown["last_call"], Value::Null);
    assert_eq!(shown["doing"], "nothing waits for it, no call since the manager started");
    world.stop().await;
}

#[tokio::test]
async fn children_are_found_by_their_names_and_by_what_their_ids_begin_with() {
    let world = World::start().await;
    let mut known = Vec::new();
    for name in ["edge-1", "edge-1", "edge-2"] {
        let poll = json!({"id": "", "kind": "agent", "name": name});
        known.push(world.post("/poll", &poll).await.ok().json()["id"].as_str().unwrap().to_owned());
    }
    let named = async |named: &str| {
        let page = world.get(&format!("/api/v1/children?named={named}")).await.ok().json();
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|child| child["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(named("edge-1").await, known[..2]);
    assert_eq!(named("edge-2").await, known[2..]);
    assert_eq!(named("edge").await, [""; 0], "a name is meant as a whole");
    assert_eq!(named(&known[0]).await, known[..1]);
    assert!(named(&known[1][..8]).await.contains(&known[1]));
    assert_eq!(named(&known[1][..3]).await, [""; 0], "too little of an id");
    let long = world.get(&format!("/api/v1/children?named={}", "x".repeat(201))).await;
    assert_eq!(long.problem(), "400 about:blank: `named` has at most 200 characters");
    world.stop().await;
}

#[tokio::test]
async fn what_runs_where_and_who_calls_without_being_known() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    world.run(&one, "a").await;
    world.run(&two, "a").await;
    let all = world.get("/api/v1/deployments").await.ok().json();
    let first = &all["items"][0];
    assert_eq!(
        (&first["child"], &first["function"], &first["release"], &first["variant"], &first["path"]),
        (&json!(one), &json!("sieve"), &json!("a"), &json!("new"), &json!("fns/sieve_new"))
    );
    let page = world.get("/api/v1/deployments?limit=1").await.ok().json();
    let next = page["next"].as_str().unwrap();
    let rest = world.get(&format!("/api/v1/deployments?limit=1&after={next}")).await.ok().json();
    assert_eq!(rest["items"][0]["child"], json!(two));
    let of_two = world.get(&format!("/api/v1/deployments?child={two}&function=sieve")).await.ok().json();
    assert_eq!(of_two["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.get("/api/v1/deployments?function=x").await.ok().json()["items"], json!([]));
    assert_eq!(world.get("/api/v1/deployments?child=x").await.status, 404);
    for _ in 0..2 {
        assert_eq!(world.report("stranger", "a", "x", 4).await.status, 404);
    }
    world.end_stage("stranger", "a", "x").await;
    let callers = world.get("/api/v1/callers/unknown?limit=1").await.ok().json();
    assert_eq!(
        (&callers["items"][0]["id"], &callers["items"][0]["call"], &callers["items"][0]["count"]),
        (&json!("stranger"), &json!("/result"), &json!(2))
    );
    let rest = world
        .get(&format!("/api/v1/callers/unknown?after={}", callers["next"].as_str().unwrap()))
        .await
        .ok()
        .json();
    assert_eq!((&rest["items"][0]["call"], &rest["next"]), (&json!("/end_stage"), &Value::Null));
    world.stop().await;
}
