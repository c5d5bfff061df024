//! Nodes and workflows in Redis, for programs that read there what a manager believes.

mod faulty;
mod filled;
mod intents;
mod killed;
mod lost;
mod measured;
mod readers;
mod scripts;
pub mod server;
mod tree;

use std::time::Duration;

use choirmaster::app::Options;
use mirror::{Schema, Settings};
use model::Secret;
use redis::cmd;
use serde_json::{Value, json};

use self::server::Redis;
use crate::{deadline::until, world::World};

fn settings(url: String) -> Settings {
    Settings {
        url,
        password: None,
        authorities: None,
        prefix: String::new(),
        take_over: false,
        schema: Schema::Current,
        history: Duration::from_hours(1),
        performance: true,
    }
}

/// Nobody is silent for so long.
pub fn patient(options: &mut Options) {
    options.rules.placement.keep_alive = Duration::from_hours(1);
}

fn mirrored_there(settings: Settings) -> impl FnOnce(&mut Options) {
    move |options| {
        patient(options);
        options.mirror = Some(settings);
    }
}

async fn mirrored(settings: Settings) -> World {
    World::with(mirrored_there(settings)).await
}

/// Two functions and a log.
fn chain() -> Value {
    let code = json!({"id": "shout", "function_type": "python", "version": "0.1", "code": "fns/messages/shout", "outputs": ["out"]});
    json!({
        "functions": [
            {"name": "first", "class_specification": code, "output_mapping": {"out": "second"}, "annotations": {"a": "b"}},
            {"name": "second", "class_specification": code, "output_mapping": {"out": "log"}},
        ],
        "resources": [{"name": "log", "class_type": "file-log", "configurations": {"filename": "a.log"}}],
    })
}

/// Starts a workflow `chain`: a function `first` puts out to a function `second`, and that to a resource `log`.
pub async fn start_chain(world: &World) {
    let started = world.post("/api/v1/workflows?name=chain", &chain()).await;
    assert_eq!(started.status, 201, "{}", started.text());
}

async fn node(world: &World) -> String {
    let machine = json!({"cpus": 2, "cores": 4, "mhz": 2_000, "memory_mib": 512, "tpm": true, "resources": ["file-log"]});
    world
        .node(
            "edge",
            &json!({"runtimes": ["python"], "labels": {"tier": "edge", "gpu": ""}, "node": machine}),
        )
        .await
}

async fn is_up(world: &World) -> bool {
    world.get("/metrics").await.ok().text().contains("choirmaster_mirror_up 1\n")
}

/// Until the database has what is expected.
async fn until_there(
    redis: &Redis,
    what: &str,
    is_so: impl Fn(&[(String, String)]) -> bool,
) -> Vec<(String, String)> {
    until(what, async || redis.dump().await, |all| is_so(all)).await
}

fn count(all: &[(String, String)], start: &str) -> usize {
    all.iter().filter(|(key, _)| key.starts_with(start) && !key.ends_with(":last_update")).count()
}

/// With names for ids, and without times.
fn settled(world: &World, node: &str, shown: &Value, all: &[(String, String)]) -> String {
    let mut names = vec![(node.to_owned(), "NODE".to_owned())];
    names.push((world.manager.engine.view().kept.identity().to_owned(), "MANAGER".to_owned()));
    for (at, part) in
        [&shown["functions"][0], &shown["functions"][1], &shown["resources"][0]].into_iter().enumerate()
    {
        let id = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        names.push((id(&part["logical_id"]), format!("LOGICAL-{at}")));
        names.push((id(&part["instance"]["id"]), format!("INSTANCE-{at}")));
    }
    let line = |(key, value): &(String, String)| {
        let is_of_now = key.ends_with(":last_update") || key == "choirmaster:session";
        let value = if is_of_now { "OF NOW" } else { value };
        names.iter().fold(format!("{key} = {value}"), |text, (id, name)| text.replace(id, name))
    };
    let mut lines: Vec<String> = all.iter().map(line).collect();
    lines.sort();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_workflows_stand_there_as_edgeless_has_them() {
    let redis = Redis::start().await;
    let world = mirrored(settings(redis.url())).await;
    until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
    let node = node(&world).await;
    start_chain(&world).await;
    world.run_placed(&node).await;
    let all = until_there(&redis, "the workflow is there", |all| count(all, "instance:") == 3).await;
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    insta::assert_snapshot!(settled(&world, &node, &shown, &all), @r#"
    choirmaster:owner = MANAGER
    choirmaster:session = OF NOW
    dependency:LOGICAL-0 = {"out":"LOGICAL-1"}
    dependency:LOGICAL-1 = {"out":"LOGICAL-2"}
    dependency:LOGICAL-2 = {}
    dependency:last_update = OF NOW
    domain_info:MANAGER:last_update = OF NOW
    domain_info:domain_id = MANAGER
    instance:LOGICAL-0 = {"Function":[{"spec":{"id":"shout","function_type":"python","version":"0.1","binary":null,"code":"fns/messages/shout","outputs":["out"]},"annotations":{"a":"b"},"state_specification":{"state_id":"LOGICAL-0","state_policy":"NodeLocal"},"workflow_id":"chain"},["InstanceId(node_id: NODE, function_id: INSTANCE-0)"]]}
    instance:LOGICAL-1 = {"Function":[{"spec":{"id":"shout","function_type":"python","version":"0.1","binary":null,"code":"fns/messages/shout","outputs":["out"]},"annotations":{},"state_specification":{"state_id":"LOGICAL-1","state_policy":"NodeLocal"},"workflow_id":"chain"},["InstanceId(node_id: NODE, function_id: INSTANCE-1)"]]}
    instance:LOGICAL-2 = {"Resource":[{"class_type":"file-log","configuration":{"filename":"a.log"},"workflow_id":"chain"},"InstanceId(node_id: NODE, function_id: INSTANCE-2)"]}
    instance:last_update = OF NOW
    node:capabilities:NODE = {"num_cpus":2,"model_name_cpu":"","clock_freq_cpu":2000.0,"num_cores":4,"mem_size":512,"labels":["gpu","tier=edge"],"is_tee_running":false,"has_tpm":true,"runtimes":["python"],"disk_tot_space":0,"num_gpus":0,"model_name_gpu":"","mem_size_gpu":0,"name":"edge","cordoned":false}
    node:capabilities:last_update = OF NOW
    provider:file-log-NODE = {"class_type":"file-log","node_id":"NODE","outputs":[]}
    provider:last_update = OF NOW
    "#);
    // A cordon, and a change that touches no entry.
    world.call("POST", &format!("/api/v1/children/{node}/cordon")).await.ok();
    let is_cordoned =
        |all: &[(String, String)]| all.iter().any(|(_, value)| value.contains(r#""cordoned":true"#));
    until_there(&redis, "the cordon is there", is_cordoned).await;
    world.call("DELETE", "/api/v1/workflows/chain").await.ok();
    let all = until_there(&redis, "nothing is to run", |all| {
        !all.iter().any(|(_, value)| value.contains("InstanceId"))
    })
    .await;
    assert_eq!(count(&all, "dependency:"), 3, "the node hasn't said that it has ended");
    world.run_placed(&node).await;
    let is_gone = |all: &[(String, String)]| count(all, "instance:") + count(all, "dependency:") == 0;
    until_there(&redis, "it is gone", is_gone).await;
    world.call("DELETE", &format!("/api/v1/children/{node}?force=true")).await;
    world.stop().await;
}

/// Who keeps nothing but what was written since its start is whole at once, and so is one that was changed by others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_whole_again_whoever_was_away() {
    let mut redis = Redis::start().await;
    let world = mirrored(settings(redis.url())).await;
    let node = node(&world).await;
    start_chain(&world).await;
    let is_whole = |all: &[(String, String)]| count(all, "instance:") == 3 && count(all, "dependency:") == 3;
    until_there(&redis, "all is there", is_whole).await;
    redis.kill();
    until("it is noticed", async || is_up(&world).await, |is_up| !is_up).await;
    world.call("POST", &format!("/api/v1/children/{node}/cordon")).await.ok();
    redis.come_back().await;
    let is_cordoned =
        |all: &[(String, String)]| all.iter().any(|(_, value)| value.contains(r#""cordoned":true"#));
    until_there(&redis, "all is there as it is now", |all| is_whole(all) && is_cordoned(all)).await;
    let world = world.restart_with(patient).await;
    // Stale keys of the mirror's own forms, one of another type, and somebody's who came to share it.
    let mut client = redis.client().await;
    for write in [["SET", "instance:stale", "x"], ["RPUSH", "provider:stale", "x"], ["SET", "somebody", "x"]]
    {
        cmd(write[0]).arg(&write[1..]).query_async::<()>(&mut client).await.unwrap();
    }
    let world = world.restart_with(mirrored_there(settings(redis.url()))).await;
    until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
    let all = redis.dump().await;
    assert_eq!(count(&all, "instance:"), 3, "{all:?}");
    assert_eq!((count(&all, "provider:"), count(&all, "somebody")), (1, 1), "{all:?}");
    // It is emptied while it is kept, and somebody writes there first.
    cmd("FLUSHDB").query_async::<()>(&mut client).await.unwrap();
    cmd("SET").arg("somebody").arg("y").query_async::<()>(&mut client).await.unwrap();
    until_there(&redis, "all is there", is_whole).await;
    // Whoever makes room removes what nobody reads.
    for key in ["choirmaster:owner", "choirmaster:session"] {
        cmd("DEL").arg(key).query_async::<()>(&mut client).await.unwrap();
    }
    until_there(&redis, "it is its own", |all| count(all, "choirmaster:owner") == 1).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_others_is_left_alone() {
    let redis = Redis::start().await;
    let mut client = redis.client().await;
    cmd("SET").arg("shop:basket").arg("7").query_async::<()>(&mut client).await.unwrap();
    let world = mirrored(settings(redis.url())).await;
    node(&world).await;
    // Another database of the same server, and a part of the first, are nobody's.
    let elsewhere = mirrored(settings(format!("{}/1", redis.url()))).await;
    until("it is mirrored", async || is_up(&elsewhere).await, |is_up| *is_up).await;
    let apart = mirrored(Settings { prefix: "choir:".to_owned(), ..settings(redis.url()) }).await;
    until("it is mirrored", async || is_up(&apart).await, |is_up| *is_up).await;
    let all = redis.dump().await;
    assert!(all.iter().all(|(key, _)| key == "shop:basket" || key.starts_with("choir:")), "{all:?}");
    assert!(!is_up(&world).await);
    // What one manager has is no other's.
    let second = mirrored(Settings { prefix: "choir:".to_owned(), ..settings(redis.url()) }).await;
    let taking = Settings { take_over: true, ..settings(redis.url()) };
    let world = world.restart_with(mirrored_there(taking)).await;
    until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
    assert!(!is_up(&second).await);
    let all = redis.dump().await;
    assert_eq!((count(&all, "shop:basket"), count(&all, "choirmaster:owner")), (1, 1), "{all:?}");
    // Whoever is replaced leaves it to the other.
    let taking = Settings { take_over: true, prefix: "choir:".to_owned(), ..settings(redis.url()) };
    let second = second.restart_with(mirrored_there(taking)).await;
    until("it is mirrored", async || is_up(&second).await, |is_up| *is_up).await;
    until("it is replaced", async || is_up(&apart).await, |is_up| !is_up).await;
    for world in [world, elsewhere, apart, second] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_falls_silent_is_there_no_more_until_it_calls() {
    let redis = Redis::start().await;
    let url = redis.url();
    let world = World::with(move |options| {
        options.rules.placement.keep_alive = Duration::from_millis(300);
        options.mirror = Some(settings(url));
    })
    .await;
    let node = node(&world).await;
    let calls = async || drop(world.run_placed(&node).await);
    until(
        "it is there",
        async || {
            calls().await;
            redis.dump().await
        },
        |all| count(all, "node:capabilities:") == 1 && count(all, "provider:") == 1,
    )
    .await;
    let is_gone = |all: &[(String, String)]| count(all, "node:capabilities:") + count(all, "provider:") == 0;
    until_there(&redis, "it is silent", is_gone).await;
    until(
        "it is back",
        async || {
            calls().await;
            redis.dump().await
        },
        |all| count(all, "node:capabilities:") == 1,
    )
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_asked_for_and_a_database_that_takes_nothing_is_tried_again() {
    let redis = Redis::with(&["--requirepass", "open"]).await;
    let wrong = Settings { password: Some(Secret::new("wrong")), ..settings(redis.url()) };
    let world = mirrored(wrong).await;
    let mut client = redis::Client::open(redis.url().replace("//", "//:open@"))
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    until(
        "the wrong one is refused",
        async || cmd("INFO").arg("errorstats").query_async::<String>(&mut client).await.unwrap(),
        |errors| errors.contains("WRONGPASS"),
    )
    .await;
    let right = Settings { password: Some(Secret::new("open")), ..settings(redis.url()) };
    assert!(!is_up(&world).await);
    let world = world.restart_with(mirrored_there(right)).await;
    until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
    world.stop().await;

    let redis = Redis::start().await;
    let mut client = redis.client().await;
    let world = mirrored(settings(redis.url())).await;
    until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
    let mut set = async |key: &str, value: &str| {
        cmd("CONFIG").arg("SET").arg(key).arg(value).query_async::<()>(&mut client).await.unwrap();
    };
    set("maxmemory", "1").await;
    node(&world).await;
    until("it is full", async || is_up(&world).await, |is_up| !is_up).await;
    set("maxmemory", "0").await;
    until_there(&redis, "there is room", |all| count(all, "node:capabilities:") == 1).await;
    world.stop().await;
}
