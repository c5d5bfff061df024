//! What was measured below a manager stands in the mirror of the one that has placed it there.

use choirmaster::app::Options;
use serde_json::{Value, json};

use super::{
    measured::{average, list, workflow},
    patient,
    server::Redis,
    settings,
};
use crate::{
    deadline::until,
    tree::levels::{parent, url},
    world::World,
};

/// Of a manager below another one.
fn below(above: &World) -> impl FnOnce(&mut Options) + use<> {
    let above = parent(url(above));
    move |options| {
        patient(options);
        options.parent = Some(above);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_from_below_count_once_also_if_the_manager_there_is_restarted() {
    let redis = Redis::start().await;
    let settings = settings(redis.url());
    let root = World::with(|options| {
        patient(options);
        options.mirror = Some(settings);
    })
    .await;
    let middle = World::with(below(&root)).await;
    let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["metrics-collector"]}});
    let node = middle.node("low", &capabilities).await;
    let plan = async || root.post("/api/v1/workflows/plan", &workflow()).await.ok().json();
    let has_places = |plan: &Value| {
        let parts = [&plan["functions"][0], &plan["functions"][1], &plan["resources"][0]];
        parts.iter().all(|part| !part["node"].is_null())
    };
    until("each part has a place", plan, has_places).await;
    let started = root.post("/api/v1/workflows?name=chain", &workflow()).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let runs = async || {
        let runs = middle.run_placed(&node).await;
        (root.get("/api/v1/workflows/chain").await.ok().json(), runs)
    };
    let (shown, runs) = until("it runs", runs, |(shown, _)| shown["workflow"]["state"] == "running").await;
    let logical = shown["functions"][0]["logical_id"].as_str().unwrap();
    let wanted = middle.post("/placements", &json!({"id": node, "instances": runs})).await.ok().json();
    let mut wanted = wanted["instances"].as_array().unwrap().iter();
    // Below it has another instance than above.
    let collector = wanted.find(|one| one["resource"]["class"] == "metrics-collector").unwrap()["id"].clone();
    assert_ne!(shown["resources"][0]["instance"]["id"], collector);

    let tell = async |middle: &World, first: u64, all: &[Value]| {
        let samples = json!({"run": 7, "first": first, "all": all});
        let body = json!({"id": node, "instances": runs, "samples": samples});
        middle.post("/placements", &body).await.ok();
    };
    let took =
        |ms: u64| json!({"at_ms": 1_718_287_852_177_i64, "workflow": {"collector": collector, "ms": ms}});
    let of_function = json!({"collector": collector, "logical": logical, "ms": 5});
    let of_function = json!({"at_ms": 1_718_287_852_177_i64, "function": of_function});
    let client = redis.client().await;
    let samples = async |of: &str| list(&mut client.clone(), &format!("{of}:samples")).await;
    let average = async |of: &str| average(&mut client.clone(), &format!("{of}:average")).await;
    let of_workflow = "workflow:wf_chain";
    let until_there = async |count: usize| {
        let all = async || samples(of_workflow).await;
        until("the newest is there", all, |all| all.len() >= count).await
    };
    let all = [took(849), of_function, took(951)];
    tell(&middle, 0, &all).await;
    // Its answer was lost.
    tell(&middle, 0, &all).await;
    assert_eq!(until_there(2).await, ["951,1718287852.177", "849,1718287852.177"], "the newest first");
    assert_eq!(average(of_workflow).await, Some(900.0));
    let of_function = format!("function:{logical}");
    assert_eq!(samples(&of_function).await, ["5,1718287852.177"]);
    assert_eq!(average(&of_function).await, Some(5.0));
    // Whatever came twice would stand before this.
    tell(&middle, 3, &[took(300)]).await;
    let three = ["300,1718287852.177", "951,1718287852.177", "849,1718287852.177"];
    assert_eq!(until_there(3).await, three);
    assert_eq!(average(of_workflow).await, Some(600.0));

    let middle = middle.restart_with(below(&root)).await;
    tell(&middle, 4, &[took(200)]).await;
    assert_eq!(until_there(4).await, [&["200,1718287852.177"][..], &three].concat());
    assert_eq!(average(of_workflow).await, Some(400.0), "above it goes on");
    assert_eq!(samples(&of_function).await, ["5,1718287852.177"]);
    middle.stop().await;
    root.stop().await;
}
