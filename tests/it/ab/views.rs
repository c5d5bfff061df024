//! Tables of that interface are views: each column, its type, and what must hold of the rows, on either store.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, Row as _, SqliteConnection};

use super::player::{Player, body, two_stages};
use crate::{
    canaries::{
        ADOPTED, canary_of,
        several::{both, shop_of_two},
        shop, with_weight,
    },
    http::tenants::Shared,
    real_agents::wait::wait_until,
    store::place::{Kind, Place},
};

/// Columns with their types on Postgres.
const AB_RELEASES: [(&str, &str); 12] = [
    ("id", "uuid"),
    ("tenant_id", "uuid"),
    ("environment_id", "uuid"),
    ("name", "character varying"),
    ("variations", "jsonb"),
    ("active_variation", "character varying"),
    ("traffic_split", "jsonb"),
    ("rollout_strategy", "jsonb"),
    ("status", "character varying"),
    ("created_at", "timestamp with time zone"),
    ("completed_at", "timestamp with time zone"),
    ("created_by", "uuid"),
];
const CANARY_STAGES: [(&str, &str); 11] = [
    ("id", "uuid"),
    ("ab_release_id", "uuid"),
    ("stage_number", "integer"),
    ("traffic_percentage", "integer"),
    ("status", "character varying"),
    ("health_threshold", "numeric"),
    ("duration_seconds", "integer"),
    ("require_approval", "boolean"),
    ("started_at", "timestamp with time zone"),
    ("completed_at", "timestamp with time zone"),
    ("health_result", "jsonb"),
];

const TENANTS: [(&str, &str); 7] = [
    ("id", "uuid"),
    ("name", "text"),
    ("created_at", "timestamp with time zone"),
    ("max_children", "bigint"),
    ("max_releases", "bigint"),
    ("max_bytes", "bigint"),
    ("is_deleted", "boolean"),
];
const USERS: [(&str, &str); 4] =
    [("id", "uuid"), ("tenant_id", "uuid"), ("name", "text"), ("created_at", "timestamp with time zone")];
const ENVIRONMENTS: [(&str, &str); 6] = [
    ("id", "uuid"),
    ("tenant_id", "uuid"),
    ("name", "text"),
    ("detail", "jsonb"),
    ("created_at", "timestamp with time zone"),
    ("removed_at", "timestamp with time zone"),
];

/// The rows of a query as one JSON array of objects.
async fn rows(place: &Place, view: &'static str, order: &'static str) -> Vec<Value> {
    let found: Vec<String> = match place.kind {
        Kind::Postgres => {
            let mut conn = PgConnection::connect(&place.url).await.unwrap();
            let sql = format!("SELECT to_jsonb(v)::text FROM release.{view} AS v ORDER BY {order}");
            let found = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut conn).await.unwrap();
            found.iter().map(|row| row.get(0)).collect()
        }
        Kind::Sqlite => {
            let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
            let names = sqlx::query(sqlx::AssertSqlSafe(format!(
                "SELECT name FROM pragma_table_info('release_{view}')"
            )));
            let names: Vec<String> =
                names.fetch_all(&mut conn).await.unwrap().iter().map(|row| row.get(0)).collect();
            let json = ["variations", "traffic_split", "rollout_strategy", "health_result"];
            let pair = |name: &String| {
                let value =
                    if json.contains(&name.as_str()) { format!("json({name})") } else { name.clone() };
                format!("'{name}', {value}")
            };
            let pairs: Vec<String> = names.iter().map(pair).collect();
            let sql =
                format!("SELECT json_object({}) FROM release_{view} ORDER BY {order}", pairs.join(", "));
            let found = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut conn).await.unwrap();
            found.iter().map(|row| row.get(0)).collect()
        }
    };
    found.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// What a row says beside what the call answers.
pub async fn agree(place: &Place, player: &Player) {
    let shown = player.shown("r").await;
    let [row] = &rows(place, "ab_releases", "id").await[..] else { panic!() };
    for (column, key) in [
        ("id", "id"),
        ("tenant_id", "tenantId"),
        ("environment_id", "environmentId"),
        ("name", "name"),
        ("active_variation", "activeVariation"),
        ("traffic_split", "trafficSplit"),
        ("rollout_strategy", "rolloutStrategy"),
        ("status", "status"),
        ("created_by", "createdBy"),
    ] {
        assert_eq!(like(&row[column]), like(&shown[key]), "{column}: {row:#} {shown:#}");
    }
    assert_eq!(row["completed_at"].is_null(), shown["completedAt"].is_null());
    assert!(row["created_at"].is_string());
    for (row, shown) in
        row["variations"].as_array().unwrap().iter().zip(shown["variations"].as_array().unwrap())
    {
        for key in ["name", "releaseId", "targetGroupId", "trafficPercentage"] {
            assert_eq!(like(&row[key]), like(&shown[key]), "{key}");
        }
    }
    let stages = rows(place, "canary_stages", "stage_number").await;
    for (row, shown) in stages.iter().zip(shown["stages"].as_array().unwrap()) {
        for (column, key) in [
            ("id", "id"),
            ("ab_release_id", "abReleaseId"),
            ("stage_number", "stageNumber"),
            ("traffic_percentage", "trafficPercentage"),
            ("status", "status"),
            ("health_threshold", "healthThreshold"),
            ("duration_seconds", "durationSeconds"),
        ] {
            assert_eq!(like(&row[column]), like(&shown[key]), "{column}: {row:#} {shown:#}");
        }
        let truth = |value: &Value| *value == json!(true) || *value == json!(1);
        assert_eq!(truth(&row["require_approval"]), truth(&shown["requireApproval"]));
        for (column, key) in
            [("started_at", "startedAt"), ("completed_at", "completedAt"), ("health_result", "healthResult")]
        {
            assert_eq!(row[column].is_null(), shown[key].is_null(), "{column}: {row:#} {shown:#}");
        }
        let (row, shown) = (&row["health_result"], &shown["healthResult"]);
        if !row.is_null() {
            for key in ["healthy", "healthPercentage", "samples"] {
                assert_eq!(like(&row[key]), like(&shown[key]), "{key}");
            }
            for key in ["successRate", "errorRate"] {
                assert_eq!(like(&row["metrics"][key]), like(&shown["metrics"][key]), "{key}");
            }
            for key in ["latencyP50", "latencyP90", "latencyP95", "latencyP99"] {
                let (row, shown) = (row["metrics"][key].as_f64(), shown["metrics"][key].as_f64());
                match (row, shown) {
                    (Some(row), Some(shown)) => {
                        assert!((row - shown).abs() < 1e-9 * shown, "{key}: {row} {shown}");
                    }
                    (row, shown) => assert_eq!(row, shown, "{key}"),
                }
            }
        }
    }
    assert_eq!(stages.len(), shown["stages"].as_array().unwrap().len());
    hold(place, row, &stages).await;
}

/// Numbers are the same however they are written.
fn like(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(all) => all.iter().map(like).collect(),
        Value::Object(all) => all
            .iter()
            .map(|(key, value)| (key.clone(), like(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// CHECK, UNIQUE and REFERENCES of those tables.
async fn hold(place: &Place, release: &Value, stages: &[Value]) {
    let statuses = ["created", "deploying", "running", "promoting", "completed", "rolled_back"];
    assert!(statuses.contains(&release["status"].as_str().unwrap()));
    let of_stages = ["pending", "running", "succeeded", "failed", "skipped"];
    assert!(stages.iter().all(|stage| of_stages.contains(&stage["status"].as_str().unwrap())));
    let mut keys: Vec<String> =
        stages.iter().map(|one| format!("{}-{}", one["ab_release_id"], one["stage_number"])).collect();
    keys.dedup();
    assert_eq!(keys.len(), stages.len());
    assert!(stages.iter().all(|stage| stage["ab_release_id"] == release["id"]));
    let referred = [("tenants", "tenant_id"), ("environments", "environment_id"), ("users", "created_by")];
    for (view, column) in referred {
        let there = rows(place, view, "id").await;
        assert_eq!(there.iter().filter(|row| row["id"] == release[column]).count(), 1, "{column} in {view}");
        let ids: BTreeSet<&str> = there.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), there.len(), "ids of {view} are unique");
    }
    let tenants = rows(place, "tenants", "id").await;
    for view in ["environments", "users", "ab_releases"] {
        for row in rows(place, view, "id").await {
            assert!(tenants.iter().any(|tenant| tenant["id"] == row["tenant_id"]), "{view}: {row:#}");
        }
    }
}

/// A router with times of its own for the new version's calls.
async fn told_by(player: &Player, times: Value) {
    let mut summary = crate::world::summary("10 %", 2);
    (summary["f2_calls"], summary["f2_errors"], summary["f2_err_rate"]) =
        (json!(1_000), json!(0), json!(0.0));
    for (key, value) in times.as_object().unwrap() {
        summary[key] = value.clone();
    }
    let body =
        json!({"id": player.router, "release_id": "r", "stage_summaries": [summary], "next_stage": ""});
    player.world.post("/result", &body).await.ok();
}

async fn times_are_of_all_children_together_in_calls_and_views(place: &Place) {
    let mut player = Player::at(place).await;
    let first = player.router.clone();
    player.router = String::new();
    player.router = player.polls().await.0;
    player.polls().await;
    let second = player.router.clone();
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    let sketch = |counts: Value, first: i64| {
        json!({"mapping": {"gamma": 1.01, "indexOffset": 0.0}, "zeroCount": 3.0,
            "positiveValues": {"contiguousBinCounts": counts, "contiguousBinIndexOffset": first}})
    };
    for (router, times) in [
        (first, json!({"f2_histogram": sketch(json!([600.0, 0.0, 300.0]), 100)})),
        (second, json!({"f2_values": {"exact": [[0.0, 5], [7.5, 40], [90.25, 7]]}})),
    ] {
        player.router = router;
        player.begins("r").await;
        told_by(&player, times).await;
    }
    agree(place, &player).await;
    let metrics = player.shown("r").await["stages"][0]["healthResult"]["metrics"].clone();
    let at = |key: &str| metrics[key].as_f64().unwrap();
    // Of 955 times 8 are 0, then 600 from 1.01^100, 300 from 1.01^102, 40 of 7.5 ms and 7 of 90 ms.
    let edge = |bucket: f64| 1.01_f64.powf(bucket);
    let within = |key: &str, low: f64, high: f64| {
        assert!((edge(low)..=edge(high)).contains(&at(key)), "{key}: {metrics:#}");
    };
    within("latencyP50", 100.0, 101.0);
    within("latencyP90", 102.0, 103.0);
    within("latencyP95", 102.0, 103.0);
    assert!((7.4..7.6).contains(&at("latencyP99")), "{metrics:#}");
    player.world.stop().await;
}

/// Once the third child's times were shown as all there are: those of the first two could not be added up.
async fn times_in_buckets_of_several_kinds_are_of_the_kind_in_which_most_were_counted(place: &Place) {
    let mut player = Player::at(place).await;
    let mut routers = vec![player.router.clone()];
    for _ in 0..2 {
        player.router = String::new();
        player.router = player.polls().await.0;
        player.polls().await;
        routers.push(player.router.clone());
    }
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    let sketch = |gamma: f64, bucket: i64, count: f64| {
        json!({"mapping": {"gamma": gamma, "indexOffset": 0.0},
            "positiveValues": {"contiguousBinCounts": [count], "contiguousBinIndexOffset": bucket}})
    };
    let told = [sketch(1.01, 100, 600.0), sketch(1.5, 10, 500.0), sketch(1.01, 200, 300.0)];
    for (router, times) in routers.iter().zip(told) {
        player.router.clone_from(router);
        player.begins("r").await;
        told_by(&player, json!({"f2_histogram": times})).await;
        agree(place, &player).await;
    }
    let median = async |player: &Player| {
        let shown = player.shown("r").await;
        shown["stages"][0]["healthResult"]["metrics"]["latencyP50"].as_f64().unwrap()
    };
    let within =
        |value: f64, base: f64, bucket: i32| (base.powi(bucket)..=base.powi(bucket + 1)).contains(&value);
    assert!(within(median(&player).await, 1.01, 100), "900 of 1,400 were counted in such buckets");
    told_by(&player, json!({"f2_histogram": sketch(1.5, 10, 300.0)})).await;
    agree(place, &player).await;
    assert!(within(median(&player).await, 1.5, 10), "800 of 1,400 are in these now");
    player.world.stop().await;
}

/// B does well and C doesn't: what is said of a stage is of both, and as good as that of the worse.
async fn each_new_variation_counts_in_the_health_of_a_stage_in_calls_and_views(place: &Place) {
    let player = Player::at(place).await;
    let version = json!({"name": "v43", "targets": ["127.0.0.1:9121"]});
    player.world.post("/api/v1/versions?by=ops", &version).await.ok();
    let mut three = body("r", &two_stages());
    three["variations"].as_array_mut().unwrap().push(json!({"name": "C", "releaseId": "v43"}));
    three["trafficSplit"]["percentages"] = json!({"A": 90, "B": 5, "C": 5});
    player.create(&three).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    let times = |bucket: i64, count: u64| {
        json!({"mapping": {"gamma": 1.01, "indexOffset": 0.0},
            "positiveValues": {"contiguousBinCounts": [count], "contiguousBinIndexOffset": bucket}})
    };
    let variation = |name: &str, calls: u64, errors: u64, bucket: i64| json!({"name": name, "calls": calls, "errors": errors, "histogram": times(bucket, calls - errors)});
    let all = |errors: u64| {
        let each =
            [variation("A", 9_000, 9, 100), variation("B", 500, 0, 100), variation("C", 500, errors, 300)];
        json!({"f2_calls": 500, "f2_histogram": times(100, 500), "variations": each})
    };
    told_by(&player, all(5)).await;
    agree(place, &player).await;
    let stage = async || player.shown("r").await["stages"][0]["healthResult"].clone();
    let result = stage().await;
    assert_eq!(
        (&result["samples"], &result["metrics"]["errorRate"]),
        (&json!(1_000), &json!(0.5)),
        "{result:#}"
    );
    let slow = result["metrics"]["latencyP90"].as_f64().unwrap();
    assert!((1.01_f64.powi(300)..=1.01_f64.powi(301)).contains(&slow), "times of C count too: {result:#}");
    let health = player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    let samples: Vec<&Value> =
        health["variations"].as_array().unwrap().iter().map(|of| &of["samples"]).collect();
    assert_eq!(samples[1..], [&json!(500), &json!(500)], "{health:#}");
    assert_eq!(result["healthy"], true);
    told_by(&player, all(100)).await;
    let result = stage().await;
    assert_eq!(
        (&result["healthy"], &result["metrics"]["errorRate"]),
        (&json!(false), &json!(10.0)),
        "{result:#}"
    );
    // All targets of B are healthy, half of C's, and nobody looks at A's.
    let told = |name: &str, share: u16, healthy: Value| json!({"name": name, "wanted": share, "seen": share, "targets": {"healthy": healthy, "total": 2}, "calls": 0, "errors": 0});
    let target = |name: &str, port: u16| json!({"name": name, "targets": [format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1)]});
    let service = json!({
        "name": "checkout", "epoch": 0, "generation": 7, "offer": "r", "seen_ago_ms": 5, "measured_ms": 60_000,
        "variations": [told("A", 9_000, Value::Null), told("B", 500, json!(2)), told("C", 500, json!(1))],
        "led": {"ports": [{"port": 8080, "protocol": "HTTP"}],
            "variations": [target("A", 9101), target("B", 9111), target("C", 9121)]},
    });
    let report = json!({"id": player.router, "services": [service],
        "router": {"kind": "nginx", "version": "1.26.0", "phase": "in_force", "reached": true}});
    player.world.post("/traffic", &report).await.ok();
    let result = stage().await;
    assert_eq!(
        (&result["healthPercentage"], &result["healthy"]),
        (&json!(50.0), &json!(false)),
        "{result:#}"
    );
    let traffic = player.world.get("/api/v1/ab-releases/r/traffic").await.ok().json();
    let backends = traffic["currentSplit"]["backends"].as_array().unwrap();
    let healthy: Vec<&Value> = backends.iter().map(|of| &of["healthyTargets"]).collect();
    assert_eq!(healthy, [&Value::Null, &json!(2), &json!(1)], "nobody looks at A's: {traffic:#}");
    player.world.stop().await;
}

async fn a_tenant_that_is_deleted_stays_what_it_was_for_what_it_did(place: &Place) {
    let shared = Shared::with(|options| options.store.clone_from(&place.url)).await;
    // Whom the configuration names is known, where the tenant is there; and whoever did something.
    let names = async || -> Vec<String> {
        rows(place, "users", "name")
            .await
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    };
    wait_until("the configuration is written down", async || names().await.len() == 7).await;
    assert_eq!(
        names().await,
        ["acme/abe", "acme/ann", "acme/otto", "acme/vic", "root", "umbra/uma", "watch"]
    );
    let environment = json!({"name": "shop-prod", "service": "checkout", "ports": [{"port": 8080}]});
    shared.post("ann", "/api/v1/environments", &environment).await.ok();
    for (name, target) in [("v41", "127.0.0.1:9101"), ("v42", "127.0.0.1:9111")] {
        let version = json!({"name": name, "targets": [target]});
        shared.post("ann", "/api/v1/versions", &version).await.ok();
    }
    let created = shared.post("ann", "/api/v1/ab-releases", &body("r", &two_stages())).await.ok().json();
    shared.post("ann", "/api/v1/ab-releases/r/rollback", &json!({})).await.ok();
    let shown = shared.get("ann", "/api/v1/tenants/acme").await.ok().json();
    assert_eq!(shown["id"], created["tenantId"]);
    let users = shown["users"].as_array().unwrap();
    assert!(
        users.iter().any(|user| user["name"] == "acme/ann" && user["id"] == created["createdBy"]),
        "{users:?}"
    );
    let trail = async || {
        let all = shared.get("root", "/api/v1/audit?limit=1000").await.ok().json();
        all["items"].as_array().unwrap().len()
    };
    let before = (rows(place, "users", "id").await, rows(place, "ab_releases", "id").await, trail().await);
    shared.call("root", "DELETE", "/api/v1/tenants/acme").await.ok();
    let after = (rows(place, "users", "id").await, rows(place, "ab_releases", "id").await, trail().await);
    assert_eq!((&after.0, &after.1), (&before.0, &before.1));
    assert_eq!(after.2, before.2 + 1, "nothing left the trail, and the deletion stands in it");
    let tenants = rows(place, "tenants", "name").await;
    let told = |row: &Value| (row["name"].as_str().unwrap().to_owned(), like(&row["is_deleted"]));
    let truth = |truth: bool| {
        if place.kind == Kind::Postgres { json!(truth) } else { json!(f64::from(u8::from(truth))) }
    };
    assert_eq!(
        tenants.iter().map(told).collect::<Vec<_>>(),
        [
            ("acme".to_owned(), truth(true)),
            ("umbra".to_owned(), truth(false)),
            ("~".to_owned(), truth(false))
        ]
    );
    hold(place, &after.1[0], &rows(place, "canary_stages", "stage_number").await).await;
    shared.world.stop().await;
}

async fn the_views_say_what_the_calls_say_in_every_status(place: &Place) {
    let player = Player::at(place).await;
    player.create(&body("r", &two_stages())).await.ok();
    agree(place, &player).await;
    player.act("r", "start", &Value::Null).await.ok();
    agree(place, &player).await;
    player.begins("r").await;
    player.walks("r", "10 %").await;
    agree(place, &player).await;
    player.act("r", "advance", &json!({})).await.ok();
    player.leaves("r", "10 %").await;
    agree(place, &player).await;
    player.walks("r", "100 %").await;
    assert_eq!(player.stands("r").await.0, "completed");
    agree(place, &player).await;
    // What is registered may go; what was released there still refers to it.
    player.world.call("DELETE", "/api/v1/environments/shop-prod").await.ok();
    agree(place, &player).await;
    player.world.stop().await;
}

async fn the_views_say_so_as_well_when_a_release_is_taken_back(place: &Place) {
    let player = Player::at(place).await;
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.act("r", "rollback", &Value::Null).await.ok();
    agree(place, &player).await;
    player.world.end_stage(&player.router, "r", "10 %").await.ok();
    player.reports("r", "10 %", 5, 10).await;
    assert_eq!(player.stands("r").await.0, "rolled_back");
    agree(place, &player).await;
    player.world.stop().await;
}

async fn the_views_say_which_shares_somebody_chose(place: &Place) {
    let mut player = Player::at(place).await;
    player.capabilities["features"] = json!(["shares"]);
    player.polls().await;
    player.world.submit(&shop(1, &[1, 2])).await.ok();
    let canary = |rest: &str| canary_of("shop", "r", 2, rest);
    for (weight, status) in [
        (10, "running"),
        (30, "running"),
        (5, "running"),
        (0, "deploying"),
        (100, "promoting"),
        (40, "running"),
    ] {
        player.world.submit_to("/release?by=ann", &with_weight(&canary(""), weight)).await.ok();
        if weight == 10 {
            player.begins("r").await;
        }
        let shown = player.shown("r").await;
        let (stable, new) = (f64::from(100 - weight), f64::from(weight));
        assert_eq!(shown["trafficSplit"]["percentages"], json!({"stable": stable, "canary": new}));
        assert_eq!(
            (&shown["stages"][0]["trafficPercentage"], &shown["status"]),
            (&json!(new), &json!(status)),
            "{shown:#}"
        );
        agree(place, &player).await;
    }
    player.world.submit(&canary(ADOPTED)).await.ok();
    agree(place, &player).await;
    assert!(player.walks("r", "canary").await);
    assert_eq!(player.stands("r").await.0, "completed");
    agree(place, &player).await;
    player.world.stop().await;
}

/// An A/B release is of one service: of a canary of several it is the first, whatever becomes of the weights of the others.
async fn the_views_show_the_first_of_several_services(place: &Place) {
    let mut player = Player::at(place).await;
    player.capabilities["features"] = json!(["shares", "together"]);
    player.polls().await;
    player.world.submit(&shop_of_two()).await.ok();
    let canary = |weights: [u8; 3], rest: &str| both(weights, rest).replace("both-2", "r");
    player.world.submit_to("/release?by=ann", &canary([10, 30, 5], "")).await.ok();
    agree(place, &player).await;
    player.begins("r").await;
    agree(place, &player).await;
    for part in ["checkout.8443", "pay"] {
        assert!(player.walks("r", &format!("canary of {part}")).await);
        agree(place, &player).await;
    }
    for (weights, status) in [([10, 30, 5], "running"), ([10, 100, 0], "running"), ([40, 0, 100], "running")]
    {
        player.world.submit_to("/release?by=ann", &canary(weights, "")).await.ok();
        let (shown, new) = (player.shown("r").await, f64::from(weights[0]));
        assert_eq!(
            shown["trafficSplit"]["percentages"],
            json!({"stable": 100.0 - new, "canary": new}),
            "{shown:#}"
        );
        assert_eq!(
            (&shown["status"], &shown["stages"][0]["trafficPercentage"]),
            (&json!(status), &json!(new))
        );
        agree(place, &player).await;
    }
    player.world.submit(&canary([40, 0, 100], ADOPTED)).await.ok();
    assert!(player.walks("r", "canary").await);
    assert_eq!(player.stands("r").await.0, "completed");
    agree(place, &player).await;
    player.world.stop().await;
}

async fn every_column_is_there_under_its_name(place: &Place) {
    let player = Player::at(place).await;
    for (view, columns) in [
        ("ab_releases", &AB_RELEASES[..]),
        ("canary_stages", &CANARY_STAGES[..]),
        ("tenants", &TENANTS[..]),
        ("users", &USERS[..]),
        ("environments", &ENVIRONMENTS[..]),
    ] {
        let found: Vec<(String, String)> = match place.kind {
            Kind::Postgres => {
                let mut conn = PgConnection::connect(&place.url).await.unwrap();
                let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
                    WHERE table_schema = 'release' AND table_name = $1 ORDER BY ordinal_position";
                let found = sqlx::query(sql).bind(view).fetch_all(&mut conn).await.unwrap();
                found.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Kind::Sqlite => {
                let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
                let sql = "SELECT name FROM pragma_table_info($1)";
                let view = format!("release_{view}");
                let found = sqlx::query(sql).bind(view).fetch_all(&mut conn).await.unwrap();
                let named = |row: &sqlx::sqlite::SqliteRow| (row.get::<String, _>(0), String::new());
                let types = columns.iter().map(|(_, kind)| (*kind).to_owned());
                found.iter().map(named).zip(types).map(|((name, _), kind)| (name, kind)).collect()
            }
        };
        let expected: Vec<(String, String)> =
            columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        assert_eq!(found, expected, "{view}");
    }
    player.world.stop().await;
}

crate::store::place::stories!(
    the_views_say_what_the_calls_say_in_every_status,
    the_views_say_so_as_well_when_a_release_is_taken_back,
    the_views_say_which_shares_somebody_chose,
    the_views_show_the_first_of_several_services,
    every_column_is_there_under_its_name,
    times_are_of_all_children_together_in_calls_and_views,
    times_in_buckets_of_several_kinds_are_of_the_kind_in_which_most_were_counted,
    each_new_variation_counts_in_the_health_of_a_stage_in_calls_and_views,
    a_tenant_that_is_deleted_stays_what_it_was_for_what_it_did,
);
