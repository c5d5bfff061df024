//! The five calls of children: every refusal, as deployed agents see it: a status and one line of text.

use serde_json::{Value, json};

use crate::world::{AREA, STAGE, World, strategy, summary};

async fn raw(
    world: &World,
    method: &str,
    path: &str,
    kind: Option<&str>,
    body: impl Into<reqwest::Body>,
) -> String {
    let request = world.request(method, path).body(body);
    let request = match kind {
        Some(kind) => request.header("content-type", kind),
        None => request,
    };
    let answer = world.send(request).await;
    let text = answer.text();
    assert!(answer.status >= 400, "{method} {path}: {text}");
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:?}");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one line: {text:?}");
    format!("{} {text}", answer.status)
}

async fn post(world: &World, path: &str, body: Value) -> String {
    raw(world, "POST", path, Some("application/json"), body.to_string()).await
}

#[tokio::test]
async fn what_can_not_be_read_is_a_400_and_one_line() {
    let world = World::start().await;
    let child = world.child().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let ring = |positions: Value| json!({"id": "", "geographic_area": {"type": "Polygon", "coordinates": [positions]}});
    let mut seen = String::new();
    for body in [
        json!({"id": "a/b", "geographic_area": area}),
        json!({"id": "a\nb", "geographic_area": area}),
        json!({"id": "x".repeat(65), "geographic_area": area}),
        json!({"id": {}, "geographic_area": area}),
        json!({"id": "", "geographic_area": area, "number_of_children": -1}),
        json!({"id": "", "geographic_area": area, "name": "a\u{0}b"}),
        json!({"id": "", "geographic_area": {"type": "Point", "coordinates": [1, 2]}}),
        ring(json!([[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]])),
        ring(json!([[0, 0], [1, 1], [0, 0]])),
        ring(json!([[0, 0], [1, 0], [1, 1], [0, 1]])),
        ring(json!([[0, 0], [1000, 0], [1, 1], [0, 0]])),
        ring(json!([["a", 0], [1, 0], [1, 1], [0, 0]])),
        json!([]),
    ] {
        seen += &format!("poll {}", post(&world, "/poll", body).await);
    }
    for text in ["", "{", "nul", "\u{1}", "{\"id\": NaN}", "[[[["] {
        seen += &format!("poll {text:?} {}", raw(&world, "POST", "/poll", None, text).await);
    }
    for path in ["/release", "/release?childID=a", "/release?releaseID=a", "/release?childID=%FF&releaseID=a"]
    {
        seen += &format!("{path} {}", raw(&world, "GET", path, None, "").await);
    }
    let result = |summaries: Value| json!({"id": child, "release_id": "a", "stage_summaries": summaries});
    let mut negative = summary(STAGE, 4);
    negative["f2_err_rate"] = json!(-1);
    for body in [
        json!({}),
        json!({"id": child, "stage_summaries": []}),
        result(json!([])),
        result(json!(["x"])),
        result(json!([{"stage_name": STAGE}])),
        result(json!([summary(STAGE, 7)])),
        result(json!([negative])),
        result(vec![summary(STAGE, 4); 65].into()),
    ] {
        seen += &format!("result {}", post(&world, "/result", body).await);
    }
    for body in [
        json!({}),
        json!({"id": child, "strategy_id": "a"}),
        json!({"id": child, "strategy_id": [], "stage_name": "x"}),
    ] {
        seen += &format!("end_stage {}", post(&world, "/end_stage", body).await);
    }
    insta::assert_snapshot!(seen, @r#"
    poll 400 `id`: an id consists of letters, digits and . _ ~ -, not of '/'
    poll 400 `id`: an id consists of letters, digits and . _ ~ -, not of '\n'
    poll 400 `id`: an id has at most 64 bytes, this one has 65
    poll 400 the body can't be read: `id` must be a string or a number at line 1 column 134
    poll 400 the body can't be read: invalid value: integer `-1`, expected `number_of_children` as a whole number from 0 to 4294967295 at line 1 column 157
    poll 400 `name` has a control character in it
    poll 400 `geographic_area`: an area is a Polygon or a MultiPolygon, not a Point
    poll 400 `geographic_area`: the area is not valid: a ring crosses itself
    poll 400 `geographic_area`: a ring has 3 positions, at least 4 are needed
    poll 400 `geographic_area`: a ring does not end where it begins
    poll 400 `geographic_area`: longitude 1000 is out of range
    poll 400 `geographic_area`: the area is not GeoJSON: Error while deserializing GeoJSON: invalid type: string "a", expected a coordinate element (number or array) at line 1 column 21
    poll 400 the body must be a JSON object
    poll "" 400 the body must be a JSON object
    poll "{" 400 the body can't be read: EOF while parsing an object at line 1 column 1
    poll "nul" 400 the body must be a JSON object
    poll "\u{1}" 400 the body must be a JSON object
    poll "{\"id\": NaN}" 400 the body can't be read: expected value at line 1 column 8
    poll "[[[[" 400 the body must be a JSON object
    /release 400 the parameter childID is missing
    /release?childID=a 400 the parameter releaseID is missing
    /release?releaseID=a 400 the parameter childID is missing
    /release?childID=%FF&releaseID=a 404 child � is not known here
    result 400 the body can't be read: missing field `id` at line 1 column 2
    result 400 the body can't be read: missing field `release_id` at line 1 column 66
    result 400 `stage_summaries` must hold at least one summary
    result 400 the body can't be read: invalid type: string "x", expected struct StageSummary at line 1 column 84
    result 400 the body can't be read: missing field `status` at line 1 column 114
    result 400 the body can't be read: invalid value: integer `7`, expected `status` as a number from 0 to 6 or a name from `Pending` to `Error` at line 1 column 340
    result 400 `stage_summaries[0].f2_err_rate` is -1: a rate is from 0 to 1
    result 400 `stage_summaries` holds at most 64 entries, this one has 65
    end_stage 400 the body can't be read: missing field `id` at line 1 column 2
    end_stage 400 the body can't be read: missing field `stage_name` at line 1 column 63
    end_stage 400 the body can't be read: `strategy_id` must be a string or a number at line 1 column 79
    "#);
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_known_is_a_404_and_what_does_not_fit_a_409() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    let mut seen = String::new();
    let mut note = |line: String| seen.push_str(&line.replace(&child, "CHILD"));
    let report = async |id: &str, offer: &str, stage: &str, status: u8| {
        let body = json!({"id": id, "release_id": offer, "stage_summaries": [summary(stage, status)]});
        format!("result {}", post(&world, "/result", body).await)
    };
    let end = async |id: &str, offer: &str, stage: &str| {
        let body = json!({"id": id, "strategy_id": offer, "stage_name": stage});
        format!("end_stage {}", post(&world, "/end_stage", body).await)
    };
    for path in [
        "/release?childID=stranger&releaseID=a".to_owned(),
        format!("/release?childID={child}&releaseID=b"),
        format!("/release?childID={child}&releaseID=a.2"),
        format!("/release?childID={child}&releaseID=a%0Ab"),
        "/release/functions/b".to_owned(),
        "/release/functions/a%2Fb".to_owned(),
        "/release/functions/..%2F..%2Fetc".to_owned(),
    ] {
        let refused = raw(&world, "GET", &path, None, "").await;
        note(format!("{path} {refused}"));
    }
    note(report("stranger", "a", STAGE, 4).await);
    note(report(&child, "b", STAGE, 4).await);
    // Before it was downloaded nothing has started.
    note(report(&child, "a", STAGE, 4).await);
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    note(end(&child, "a", "other").await);
    note(report(&child, "a", "other", 4).await);
    note(report(&child, "a", STAGE, 3).await);
    note(report(&child, "a", STAGE, 0).await);
    world.report(&child, "a", STAGE, 4).await.ok();
    note(report(&child, "a", STAGE, 5).await);
    insta::assert_snapshot!(seen, @r#"
    /release?childID=stranger&releaseID=a 404 child stranger is not known here
    /release?childID=CHILD&releaseID=b 404 b was never offered to child CHILD
    /release?childID=CHILD&releaseID=a.2 404 a.2 was never offered to child CHILD
    /release?childID=CHILD&releaseID=a%0Ab 404 a b was never offered to child CHILD
    /release/functions/b 404 there is no release b
    /release/functions/a%2Fb 404 there is no release a/b
    /release/functions/..%2F..%2Fetc 404 there is no release ../../etc
    result 404 child stranger is not known here
    result 404 b was never offered to child CHILD
    result 409 stage "Canary 5 Percent" of a has not started for this child
    end_stage 404 a has no stage "other"
    result 409 a has no stage "other"
    result 400 a child reports InProgress, SuccessWaiting, Completed, Failure or Error, not ShouldEnd
    result 400 a child reports InProgress, SuccessWaiting, Completed, Failure or Error, not Pending
    result 409 stage "Canary 5 Percent" of a has ended with another result
    "#);
    world.stop().await;
}

#[tokio::test]
async fn wrong_methods_types_and_sizes_are_refused() {
    let world = World::start().await;
    let mut seen = String::new();
    for (method, path) in [
        ("GET", "/poll"),
        ("PUT", "/poll"),
        ("DELETE", "/release"),
        ("POST", "/release/functions/a"),
        ("GET", "/result"),
        ("GET", "/end_stage"),
    ] {
        seen += &format!("{method} {path} {}", raw(&world, method, path, None, "").await);
    }
    for (path, kind) in
        [("/poll", "text/plain"), ("/result", "application/xml"), ("/end_stage", "application/yaml")]
    {
        seen += &format!("{path} {kind} {}", raw(&world, "POST", path, Some(kind), "{}").await);
    }
    for (path, kib) in [("/poll", 300), ("/result", 1100), ("/end_stage", 10)] {
        let body = format!("{{\"id\": \"{}\"}}", "x".repeat(kib << 10));
        seen +=
            &format!("{path} {kib} KiB {}", raw(&world, "POST", path, Some("application/json"), body).await);
    }
    let deep = format!("{{\"id\": {}", "[".repeat(100_000));
    seen += &format!("deep {}", raw(&world, "POST", "/poll", Some("application/json"), deep).await);
    insta::assert_snapshot!(seen, @"
    GET /poll 405 GET is not a method of this path
    PUT /poll 405 PUT is not a method of this path
    DELETE /release 405 DELETE is not a method of this path
    POST /release/functions/a 405 POST is not a method of this path
    GET /result 405 GET is not a method of this path
    GET /end_stage 405 GET is not a method of this path
    /poll text/plain 415 the body must be application/json
    /result application/xml 415 the body must be application/json
    /end_stage application/yaml 415 the body must be application/json
    /poll 300 KiB 413 the body is larger than this call accepts
    /result 1100 KiB 413 the body is larger than this call accepts
    /end_stage 10 KiB 413 the body is larger than this call accepts
    deep 400 the body can't be read: EOF while parsing a list at line 1 column 100007
    ");
    world.stop().await;
}

/// An agent as it is deployed reads nothing but what it knows; one that names features learns those of its manager.
#[tokio::test]
async fn poll_answer_lists_features_only_for_children_naming_some() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let poll = async |body: &Value| world.post("/poll", body).await.ok();
    let plain = |id: &str| json!({"id": id, "geographic_area": area, "number_of_children": 0});
    let naming = |id: &str, features: Value| {
        let mut body = plain(id);
        (body["kind"], body["capabilities"]) = (json!("agent"), json!({"features": features}));
        body
    };
    let id = |body: &Value| body["id"].as_str().unwrap().to_owned();
    let deployed = id(&poll(&plain("")).await.json());
    let newer = id(&poll(&naming("", json!(["interim", "values"]))).await.json());
    let other = id(&poll(&naming("", json!(["brass"]))).await.json());
    let unnamed = id(&poll(&naming("", json!([]))).await.json());
    for offer in ["", "bytes"] {
        if !offer.is_empty() {
            world.submit(&strategy(offer)).await.ok();
        }
        // The second time the engine isn't asked.
        for _ in 0..2 {
            let as_ever = |child: &str| format!("{{\"id\":\"{child}\",\"new_release\":\"{offer}\"}}\n");
            for (child, body) in [(&deployed, plain(&deployed)), (&unnamed, naming(&unnamed, json!([])))] {
                let answer = poll(&body).await;
                assert_eq!(answer.text(), as_ever(child));
                assert_eq!(answer.header("content-type"), "application/json");
            }
            let newer_body = naming(&newer, json!(["interim", "values"]));
            for (child, body) in [(&newer, newer_body), (&other, naming(&other, json!(["brass"])))] {
                let told = "\"features\":[\"interim\",\"values\",\"groups\",\"routers\"]";
                let expected = format!("{{\"id\":\"{child}\",\"new_release\":\"{offer}\",{told}}}");
                assert_eq!(poll(&body).await.text(), expected);
            }
        }
    }
    world.stop().await;
}
