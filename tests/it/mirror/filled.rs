//! A database with all that a manager mirrors: nodes and how they are, a workflow, and what was measured.

use std::collections::BTreeMap;

use redis::cmd;
use serde_json::{Value, json};

use super::{is_up, mirrored, server::Redis, settings};
use crate::{deadline::until, world::World};

/// What the second function of the workflow is told at its start.
pub const PAYLOAD: &str = "message=hello world,period=1000";

/// Two nodes that may run all of a workflow. Both have said once how they are, with 1 KiB of free memory, and what they measured.
pub struct Filled {
    pub redis: Redis,
    pub world: World,
    pub nodes: [String; 2],
    /// When it was measured how long functions take, in milliseconds since 1970.
    pub measured_ms: i64,
}

/// A function or a resource, and what runs of it.
#[derive(Debug)]
pub struct Part {
    pub logical: String,
    pub instance: String,
    pub node: String,
}

/// A function puts out to another one, and that to a log. Both tell a collector how long they take.
fn workflow() -> Value {
    let code = json!({"id": "shout", "function_type": "python", "version": "0.1", "code": "fns/messages/shout",
        "outputs": ["metric", "out"]});
    json!({
        "functions": [
            {"name": "first", "class_specification": code,
                "output_mapping": {"metric": "collector", "out": "second"}},
            {"name": "second", "class_specification": code,
                "output_mapping": {"metric": "collector", "out": "log"}, "annotations": {"init-payload": PAYLOAD}},
        ],
        "resources": [
            {"name": "log", "class_type": "file-log", "configurations": {"filename": "a.log"}},
            {"name": "collector", "class_type": "metrics-collector", "configurations": {"wf_name": "wf_chain"}},
        ],
    })
}

impl Filled {
    pub async fn start() -> Self {
        let redis = Redis::start().await;
        let world = mirrored(settings(redis.url())).await;
        until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
        let machine = json!({"cpus": 2, "cores": 4, "mhz": 2_000, "memory_mib": 512, "tpm": true,
            "resources": ["file-log", "metrics-collector"]});
        let capabilities =
            json!({"runtimes": ["python"], "labels": {"tier": "edge", "gpu": ""}, "node": machine});
        let nodes = [world.node("one", &capabilities).await, world.node("two", &capabilities).await];
        let started = world.post("/api/v1/workflows?name=chain", &workflow()).await;
        assert_eq!(started.status, 201, "{}", started.text());
        for node in &nodes {
            world.run_placed(node).await;
        }
        let measured_ms = world.manager.engine.clock().now().wall_ms;
        let filled = Self { redis, world, nodes, measured_ms };
        filled.tell().await;
        filled
    }

    /// What was measured is told by the node where it was, and stands in the database then.
    async fn tell(&self) {
        let parts = parts(&self.world).await;
        let (at_ms, collector) = (self.measured_ms, &parts["collector"]);
        let mut wanted: Vec<String> =
            ["average", "samples"].map(|what| format!("workflow:wf_chain:{what}")).into();
        wanted.extend(parts.values().map(|part| format!("instance:{}", part.logical)));
        wanted.extend(parts.values().map(|part| format!("dependency:{}", part.logical)));
        say_health(&self.world, &self.nodes, 1).await;
        for node in &self.nodes {
            wanted.push(format!("node:health:{node}"));
            let mut all = Vec::new();
            if collector.node == *node {
                let (id, logical) = (&collector.instance, &parts["first"].logical);
                let took =
                    |ms: u64, at_ms: i64| json!({"at_ms": at_ms, "workflow": {"collector": id, "ms": ms}});
                all.extend([took(958, 1_718_287_851_007), took(849, 1_718_287_852_177)]);
                let of_function = json!({"collector": id, "logical": logical, "ms": 7});
                all.push(json!({"at_ms": 1_718_287_852_200_i64, "function": of_function}));
                wanted.extend(["average", "samples"].map(|what| format!("function:{logical}:{what}")));
            }
            for part in
                ["first", "second"].map(|name| &parts[name]).into_iter().filter(|part| part.node == *node)
            {
                let id = &part.instance;
                let took = json!({"at_ms": at_ms, "execution": {"instance": id, "micros": 250}});
                let came = json!({"at_ms": at_ms, "transfer": {"instance": id, "micros": 1_500_000}});
                // They are written in this order: where the last is, all are.
                all.extend([took.clone(), took, came]);
                wanted.push(format!("performance:{id}:function_transfer_time"));
            }
            let runs = self.world.run_placed(node).await;
            let samples = json!({"run": 7, "first": 0, "all": all});
            let body = json!({"id": node, "instances": runs, "samples": samples});
            self.world.post("/placements", &body).await.ok();
        }
        let client = self.redis.client().await;
        let missing = async || -> Vec<String> {
            let keys: Vec<String> = cmd("KEYS").arg("*").query_async(&mut client.clone()).await.unwrap();
            wanted.iter().filter(|key| !keys.contains(key)).cloned().collect()
        };
        until("all is there", missing, Vec::is_empty).await;
    }
}

/// What runs of the workflow, by the names of its parts.
pub async fn parts(world: &World) -> BTreeMap<String, Part> {
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    let all = ["functions", "resources"].map(|kind| shown[kind].as_array().unwrap().clone()).concat();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let part = |part: &Value| {
        let (instance, logical) = (&part["instance"], text(&part["logical_id"]));
        Part { logical, instance: text(&instance["id"]), node: text(&instance["node"]["id"]) }
    };
    all.iter().map(|one| (text(&one["name"]), part(one))).collect()
}

/// Nodes say how they are, with so much free memory, and that they run what they are to.
pub async fn say_health(world: &World, nodes: &[String], free: u64) {
    for node in nodes {
        let runs = world.run_placed(node).await;
        // More memory than readers have bits for.
        let health = json!({"mem_free": free, "mem_total": 9_000_000_000_u64, "load_avg_1": 150,
            "tot_rx_bytes": 5_000_000_000_u64, "disk_tot_space": 8_388_608, "disk_free_space": 4_194_304});
        world.post("/placements", &json!({"id": node, "instances": runs, "health": health})).await.ok();
    }
}
