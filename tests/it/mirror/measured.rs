//! What nodes say of their machines, and what was measured there, in Redis and in the metrics.

use std::{collections::BTreeMap, time::Duration};

use mirror::{Schema, Settings};
use redis::{aio::MultiplexedConnection, cmd};
use serde_json::{Value, json};

use super::{is_up, mirrored, mirrored_there, patient, server::Redis, settings};
use crate::{deadline::until, world::World};

/// A node with a function that tells a collector of metrics, and one that doesn't.
pub struct Measuring {
    pub world: World,
    node: String,
    /// By name: logical ids and instances.
    parts: BTreeMap<String, (String, String)>,
}

pub fn workflow() -> Value {
    let code = json!({"id": "shout", "function_type": "python", "version": "0.1", "code": "fns/messages/shout",
        "outputs": ["metric"]});
    json!({
        "functions": [
            {"name": "tells", "class_specification": code, "output_mapping": {"metric": "metrics-collector"}},
            {"name": "silent", "class_specification": code},
        ],
        "resources": [{"name": "metrics-collector", "class_type": "metrics-collector",
            "configurations": {"wf_name": "wf_chain", "alpha": "0.5"}}],
    })
}

impl Measuring {
    pub async fn start(settings: Option<Settings>) -> Self {
        let world = match settings {
            Some(settings) => mirrored(settings).await,
            None => World::with(patient).await,
        };
        let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["metrics-collector"]}});
        let node = world.node("edge", &capabilities).await;
        let started = world.post("/api/v1/workflows?name=chain", &workflow()).await;
        assert_eq!(started.status, 201, "{}", started.text());
        world.run_placed(&node).await;
        let shown = world.get("/api/v1/workflows/chain").await.ok().json();
        let all = ["functions", "resources"].map(|kind| shown[kind].as_array().unwrap().clone()).concat();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let part =
            |part: &Value| (text(&part["name"]), (text(&part["logical_id"]), text(&part["instance"]["id"])));
        let parts = all.iter().map(part).collect();
        Self { world, node, parts }
    }

    fn logical(&self, name: &str) -> &str {
        &self.parts[name].0
    }

    fn instance(&self, name: &str) -> &str {
        &self.parts[name].1
    }

    pub fn of_workflow(&self, ms: u64, at_ms: u64) -> Value {
        json!({"at_ms": at_ms, "workflow": {"collector": self.instance("metrics-collector"), "ms": ms}})
    }

    fn of_function(&self, name: &str, ms: u64, at_ms: u64) -> Value {
        let collector = self.instance("metrics-collector");
        json!({"at_ms": at_ms, "function": {"collector": collector, "logical": self.logical(name), "ms": ms}})
    }

    pub async fn tell(&self, run: u64, first: u64, all: Vec<Value>) {
        let body = json!({"id": self.node, "samples": {"run": run, "first": first, "all": all}});
        self.world.post("/placements", &body).await.ok();
    }

    async fn metrics(&self) -> String {
        let text = self.world.get("/metrics").await.ok().text();
        let lines = text.lines().filter(|line| line.starts_with("choirmaster_application"));
        lines.map(|line| line.replace(self.logical("tells"), "TELLS")).collect::<Vec<_>>().join("\n")
    }
}

pub async fn list(client: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    cmd("LRANGE").arg(key).arg(0).arg(-1).query_async(client).await.unwrap()
}

pub async fn average(client: &mut MultiplexedConnection, key: &str) -> Option<f64> {
    let text: Option<String> = cmd("GET").arg(key).query_async(client).await.unwrap();
    text.map(|text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_count_once_whoever_hears_them_twice_and_those_of_strangers_do_not() {
    let redis = Redis::start().await;
    let measuring = Measuring::start(Some(settings(redis.url()))).await;
    let mut client = redis.client().await;
    let first =
        vec![measuring.of_workflow(849, 1_718_287_852_177), measuring.of_workflow(951, 1_718_287_853_007)];
    measuring.tell(7, 0, first.clone()).await;
    // Its answer was lost.
    measuring.tell(7, 0, first).await;
    let of_function = measuring.of_function("tells", 5, 1_718_287_853_500);
    measuring.tell(7, 2, vec![of_function, measuring.of_function("silent", 6, 1)]).await;
    // What isn't placed on it, and what is no collector.
    let stranger =
        json!({"at_ms": 1, "workflow": {"collector": "00000000-0000-4000-8000-000000000000", "ms": 1}});
    let other = json!({"at_ms": 1, "workflow": {"collector": measuring.instance("tells"), "ms": 1}});
    measuring.tell(7, 4, vec![stranger, other]).await;
    let key = format!("function:{}", measuring.logical("tells"));
    let told = async || list(&mut client.clone(), &format!("{key}:samples")).await;
    until("the last is there", told, |all| *all == ["5,1718287853.500"]).await;
    let samples = list(&mut client, "workflow:wf_chain:samples").await;
    assert_eq!(samples, ["951,1718287853.007", "849,1718287852.177"], "the newest first");
    assert_eq!(average(&mut client, "workflow:wf_chain:average").await, Some(900.0));
    assert_eq!(average(&mut client, &format!("{key}:average")).await, Some(5.0));
    let silent = format!("function:{}:samples", measuring.logical("silent"));
    assert!(list(&mut client, &silent).await.is_empty());
    let left: i64 = cmd("TTL").arg("workflow:wf_chain:samples").query_async(&mut client).await.unwrap();
    assert!((1..=3_600).contains(&left), "{left}");
    insta::assert_snapshot!(measuring.metrics().await, @r#"
    choirmaster_application_seconds_sum{of="function",name="TELLS"} 0.005
    choirmaster_application_seconds_count{of="function",name="TELLS"} 1
    choirmaster_application_seconds_sum{of="workflow",name="wf_chain"} 1.8
    choirmaster_application_seconds_count{of="workflow",name="wf_chain"} 2
    choirmaster_application_average_seconds{of="function",name="TELLS"} 0.005
    choirmaster_application_average_seconds{of="workflow",name="wf_chain"} 0.9
    "#);
    // Its agent was started anew, and numbers begin anew.
    measuring.tell(8, 0, vec![measuring.of_workflow(1, 1_718_287_854_000)]).await;
    let all = async || list(&mut client.clone(), "workflow:wf_chain:samples").await;
    until("it counts", all, |all| all.len() == 3).await;
    let reset = json!({"at_ms": 1, "reset": {"collector": measuring.instance("metrics-collector")}});
    measuring.tell(8, 1, vec![reset, measuring.of_workflow(3, 1_718_287_855_000)]).await;
    until("it begins anew", all, |all| *all == ["3,1718287855.000"]).await;
    assert_eq!(average(&mut client, "workflow:wf_chain:average").await, Some(3.0));
    assert_eq!(average(&mut client, &format!("{key}:average")).await, None);
    measuring.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_wait_for_redis_and_what_others_put_at_their_keys_makes_room() {
    let mut redis = Redis::start().await;
    let measuring = Measuring::start(Some(settings(redis.url()))).await;
    until("it is mirrored", async || is_up(&measuring.world).await, |is_up| *is_up).await;
    redis.kill();
    let all = (0..500).map(|number| measuring.of_workflow(number, 1_718_287_852_000 + number));
    measuring.tell(7, 0, all.collect()).await;
    redis.come_back().await;
    let told = async || list(&mut redis.client().await, "workflow:wf_chain:samples").await;
    until("all is there", told, |all| all.len() == 500).await;
    let mut client = redis.client().await;
    for key in ["workflow:wf_chain:samples", "workflow:wf_chain:average", "choirmaster:measured"] {
        cmd("DEL").arg(key).query_async::<()>(&mut client).await.unwrap();
        cmd("HSET").arg(key).arg("a").arg("b").query_async::<()>(&mut client).await.unwrap();
    }
    measuring.tell(7, 500, vec![measuring.of_workflow(1, 1)]).await;
    let told = async || {
        cmd("LRANGE")
            .arg("workflow:wf_chain:samples")
            .arg(0)
            .arg(-1)
            .query_async(&mut client.clone())
            .await
            .unwrap_or_default()
    };
    until("it is there", told, |all: &Vec<String>| *all == ["1,0.001"]).await;
    measuring.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_needs_redis_for_metrics() {
    let measuring = Measuring::start(None).await;
    let answer = measuring.world.post("/placements", &json!({"id": measuring.node})).await.ok().json();
    assert_eq!(answer["measure"], Value::Null, "nobody wants to know how long functions take");
    measuring.tell(7, 0, vec![measuring.of_workflow(2_000, 1)]).await;
    let shown = async || measuring.metrics().await;
    until("it counts", shown, |text| {
        text.contains("application_seconds_sum{of=\"workflow\",name=\"wf_chain\"} 2\n")
    })
    .await;
    measuring.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_instances_take_stands_there_by_time() {
    let redis = Redis::start().await;
    let measuring = Measuring::start(Some(settings(redis.url()))).await;
    let answer = measuring.world.post("/placements", &json!({"id": measuring.node})).await.ok().json();
    assert_eq!(answer["measure"], true);
    let now = measuring.world.manager.engine.clock().now().wall_ms;
    let instance = measuring.instance("tells");
    let took = |micros: u64| json!({"at_ms": now, "execution": {"instance": instance, "micros": micros}});
    let way = json!({"at_ms": now, "transfer": {"instance": instance, "micros": 1_500_000}});
    let stranger = json!({"at_ms": now, "execution": {"instance": "nobodys", "micros": 1}});
    measuring.tell(7, 0, vec![took(250), took(250), way, stranger]).await;
    let client = redis.client().await;
    let members = async |series: &str| -> Vec<String> {
        let key = format!("performance:{instance}:{series}");
        cmd("ZRANGE").arg(key).arg(0).arg(-1).query_async(&mut client.clone()).await.unwrap()
    };
    let all =
        until("both are there", async || members("function_execution_time").await, |all| all.len() == 2)
            .await;
    for member in all {
        // As its readers take it apart.
        let (at, value) = member.split_once(':').unwrap();
        assert!((at.parse::<f64>().unwrap() - now as f64 / 1_000.0).abs() < 0.01, "{member}");
        assert_eq!(value.parse::<f64>(), Ok(0.000_25));
    }
    let way = members("function_transfer_time").await;
    assert!(way.len() == 1 && way[0].ends_with(":1.5"), "{way:?}");
    let nobodys: u8 = cmd("EXISTS")
        .arg("performance:nobodys:function_execution_time")
        .query_async(&mut client.clone())
        .await
        .unwrap();
    assert_eq!(nobodys, 0);
    measuring.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_of_nodes_stands_there_in_the_form_that_is_wanted() {
    let redis = Redis::start().await;
    let measuring = Measuring::start(Some(settings(redis.url()))).await;
    let health = |free: u64| {
        json!({"mem_free": free, "mem_total": 9_000_000_000_u64, "disk_free_space": 5_000_000_000_u64,
        "disk_tot_space": 8_388_608})
    };
    let say = async |world: &World, free: u64| {
        let body = json!({"id": measuring.node, "health": health(free)});
        world.post("/placements", &body).await.ok();
    };
    for free in [1, 2] {
        say(&measuring.world, free).await;
    }
    let key = format!("node:health:{}", measuring.node);
    let client = redis.client().await;
    let last = async || -> Vec<String> {
        cmd("ZRANGE").arg(&key).arg(-1).arg(-1).query_async(&mut client.clone()).await.unwrap_or_default()
    };
    let is_last = |all: &Vec<String>| all.first().is_some_and(|text| text.contains("\"mem_free\":2,"));
    let found = until("the last is there", last, is_last).await;
    insta::assert_snapshot!(found[0], @r#"{"cpu_usage":-1,"mem_free":2,"mem_used":-1,"mem_total":2147483647,"mem_available":-1,"proc_cpu_usage":-1,"proc_memory":-1,"proc_vmemory":-1,"load_avg_1":-1,"load_avg_5":-1,"load_avg_15":-1,"tot_rx_bytes":-1,"tot_rx_pkts":-1,"tot_rx_errs":-1,"tot_tx_bytes":-1,"tot_tx_pkts":-1,"tot_tx_errs":-1,"disk_tot_space":8388608,"disk_free_space":5000000000,"cpu_load":-1,"function_execution_times":{},"disk_tot_reads":-1,"disk_tot_writes":-1,"gpu_load_perc":-1,"gpu_temp_cels":-1,"active_power":-1}"#);
    let node: String = cmd("GET")
        .arg(format!("node:capabilities:{}", measuring.node))
        .query_async(&mut client.clone())
        .await
        .unwrap();
    assert!(node.contains("\"disk_tot_space\":8,"), "in MiB: {node}");
    // The form of before, over that of today; and back.
    let of_2024 = Settings { schema: Schema::Of2024, ..settings(redis.url()) };
    let world = measuring.world.restart_with(mirrored_there(of_2024)).await;
    say(&world, 3).await;
    let text = async || -> Option<String> {
        cmd("GET").arg(&key).query_async(&mut client.clone()).await.ok().flatten()
    };
    until("it is a text", text, |text| text.as_ref().is_some_and(|text| text.contains("\"mem_free\":3,")))
        .await;
    let world = world.restart_with(mirrored_there(settings(redis.url()))).await;
    say(&world, 2).await;
    until("it is a set again", last, is_last).await;
    let old: i64 = cmd("ZCARD").arg(&key).query_async(&mut client.clone()).await.unwrap();
    assert_eq!(old, 1);
    world.stop().await;
}

/// What is older than it may be is gone with the next that comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_old_stands_there_no_more() {
    let redis = Redis::start().await;
    let measuring = Measuring::start(Some(settings(redis.url()))).await;
    let now = measuring.world.manager.engine.clock().now().wall_ms;
    let instance = measuring.instance("tells");
    let took = |at_ms: i64| json!({"at_ms": at_ms, "execution": {"instance": instance, "micros": 1}});
    let before = now - i64::try_from(Duration::from_hours(2).as_millis()).unwrap();
    measuring.tell(7, 0, vec![took(before), took(now)]).await;
    let key = format!("performance:{instance}:function_execution_time");
    let client = redis.client().await;
    let count = async || -> u64 { cmd("ZCARD").arg(&key).query_async(&mut client.clone()).await.unwrap() };
    until("the newer one is there", count, |count| *count == 1).await;
    measuring.world.stop().await;
}
