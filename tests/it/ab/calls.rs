//! What each call takes, and how it refuses what it doesn't.

use serde_json::{Value, json};

use super::player::{Player, body, two_stages};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_that_cant_be_taken_is_named() {
    let player = Player::start().await;
    let group = json!({"name": "edge", "labels": {"tier": "edge"}});
    player.world.post("/api/v1/target-groups", &group).await.ok();
    let elsewhere = json!({"name": "elsewhere", "addresses": ["127.0.0.1:9999"]});
    player.world.post("/api/v1/target-groups", &elsewhere).await.ok();
    let digest = "0".repeat(64);
    player.world.post("/api/v1/versions", &json!({"name": "built", "digest": digest})).await.ok();
    let good = body("r", &two_stages());
    let sticky = |key: &str| json!({"type": "sticky", "stickyKey": key, "percentages": {"A": 90, "B": 10}});
    let percentages = |of: Value| json!({"type": "percentage", "percentages": of});
    let many: Vec<Value> = (0..9).map(|n| json!({"name": format!("V{n}"), "releaseId": "v41"})).collect();
    let cases: Vec<(&str, Value, &str)> = vec![
        ("environmentId", json!("nowhere"), "environmentId"),
        ("name", json!(""), "name"),
        ("variations", json!([{"name": "A", "releaseId": "v41"}]), "variations"),
        ("variations", json!(many), "variations"),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "A", "releaseId": "v42"}]),
            "variations[1].name",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B;", "releaseId": "v42"}]),
            "variations[1].name",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v0"}]),
            "variations[1].releaseId",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42", "targetGroupId": "none"}]),
            "variations[1].targetGroupId",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42", "targetGroupId": "edge"}]),
            "variations[0].releaseId",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42", "targetGroupId": "elsewhere"}]),
            "variations[1].targetGroupId",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "built"}]),
            "variations[1].targetGroupId",
        ),
        (
            "variations",
            json!([{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42", "trafficPercentage": 20}]),
            "variations[1].trafficPercentage",
        ),
        ("trafficSplit", json!({"type": "random"}), "trafficSplit.type"),
        ("trafficSplit", percentages(json!({"A": 80, "B": 10})), "trafficSplit.percentages"),
        ("trafficSplit", percentages(json!({"A": 80, "B": 20})), "trafficSplit.percentages"),
        ("trafficSplit", percentages(json!({"A": 90, "C": 10})), "trafficSplit.percentages.C"),
        ("trafficSplit", percentages(json!({"A": 89.995, "B": 10.005})), "trafficSplit.percentages.A"),
        (
            "trafficSplit",
            json!({"type": "sticky", "percentages": {"A": 90, "B": 10}}),
            "trafficSplit.stickyKey",
        ),
        ("trafficSplit", sticky("body:x"), "trafficSplit.stickyKey"),
        ("trafficSplit", sticky("cookie:a;b"), "trafficSplit.stickyKey"),
        (
            "trafficSplit",
            json!({"type": "header", "percentages": {"A": 90, "B": 10}}),
            "trafficSplit.headerMatch",
        ),
        (
            "trafficSplit",
            json!({"type": "header", "percentages": {"A": 90, "B": 10}, "headerMatch": {"header": "X", "values": {"1": "C"}}}),
            "trafficSplit.headerMatch.values.1",
        ),
        ("rolloutStrategy", json!("canary-2"), "rolloutStrategy"),
        ("rolloutStrategy", json!(7), "rolloutStrategy"),
        ("rolloutStrategy", json!({"autoAdvance": true}), "rolloutStrategy.stages"),
        ("rolloutStrategy", json!({"stages": []}), "rolloutStrategy.stages"),
        (
            "rolloutStrategy",
            json!({"stages": [{"trafficPercentage": 10.001, "durationSeconds": 0}]}),
            "rolloutStrategy.stages[0].trafficPercentage",
        ),
        (
            "rolloutStrategy",
            json!({"name": "canary-10-25-50-100", "stages": [{"trafficPercentage": 10, "durationSeconds": 0}]}),
            "rolloutStrategy.name",
        ),
    ];
    for (key, value, field) in cases {
        let mut wrong = good.clone();
        wrong[key] = value.clone();
        let answer = player.create(&wrong).await;
        let problem = answer.problem();
        assert_eq!(answer.status, 422, "{key} = {value}: {problem}");
        assert!(
            problem.starts_with(&format!("422 /problems/invalid-field: `{field}`: ")),
            "{key} = {value}: {problem}"
        );
    }
    player.create(&good).await.ok();
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_body_twice_is_one_release_and_a_name_has_one_content() {
    let player = Player::start().await;
    let first = player.create(&body("Checkout, version 42", &two_stages())).await;
    let again = player.create(&body("Checkout, version 42", &two_stages())).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let mut other = body("Checkout, version 42", &two_stages());
    other["trafficSplit"]["stickyKey"] = json!("cookie:cm");
    let taken = player.create(&other).await;
    assert!(taken.problem().starts_with("409 /problems/id-taken"), "{}", taken.problem());
    let shown = first.json();
    assert_eq!(shown["name"], "Checkout, version 42");
    let release = shown["release"].as_str().unwrap();
    assert!(release.starts_with("Checkout--version-42-"), "{release}");
    assert_eq!(
        player.shown(release).await,
        player.shown(shown["id"].as_str().unwrap()).await,
        "either id is accepted"
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_plain_arrays_filtered_and_paged_by_links() {
    let player = Player::start().await;
    for name in ["r1", "r2", "r3"] {
        player.create(&body(name, &two_stages())).await.ok();
    }
    player.act("r2", "rollback", &Value::Null).await.ok();
    let names = |listed: &Value| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = player.world.get("/api/v1/ab-releases").await.ok();
    assert_eq!((names(&all.json()), all.header("link")), (vec!["r3".into(), "r2".into(), "r1".into()], ""));
    let created = player.world.get("/api/v1/ab-releases?status=created").await.ok().json();
    assert_eq!(names(&created), ["r3", "r1"]);
    assert_eq!(names(&player.world.get("/api/v1/ab-releases?status=rolled_back").await.ok().json()), ["r2"]);
    let environment = all.json()[0]["environmentId"].as_str().unwrap().to_owned();
    for named in ["shop-prod", &environment] {
        let listed =
            player.world.get(&format!("/api/v1/ab-releases?environmentId={named}")).await.ok().json();
        assert_eq!(names(&listed).len(), 3, "{named}");
    }
    assert_eq!(
        names(&player.world.get("/api/v1/ab-releases?environmentId=other").await.ok().json()),
        [""; 0]
    );
    let (mut path, mut found) = ("/api/v1/ab-releases?status=created&limit=1".to_owned(), Vec::new());
    loop {
        let page = player.world.get(&path).await.ok();
        found.extend(names(&page.json()));
        let link = page.header("link").to_owned();
        let Some(next) = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\"")) else {
            break;
        };
        path = next.to_owned();
    }
    assert_eq!(found, ["r3", "r1"]);
    assert_eq!(player.world.get("/api/v1/ab-releases?status=paused").await.status, 400);
    for path in ["", "/start", "/advance", "/rollback", "/traffic", "/health"] {
        let method = if ["", "/traffic", "/health"].contains(&path) { "GET" } else { "POST" };
        let answer = player.world.call(method, &format!("/api/v1/ab-releases/none{path}")).await;
        assert!(
            answer.problem().starts_with("404 /problems/unknown-ab-release"),
            "{path}: {}",
            answer.problem()
        );
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strategies_are_found_by_name_and_by_uuid() {
    let player = Player::start().await;
    let listed = player.world.get("/api/v1/rollout-strategies").await.ok().json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["blue-green-gradual", "blue-green-instant", "canary-1-5-10-50-100", "canary-10-25-50-100"]
    );
    for template in listed.as_array().unwrap() {
        for id in ["id", "name"] {
            let path = format!("/api/v1/rollout-strategies/{}", template[id].as_str().unwrap());
            assert_eq!(player.world.get(&path).await.ok().json(), *template);
        }
    }
    let standard = &listed[3];
    let stage = |traffic: f64, seconds: f64, asks: bool| json!({"trafficPercentage": traffic, "durationSeconds": seconds, "healthThreshold": 95.0, "requireApproval": asks});
    let expected = [
        stage(10.0, 300.0, false),
        stage(25.0, 600.0, false),
        stage(50.0, 900.0, true),
        stage(100.0, 0.0, false),
    ];
    assert_eq!(standard["stages"], json!(expected), "exactly the numbers of the interface");
    assert_eq!((&standard["autoAdvance"], &standard["rollbackOnFailure"]), (&json!(true), &json!(true)));
    assert_eq!((&standard["healthCheckInterval"], &standard["builtIn"]), (&json!(30.0), &json!(true)));
    let unknown = player.world.get("/api/v1/rollout-strategies/none").await;
    assert!(unknown.problem().starts_with("404 /problems/unknown-rollout-strategy"));
    // One by its UUID, and what it stands for is shown.
    let mut by_id = body("r", &standard["id"]);
    by_id["trafficSplit"] = json!({"type": "percentage"});
    let created = player.create(&by_id).await.ok().json();
    assert_eq!(created["rolloutStrategy"]["name"], "canary-10-25-50-100");
    assert_eq!(created["trafficSplit"], json!({"type": "percentage", "percentages": {"A": 100.0, "B": 0.0}}));
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_registered_is_listed_shown_changed_and_removed_while_nothing_open_names_it() {
    let player = Player::start().await;
    let world = &player.world;
    let kinds = [
        (
            "environments",
            json!({"name": "x", "service": "s", "ports": [{"port": 80}]}),
            "routers",
            json!({"a": "b"}),
        ),
        ("target-groups", json!({"name": "x", "labels": {"a": "b"}}), "labels", json!({"a": "c"})),
        ("versions", json!({"name": "x", "targets": ["h:1"]}), "targets", json!(["h:2"])),
    ];
    for (kind, spec, key, changed) in kinds {
        let path = format!("/api/v1/{kind}");
        let made = world.post(&format!("{path}?by=ann"), &spec).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let id = made.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(made.json()["createdBy"], "ann");
        assert_eq!(world.post(&path, &spec).await.status, 200, "the same again changes nothing");
        let mut other = spec.clone();
        other[key] = changed.clone();
        assert_eq!(world.post(&path, &other).await.ok().json()[key], changed);
        for named in ["x", &id] {
            assert_eq!(world.get(&format!("{path}/{named}")).await.ok().json()["id"], id.as_str());
        }
        let listed = world.get(&format!("{path}?limit=1")).await.ok();
        assert_eq!(listed.json().as_array().unwrap().len(), 1);
        assert!(listed.header("link").contains("rel=\"next\""), "{listed:?}");
        assert_eq!(world.call("DELETE", &format!("{path}/x")).await.status, 204);
        assert_eq!(world.get(&format!("{path}/x")).await.status, 404);
        assert_eq!(world.call("DELETE", &format!("{path}/x")).await.status, 404);
        let mut wrong = spec.clone();
        wrong["name"] = json!("a b;");
        assert!(world.post(&path, &wrong).await.problem().starts_with("422 /problems/invalid-field: `name`"));
    }
    player.create(&body("r", &two_stages())).await.ok();
    for named in ["environments/shop-prod", "versions/v42"] {
        let answer = world.call("DELETE", &format!("/api/v1/{named}")).await;
        assert!(
            answer.problem().starts_with("409 /problems/in-use: release r is not over"),
            "{}",
            answer.problem()
        );
    }
    player.act("r", "rollback", &Value::Null).await.ok();
    let before = player.shown("r").await;
    assert_eq!(world.call("DELETE", "/api/v1/environments/shop-prod").await.status, 204);
    assert_eq!(player.shown("r").await, before, "what it was released in stays with it");
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    assert_eq!(player.shown("r").await, before, "and after a restart");
    assert_eq!(
        player.world.get("/api/v1/versions/v41").await.ok().json()["targets"],
        json!(["127.0.0.1:9101"])
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_variations_share_as_they_are_told_and_the_second_gets_everything() {
    let player = Player::start().await;
    player.three_under_way().await;
    let shown = player.shown("r").await;
    assert_eq!(shown["trafficSplit"]["percentages"], json!({"A": 90.0, "B": 7.5, "C": 2.5}), "{shown:#}");
    let other = player.act("r", "promote", &json!({"variation": "C"})).await;
    let why = format!("{} can't be told which variation wins", player.router);
    assert!(
        other.problem().starts_with("409 /problems/wrong-state: variation C of release r can't"),
        "{}",
        other.text()
    );
    assert!(other.text().contains(&why), "{}", other.text());
    assert_eq!(player.shown("r").await["activeVariation"], "A");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sticky_keys_are_cookies_headers_or_addresses() {
    let player = Player::start().await;
    for (name, key, shown) in [
        ("a", "cm", "cookie:cm"),
        ("b", "cookie:cm", "cookie:cm"),
        ("c", "header:X-User", "header:x-user"),
        ("d", "address", "address"),
    ] {
        let mut body = body(name, &two_stages());
        body["trafficSplit"]["stickyKey"] = json!(key);
        let created = player.create(&body).await.ok().json();
        let told = created["trafficSplit"]["stickyKey"].as_str().unwrap().to_ascii_lowercase();
        assert_eq!((told.as_str(), &created["trafficSplit"]["type"]), (shown, &json!("sticky")), "{key}");
    }
    player.world.stop().await;
}

/// Whichever interface somebody acts through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_that_wants_notes_has_whoever_acts_say_why() {
    let player = Player::start().await;
    let text = "id: noted\nname: noted\nservices:\n  - name: checkout\n    routers: {labels: {env: prod}}\n    ports: [{port: 8080}]\n    \
        variations: [{name: A, targets: [\"127.0.0.1:9101\"]}, {name: B, targets: [\"127.0.0.1:9111\"]}]\n\
        strategy: canary-10-25-50-100\nrollout: {order: parallel, notes: required}\n";
    player.world.submit(text).await.ok();
    let answer = player.act("noted", "rollback", &json!({})).await;
    assert_eq!((answer.status, &answer.json()["type"]), (422, &json!("/problems/note-required")));
    // With one it is looked at, whatever comes of it.
    let answer = player.act("noted", "rollback", &json!({"note": "it is odd"})).await;
    assert_ne!(answer.json()["type"], "/problems/note-required", "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_has_a_part_of_a_port_as_a_service_has() {
    let mut player = Player::start().await;
    player.capabilities = json!({"leads": "whole", "routers": ["nginx"]});
    player.polls().await;
    let world = &player.world;
    assert_eq!(world.call("DELETE", "/api/v1/environments/shop-prod").await.status, 204);
    let with = |key: &str, value: Value| {
        let mut port = json!({"port": 8080, "protocol": "HTTP", "hosts": ["shop.example"], "path": "/api"});
        port[key] = value;
        json!({"name": "shop-prod", "service": "checkout", "ports": [port]})
    };
    for (key, value, field) in [
        ("hosts", json!(["*.shop.example"]), "ports[0].hosts[0]"),
        ("hosts", json!(["a.example", "a.example"]), "ports[0].hosts[1]"),
        ("path", json!("/api/"), "ports[0].path"),
        ("protocol", json!("TCP"), "ports[0]"),
    ] {
        let refused = world.post("/api/v1/environments", &with(key, value)).await.problem();
        assert!(refused.starts_with(&format!("422 /problems/invalid-field: `{field}`")), "{refused}");
    }
    world.post("/api/v1/environments", &with("port", json!(8080))).await.ok();
    player.create(&body("r", &two_stages())).await.ok();
    let text = player.world.get("/api/v1/releases/r/strategy").await.ok().text();
    let ports = r#"ports: [{"hosts":["shop.example"],"path":"/api","port":8080,"protocol":"HTTP"}]"#;
    assert!(text.contains(ports), "{text}");
    player.world.stop().await;
}
