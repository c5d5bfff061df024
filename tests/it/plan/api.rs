//! `POST /api/v1/plan`.

use serde_json::{Value, json};

use super::rectangle;
use crate::world::{Answer, World, strategy};

pub const TARGET: &str = "target:
  area: {type: Polygon, coordinates: [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]]}
  labels: {tier: edge}
";

/// Registers a child that says what it is.
pub async fn child(world: &World, name: &str, area: &str, capabilities: &Value) -> String {
    let area: Value = serde_json::from_str(area).unwrap();
    let body = json!({"id": name, "name": name, "kind": "agent", "geographic_area": area, "number_of_children": 0,
        "capabilities": capabilities});
    world.post("/poll", &body).await.ok();
    name.to_owned()
}

/// Five children, two of which fit the target.
pub async fn fleet(world: &World) {
    let edge = json!({"labels": {"tier": "edge"}});
    child(world, "inside", &rectangle(1.0, 1.0, 2.0, 2.0), &edge).await;
    child(world, "across", &rectangle(9.0, 1.0, 11.0, 2.0), &edge).await;
    child(world, "outside", &rectangle(20.0, 1.0, 21.0, 2.0), &edge).await;
    child(world, "core", &rectangle(3.0, 1.0, 4.0, 2.0), &json!({"labels": {"tier": "core"}})).await;
    let python = json!({"labels": {"tier": "edge"}, "runtimes": ["python"]});
    child(world, "python", &rectangle(5.0, 1.0, 6.0, 2.0), &python).await;
}

async fn plan(world: &World, query: &str, yaml: &str) -> Answer {
    world.submit_to(&format!("/api/v1/plan{query}"), yaml).await
}

#[tokio::test]
async fn a_plan_says_who_takes_part_and_why_the_others_do_not_and_changes_nothing() {
    let world = World::start().await;
    fleet(&world).await;
    let before = world.get("/api/v1/audit").await.text();
    let yaml = format!("{TARGET}rollout: {{order: waves, waves: [1, 100%]}}\n{}", strategy("west"));
    let found = plan(&world, "", &yaml).await.ok().json();
    let participants = &found["participants"];
    assert_eq!((&participants["children"], &participants["agents"]), (&json!(2), &json!(2)));
    // One square degree near the equator inside, and two of which one lies inside.
    let km2 = |value: &Value| (value.as_f64().unwrap() / 12_360.0 * 100.0).round() / 100.0;
    assert_eq!((km2(&participants["km2"]), km2(&found["within_km2"])), (3.0, 2.0));
    assert!((km2(&found["target_km2"]) - 99.49).abs() < 0.1);
    assert_eq!(
        found["waves"],
        json!([
            {"wave": 1, "amount": "1", "children": 1, "agents": 1, "agents_so_far": 1},
            {"wave": 2, "amount": "100%", "children": 1, "agents": 1, "agents_so_far": 2},
        ])
    );
    let reasons = found["excluded"].as_array().unwrap().iter();
    let reasons: Vec<String> =
        reasons.map(|e| format!("{}: {}", e["reason"].as_str().unwrap(), e["children"])).collect();
    assert_eq!(reasons, ["outside the area: 1", "label tier is not edge: 1", "lacks runtime nodejs: 1"]);
    assert_eq!((&found["children"], &found["next"]), (&json!([]), &Value::Null));
    assert_eq!(world.get("/api/v1/audit").await.text(), before);
    assert_eq!(world.get("/api/v1/releases").await.json()["items"], json!([]));
    world.stop().await;
}

#[tokio::test]
async fn children_come_page_by_page_each_with_its_turn_or_its_reason() {
    let world = World::start().await;
    fleet(&world).await;
    world.submit(&strategy("earlier")).await.ok();
    let yaml =
        format!("{TARGET}rollout: {{order: location_sequential, start_at: [10, 1.5]}}\n{}", strategy("west"));
    let mut told = String::new();
    let mut after = String::new();
    loop {
        let page =
            plan(&world, &format!("?children=all&areas=true&limit=2&after={after}"), &yaml).await.ok().json();
        for child in page["children"].as_array().unwrap() {
            assert_eq!(child["area"]["type"], "Polygon");
            let part = |name: &str| child[name].to_string();
            told.push_str(&format!(
                "{} {} {} {}\n",
                part("child"),
                part("turn"),
                part("reason"),
                part("busy_with")
            ));
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    insta::assert_snapshot!(told, @r#"
    "inside" 2 null ["earlier"]
    "across" 1 null ["earlier"]
    "outside" null "outside the area" ["earlier"]
    "core" null "label tier is not edge" ["earlier"]
    "python" null "lacks runtime nodejs" []
    "#);
    let page = plan(&world, "?children=participants", &yaml).await.ok().json();
    let names: Vec<&Value> =
        page["children"].as_array().unwrap().iter().map(|child| &child["child"]).collect();
    assert_eq!(names, ["inside", "across"]);
    assert_eq!((&page["busy"], &page["waits_for"]), (&json!(2), &json!(["earlier"])));
    world.stop().await;
}

#[tokio::test]
async fn a_submission_with_a_target_answers_participants_and_exclusions() {
    let world = World::start().await;
    fleet(&world).await;
    let answer = world.submit(&format!("{TARGET}{}", strategy("west"))).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["participants"], 2);
    assert_eq!(
        answer.json()["excluded"],
        json!({"outside the target's area": 1, "has not all labels of the target": 1,
            "lacks a runtime that a function needs": 1})
    );
    // After a restart the areas are known again.
    let world = world.restart().await;
    let found = plan(&world, "", &format!("{TARGET}{}", strategy("again"))).await.ok().json();
    assert_eq!(found["participants"]["children"], 2);
    world.stop().await;
}

#[tokio::test]
async fn faults_of_a_plan_are_listed_and_strange_questions_refused() {
    let world = World::start().await;
    let answer = plan(&world, "", &strategy("bad").replace("func_name: sieve", "func_name: seive")).await;
    insta::assert_snapshot!(answer.problem(), @r#"422 /problems/invalid-strategy: the strategy has a fault: there is no function "seive""#);
    for (query, status) in
        [("?children=some", 400), ("?limit=0", 400), ("?after=x", 400), ("?colour=red", 400)]
    {
        assert_eq!(plan(&world, query, &strategy("a")).await.status, status, "{query}");
    }
    let large = format!("# {}\n", "x".repeat(300 * 1024));
    assert_eq!(plan(&world, "", &large).await.status, 422);
    assert_eq!(plan(&world, "", "").await.status, 422);
    world.stop().await;
}
