//! What is shown of canaries and of registered releases, and what is taken away.

use ab_releases::{DEFAULT_TENANT, Kind, Uuid};
use serde_json::{Value, json};

use super::{
    ADOPTED, DEPRECATED, canary, canary_of,
    life::{goes_back, registered, serves_alone, start, state, told, under_way},
    release, shop, told_by_router,
};
use crate::{
    ab::player::{Player, body, two_stages},
    http::tenants::Shared,
    world::summary,
};

const CANARIES: &str = "/api/v1/canary-releases";
const RELEASES: &str = "/api/v1/registered-releases";

async fn shown(player: &Player, id: &str) -> Value {
    player.world.get(&format!("{CANARIES}/{id}")).await.ok().json()
}

/// Phase and weight, and of each condition its status and its reason.
fn in_short(shown: &Value) -> String {
    let status = &shown["status"];
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let conditions = status["conditions"].as_array().unwrap().iter();
    let each = conditions.map(|one| format!("{} {}", word(&one["status"]), word(&one["reason"])));
    let first = format!("{} {}", word(&status["phase"]), status["weight"]);
    std::iter::once(first).chain(each).collect::<Vec<_>>().join(", ")
}

fn condition<'v>(shown: &'v Value, kind: &str) -> &'v Value {
    let conditions = shown["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == kind).unwrap()
}

async fn tells(player: &Player, share: u16) {
    let told = told_by_router(&player.router, "checkout-2", share);
    player.world.post("/traffic", &told).await.ok();
}

fn names(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_say_where_a_canary_stands_over_its_whole_life() {
    let player = start().await;
    player.world.submit_to("/release?by=ann", &canary(2, "")).await.ok();
    let first = shown(&player, "checkout-2").await;
    assert_eq!(
        first["spec"],
        json!({
            "release": "shop", "version": 2, "path": "/", "config": "colour: 2\n", "resources": {}, "transition": "",
            "services": [{
                "service": "checkout",
                "ports": [{"port": 8080, "protocol": "HTTP", "config": {"weight": 10}}],
            }],
        })
    );
    assert_eq!((&first["kind"], &first["metadata"]["createdBy"]), (&json!("CanaryRelease"), &json!("ann")));
    let stands = async || in_short(&shown(&player, "checkout-2").await);
    let of_release = async || player.world.get("/api/v1/releases/checkout-2").await.ok().json();
    let unasked = "False NotAsked, False NotAsked";
    assert_eq!(
        in_short(&first),
        format!("Starting 0.0, True Submitted, False NotBegun, Unknown NotBegun, {unasked}")
    );
    player.begins("checkout-2").await;
    assert_eq!(
        stands().await,
        format!("Canary 10.0, True Submitted, Unknown NotReported, Unknown NotJudged, {unasked}")
    );
    for (share, expected) in [(0, "False Shifting"), (1_000, "True InForce")] {
        tells(&player, share).await;
        assert_eq!(
            stands().await,
            format!("Canary 10.0, True Submitted, {expected}, Unknown NotJudged, {unasked}")
        );
    }
    let found = shown(&player, "checkout-2").await;
    assert_eq!(found["status"]["seen"], json!({"lowest": 10.0, "highest": 10.0}));
    assert_eq!(condition(&found, "Healthy")["message"], "nothing judges it; 1 of its 90 calls failed");
    player.world.call("POST", "/api/v1/releases/checkout-2/pause").await.ok();
    assert_eq!(
        stands().await,
        format!("Held 10.0, True Submitted, True InForce, Unknown NotJudged, {unasked}")
    );
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    assert_eq!(
        stands().await,
        "Adopting 100.0, True Submitted, False Shifting, Unknown NotJudged, False Adopting, False NotAsked"
    );
    tells(&player, 10_000).await;
    assert_eq!(
        stands().await,
        "Adopting 100.0, True Submitted, True InForce, Unknown NotJudged, False Adopting, False NotAsked"
    );
    serves_alone(&player, "checkout-2").await;
    let last = shown(&player, "checkout-2").await;
    assert_eq!(
        in_short(&last),
        "Adopted 100.0, True Submitted, True Ended, Unknown Ended, True Adopted, False Adopted"
    );
    assert_eq!(last["spec"]["transition"], "Adopted");
    let release = of_release().await;
    assert_eq!(last["metadata"]["creationTimestamp"], release["submitted"]);
    for (kind, since) in [("Accepted", "submitted"), ("Adopted", "ended"), ("Deprecated", "submitted")] {
        assert_eq!(condition(&last, kind)["lastTransitionTime"], release[since], "{kind}");
    }
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    assert_eq!(shown(&player, "checkout-2").await, last, "after a restart");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_answers_no_more_when_it_is_to_take_over_is_not_adopted_and_that_is_said() {
    let player = under_way().await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    player.reports("checkout-2", "canary", 2, 10).await.ok();
    let answer = player.world.end_stage(&player.router, "checkout-2", "canary").await.ok().json();
    assert_eq!(answer["end_stage"], true, "{answer}");
    // No call was counted either: it was asked all the same.
    let none = json!({"median": -1, "minimum": -1, "maximum": -1});
    let mut summary = summary("canary", 5);
    summary["f2_times_summary"] = none;
    summary["why"] = json!({"cause": "no_answer", "text": "the new version answered no more"});
    let result = json!({"id": player.router, "release_id": "checkout-2", "stage_summaries": [summary], "next_stage": "rollback"});
    player.world.post("/result", &result).await.ok();
    let found = shown(&player, "checkout-2").await;
    let held = |weight: &str| {
        format!("Held 0.0, True Submitted, {weight}, False Failed, False NoAnswer, False NotAsked")
    };
    assert_eq!(in_short(&found), held("True InForce"), "it has proven that it went back");
    let mut ended = told_by_router(&player.router, "checkout-2", 0);
    ended["services"][0]["generation"] = json!(20_000);
    for place in ["/services/0/variations", "/services/0/led/variations"] {
        ended.pointer_mut(place).unwrap().as_array_mut().unwrap().pop();
    }
    let gone = json!({"id": player.router, "router": ended["router"], "services": []});
    for (what, told, expected) in [
        ("the offer is in hand", told_by_router(&player.router, "checkout-2", 1_000), "False Shifting"),
        ("it has ended, and what serves is told of alone", ended, "True InForce"),
        ("the service is gone", gone, "True InForce"),
    ] {
        player.world.post("/traffic", &told).await.ok();
        assert_eq!(in_short(&shown(&player, "checkout-2").await), held(expected), "{what}");
    }
    let message = condition(&found, "Adopted")["message"].as_str().unwrap();
    assert!(
        message.contains("release shop stays as it was: ") && message.contains("answered no more"),
        "{message}"
    );
    assert_eq!(registered(&player).await["version"], 1);
    // Somebody gives up on it.
    let deprecated = player.world.call("DELETE", &format!("{CANARIES}/checkout-2")).await.ok().json();
    assert_eq!(deprecated["spec"]["transition"], "Deprecated");
    assert_eq!(condition(&deprecated, "Adopted")["reason"], "Deprecated");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_has_gone_back_hides_nothing_of_another_one() {
    let mut player = start().await;
    let first = std::mem::take(&mut player.router);
    player.router = player.polls().await.0;
    player.polls().await;
    player.world.submit(&canary(2, "")).await.ok();
    let second = std::mem::replace(&mut player.router, first.clone());
    for router in [&second, &first] {
        player.router.clone_from(router);
        player.begins("checkout-2").await;
        tells(&player, 1_000).await;
    }
    let says = async || in_short(&shown(&player, "checkout-2").await);
    let deprecating = |weight: &str| {
        format!(
            "Deprecating 0.0, True Submitted, {weight}, Unknown RollingBack, False Deprecated, False Deprecating"
        )
    };
    player.world.call("DELETE", &format!("{CANARIES}/checkout-2")).await.ok();
    assert_eq!(says().await, deprecating("False Shifting"));
    goes_back(&player, "checkout-2").await;
    let gone = json!({"id": first, "router": {"kind": "embedded", "phase": "in_force", "reached": true}, "services": []});
    player.world.post("/traffic", &gone).await.ok();
    assert_eq!(says().await, deprecating("False Shifting"), "the second one has yet to do it");
    player.world.post("/traffic", &told_by_router(&second, "checkout-2", 0)).await.ok();
    assert_eq!(says().await, deprecating("True InForce"));
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_are_listed_page_by_page_and_nothing_else_is() {
    let player = start().await;
    assert_eq!(player.world.get(CANARIES).await.ok().json(), json!({"items": [], "next": null}));
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "rollback", &Value::Null).await.ok();
    player.world.submit(&shop(1, &[1, 2, 3])).await.ok();
    player.world.submit(&release("mall", 1, &[1, 3])).await.ok();
    for (name, manifest) in [
        ("checkout-2", canary(2, "")),
        ("mall-3", canary_of("mall", "mall-3", 3, "")),
        ("checkout-3", canary(3, "")),
    ] {
        assert_eq!(told(&player.world.submit(&manifest).await).0, 201, "{name}");
        player.begins(name).await;
        player.world.call("DELETE", &format!("{CANARIES}/{name}")).await.ok();
        goes_back(&player, name).await;
    }
    let page = async |query: &str| player.world.get(&format!("{CANARIES}{query}")).await.ok().json();
    let all = page("").await;
    assert_eq!((names(&all), &all["next"]), (vec!["checkout-3", "mall-3", "checkout-2"], &Value::Null));
    assert_eq!(all["items"][2], shown(&player, "checkout-2").await);
    assert_eq!(names(&page("?release=shop").await), ["checkout-3", "checkout-2"]);
    assert_eq!(names(&page("?release=none").await), [""; 0]);
    let (mut query, mut found) = ("?release=shop&limit=1".to_owned(), Vec::new());
    loop {
        let page = page(&query).await;
        assert_eq!(names(&page).len(), 1, "{page}");
        found.push(names(&page)[0].to_owned());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?release=shop&limit=1&after={next}");
    }
    assert_eq!(found, ["checkout-3", "checkout-2"]);
    assert_eq!(player.world.get(&format!("{CANARIES}?phase=Canary")).await.status, 400);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_deprecated_by_its_removal_as_by_its_manifest() {
    let player = under_way().await;
    let path = format!("{CANARIES}/checkout-2");
    let wanted = json!({"by": "ann", "note": "slow"});
    let gone = player.world.send_json("DELETE", &path, &wanted).await.ok().json();
    assert_eq!(
        in_short(&gone),
        "Deprecating 0.0, True Submitted, Unknown NotReported, Unknown RollingBack, False Deprecated, False Deprecating"
    );
    assert_eq!(gone["spec"]["transition"], "Deprecated");
    let why = player.world.get("/api/v1/releases/checkout-2").await.ok().json()["why"].clone();
    assert_eq!((&why["by"], &why["note"]), (&json!("operator:ann"), &json!("slow")));
    // Again, and as a manifest.
    assert_eq!(player.world.call("DELETE", &path).await.status, 200);
    assert_eq!(told(&player.world.submit(&canary(2, DEPRECATED)).await), (200, json!(false), Value::Null));
    goes_back(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Aborted");
    let over = player.world.call("DELETE", &path).await.ok().json();
    assert_eq!(
        in_short(&over),
        "Deprecated 0.0, True Submitted, True Ended, Unknown Ended, False Deprecated, True Deprecated"
    );

    player.world.submit(&shop(1, &[1, 2, 3])).await.ok();
    player.world.submit(&canary(3, "")).await.ok();
    player.begins("checkout-3").await;
    player.world.submit(&canary(3, ADOPTED)).await.ok();
    serves_alone(&player, "checkout-3").await;
    assert_eq!(
        player.world.call("DELETE", &format!("{CANARIES}/checkout-3")).await.problem(),
        "409 /problems/wrong-state: canary release checkout-3 was adopted, and can't be changed or deprecated any more: release another \
         version"
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_canary_is_not_there() {
    let player = start().await;
    player.create(&body("r", &two_stages())).await.ok();
    for id in ["none", "r"] {
        for method in ["GET", "DELETE"] {
            assert_eq!(
                player.world.call(method, &format!("{CANARIES}/{id}")).await.problem(),
                format!("404 /problems/unknown-canary-release: there is no canary release {id}")
            );
        }
    }
    assert_eq!(player.stands("r").await.0, "created", "it is as it was");
    for method in ["GET", "DELETE"] {
        assert_eq!(
            player.world.call(method, &format!("{RELEASES}/none")).await.problem(),
            "404 /problems/unknown-registered-release: there is no registered release none"
        );
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registered_releases_are_listed_shown_and_removed_once_no_canary_has_them() {
    let player = under_way().await;
    player.world.submit(&release("mall", 1, &[1])).await.ok();
    let listed = player.world.get(RELEASES).await.ok().json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mall", "shop"]);
    let id = Uuid::of(Kind::RegisteredRelease, &[DEFAULT_TENANT, "shop"]).to_string();
    assert_eq!(listed[1]["id"], id);
    for named in ["shop", &id] {
        assert_eq!(player.world.get(&format!("{RELEASES}/{named}")).await.ok().json(), listed[1], "{named}");
    }
    let versions: Vec<&Value> =
        listed[1]["versions"].as_array().unwrap().iter().map(|one| &one["version"]).collect();
    assert_eq!((versions, &listed[1]["version"]), (vec![&json!(1), &json!(2)], &json!(1)));
    let first = player.world.get(&format!("{RELEASES}?limit=1")).await.ok();
    let next = format!("<{RELEASES}?after=mall&limit=1>; rel=\"next\"");
    assert_eq!((first.json().as_array().unwrap().len(), first.header("link")), (1, next.as_str()));

    let shop = format!("{RELEASES}/shop");
    assert_eq!(
        player.world.call("DELETE", &shop).await.problem(),
        "409 /problems/in-use: release checkout-2 is not over, and names registered release shop: wait until it is"
    );
    player.world.submit(&canary(2, DEPRECATED)).await.ok();
    goes_back(&player, "checkout-2").await;
    assert_eq!(player.world.call("DELETE", &shop).await.status, 204);
    assert_eq!(player.world.get(&shop).await.status, 404);
    // The canary was of it all the same.
    assert_eq!(shown(&player, "checkout-2").await["spec"]["release"], "shop");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_is_planned_as_the_strategy_that_it_becomes() {
    let player = start().await;
    let plan =
        async |manifest: &str| player.world.submit_to("/api/v1/plan?children=participants", manifest).await;
    let planned = plan(&canary(2, "")).await.ok().json();
    assert_eq!((&planned["id"], &planned["participants"]["children"]), (&json!("checkout-2"), &json!(1)));
    let stage = &planned["stages"][0];
    assert_eq!(
        (&stage["shares"], &stage["moved"]),
        (&json!({"stable": 90.0, "canary": 10.0}), &json!(10.0)),
        "{planned:#}"
    );
    assert_eq!((&planned["children"][0]["child"], &planned["warnings"]), (&json!(player.router), &json!([])));
    assert_eq!(player.world.get(CANARIES).await.ok().json()["items"], json!([]), "nothing is created");
    for (manifest, why) in [
        (canary(7, ""), "`spec.version`: release shop has no version 7; it has 1, 2"),
        (
            canary(2, ADOPTED),
            "`spec.transition`: there is no canary release checkout-2 that could be adopted: leave it out, and it is created",
        ),
    ] {
        assert_eq!(plan(&manifest).await.problem(), format!("422 /problems/invalid-field: {why}"));
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_sees_its_own_alone_and_takes_away_what_its_roles_let_it() {
    let shared = Shared::start().await;
    let mut ids = Vec::new();
    for (tenant, who, address) in [("acme", "ann", "10.0.0.1"), ("umbra", "uma", "10.0.0.2")] {
        shared.router_of(tenant, "embedded", &json!([])).await;
        let own = shop(1, &[1, 2]).replace("127.0.0.1", address);
        shared.submit(who, &own).await.ok();
        shared.submit(who, &canary(2, "")).await.ok();
        let page = shared.get(who, CANARIES).await.ok();
        assert_eq!(names(&page.json()), ["checkout-2"], "{who}");
        assert!(!page.text().contains('~'), "{}", page.text());
        let releases = shared.get(who, RELEASES).await.ok();
        assert_eq!(releases.json().as_array().unwrap().len(), 1, "{who}");
        assert!(releases.text().contains(&format!("{address}:9101")), "{}", releases.text());
        ids.push(page.json()["items"][0]["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    let all = shared.get("root", CANARIES).await.ok().json();
    assert_eq!(names(&all), ["~umbra~checkout-2", "~acme~checkout-2"]);
    for method in ["GET", "DELETE"] {
        let other = shared.call("ann", method, &format!("{CANARIES}/{}", ids[1])).await;
        assert!(other.problem().starts_with("404 /problems/unknown-canary-release: "), "{}", other.text());
    }
    let path = format!("{CANARIES}/checkout-2");
    for (who, roles) in [("vic", "viewer"), ("abe", "approver")] {
        assert_eq!(shared.get(who, &path).await.status, 200, "{who}");
        assert_eq!(
            shared.call(who, "DELETE", &path).await.problem(),
            format!("403 /problems/missing-role: this takes the role operator; the token {who} has {roles}")
        );
    }
    assert_eq!(shared.call("otto", "DELETE", &path).await.ok().json()["spec"]["transition"], "Deprecated");
    assert_eq!(shared.get("uma", &path).await.ok().json()["spec"]["transition"], "");
    shared.world.stop().await;
}
