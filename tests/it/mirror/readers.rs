//! Programs that read the database of an EDGELESS of either generation, made of the documented forms: they want each field that these have,
//! and stop at a key that they don't know.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mirror::{Schema, Settings};
use redis::{FromRedisValue, aio::MultiplexedConnection, cmd};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    filled::{Filled, PAYLOAD, Part, parts, say_health},
    mirrored_there, settings,
};
use crate::deadline::until;

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "a reader wants them")]
struct NodeCapabilities {
    num_cpus: u32,
    model_name_cpu: String,
    clock_freq_cpu: f32,
    num_cores: u32,
    mem_size: u32,
    labels: Vec<String>,
    is_tee_running: bool,
    has_tpm: bool,
    runtimes: Vec<String>,
    disk_tot_space: u32,
    num_gpus: u32,
    model_name_gpu: String,
    mem_size_gpu: u32,
}

/// How a node is, in 2024: a text.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "a reader wants them")]
struct HealthOf2024 {
    cpu_usage: i32,
    cpu_load: i32,
    mem_free: i32,
    mem_used: i32,
    mem_total: i32,
    mem_available: i32,
    proc_cpu_usage: i32,
    proc_memory: i32,
    proc_vmemory: i32,
    load_avg_1: i32,
    load_avg_5: i32,
    load_avg_15: i32,
    tot_rx_bytes: i64,
    tot_rx_pkts: i64,
    tot_rx_errs: i64,
    tot_tx_bytes: i64,
    tot_tx_pkts: i64,
    tot_tx_errs: i64,
    disk_tot_space: i64,
    disk_free_space: i64,
}

/// How a node is, today: one of a sorted set.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "a reader wants them")]
struct HealthOfToday {
    mem_free: i32,
    mem_used: i32,
    mem_available: i32,
    proc_cpu_usage: i32,
    proc_memory: i32,
    proc_vmemory: i32,
    load_avg_1: i32,
    load_avg_5: i32,
    load_avg_15: i32,
    tot_rx_bytes: i64,
    tot_rx_pkts: i64,
    tot_rx_errs: i64,
    tot_tx_bytes: i64,
    tot_tx_pkts: i64,
    tot_tx_errs: i64,
    disk_free_space: i64,
    disk_tot_reads: i64,
    disk_tot_writes: i64,
    gpu_load_perc: i32,
    gpu_temp_cels: i32,
    active_power: i32,
}

#[derive(Debug, Deserialize)]
struct ResourceProvider {
    class_type: String,
    node_id: String,
    outputs: Vec<String>,
}

/// In 2024 the first of a function had nothing but `annotations`.
#[derive(Debug, Deserialize)]
enum ActiveInstance {
    Function(Request, Vec<String>),
    Resource(ResourceRequest, String),
}

#[derive(Debug, Deserialize)]
struct Request {
    spec: Specification,
    annotations: HashMap<String, String>,
    state_specification: HashMap<String, String>,
    workflow_id: String,
}

#[derive(Debug, Deserialize)]
struct Specification {
    id: String,
    function_type: String,
    version: String,
    binary: Option<Vec<u8>>,
    code: Option<String>,
    outputs: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ResourceRequest {
    class_type: String,
    configuration: HashMap<String, String>,
    workflow_id: String,
}

/// `InstanceId(node_id: N, function_id: F)`, as they take it apart: what isn't two UUIDs is passed over there.
fn ids_of(instance: &str) -> (String, String) {
    let ["InstanceId(node_id:", node, "function_id:", id] = instance.split(' ').collect::<Vec<_>>()[..]
    else {
        panic!("{instance}")
    };
    let [node, id] = [node, id].map(|word| {
        let id = &word[..word.len() - 1];
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert!(lengths == [8, 4, 4, 4, 12] && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()), "{id}");
        id.to_owned()
    });
    (node, id)
}

/// All that a program finds there.
#[derive(Debug, Default)]
struct Found {
    nodes: BTreeSet<String>,
    /// Classes of resources, and who provides them.
    providers: BTreeSet<(String, String)>,
    /// By the logical ids of functions and of resources: the node, and the instance there.
    functions: BTreeMap<String, (String, String)>,
    resources: BTreeMap<String, (String, String)>,
    dependencies: BTreeMap<String, BTreeMap<String, String>>,
    /// By node: when it was so, in seconds since 1970, and its free memory.
    health: BTreeMap<String, Vec<(f64, i32)>>,
    /// By key: when it was measured, and what.
    performance: BTreeMap<String, Vec<(f64, f64)>>,
    /// By key: how long it took, and when it ended.
    samples: BTreeMap<String, Vec<(u64, f64)>>,
    averages: BTreeMap<String, f64>,
}

struct Program {
    client: MultiplexedConnection,
    schema: Schema,
}

impl Program {
    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        cmd(words[0]).arg(&words[1..]).query_async::<T>(&mut self.client).await.unwrap()
    }

    async fn json<T: DeserializeOwned>(&mut self, key: &str) -> T {
        let text: String = self.ask(&["GET", key]).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{key}: {error}: {text}"))
    }

    async fn read(&mut self) -> Found {
        let mut found = Found::default();
        let keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        for key in &keys {
            let words: Vec<&str> = key.split(':').collect();
            match words.as_slice() {
                [.., "last_update"] => {
                    let at: f64 = self.ask(&["GET", key]).await;
                    assert!(at > 1_600_000_000.0, "{key} is {at}");
                }
                ["node", "capabilities", node] => {
                    let has: NodeCapabilities = self.json(key).await;
                    assert_eq!(
                        (has.num_cores, has.has_tpm, &*has.runtimes),
                        (4, true, &["python".to_owned()][..])
                    );
                    assert_eq!(has.labels, ["gpu", "tier=edge"]);
                    found.nodes.insert((*node).to_owned());
                }
                ["node", "health", node] => {
                    let health = self.health(key).await;
                    found.health.insert((*node).to_owned(), health);
                }
                ["provider", _] => {
                    let provider: ResourceProvider = self.json(key).await;
                    assert!(provider.outputs.is_empty());
                    found.providers.insert((provider.class_type, provider.node_id));
                }
                ["instance", logical] => self.instance(key, logical, &mut found).await,
                ["dependency", logical] => {
                    let targets: BTreeMap<String, String> = self.json(key).await;
                    found.dependencies.insert((*logical).to_owned(), targets);
                }
                ["performance", _, _] => {
                    let all = self.performance(key).await;
                    found.performance.insert(key.clone(), all);
                }
                ["workflow" | "function", _, "samples"] => {
                    let all = self.samples(key).await;
                    found.samples.insert(key.clone(), all);
                }
                ["workflow" | "function", _, "average"] => {
                    let average: f64 = self.ask(&["GET", key]).await;
                    found.averages.insert(key.clone(), average);
                }
                ["domain_info", "domain_id"] => {
                    let domain: String = self.ask(&["GET", key]).await;
                    assert!(!domain.is_empty());
                }
                ["choirmaster", _] => {}
                _ => panic!("no reader knows {key}"),
            }
        }
        found
    }

    /// In 2024 nobody was told when it was so.
    async fn health(&mut self, key: &str) -> Vec<(f64, i32)> {
        if self.schema == Schema::Of2024 {
            let health: HealthOf2024 = self.json(key).await;
            return vec![(0.0, health.mem_free)];
        }
        let all: Vec<(String, f64)> = self.ask(&["ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES"]).await;
        let last: Vec<String> = self.ask(&["ZRANGE", key, "-1", "-1"]).await;
        assert_eq!(last.first(), all.last().map(|(text, _)| text), "the last is the newest");
        let read = |(text, at): &(String, f64)| {
            let health: HealthOfToday = serde_json::from_str(text).unwrap();
            (*at, health.mem_free)
        };
        all.iter().map(read).collect()
    }

    async fn instance(&mut self, key: &str, logical: &str, found: &mut Found) {
        match self.json::<ActiveInstance>(key).await {
            ActiveInstance::Function(request, instances) => {
                let Request { spec, annotations, state_specification, workflow_id } = request;
                assert_eq!((&*spec.id, &*spec.function_type, &*spec.version), ("shout", "python", "0.1"));
                assert_eq!((spec.binary, spec.code.as_deref()), (None, Some("fns/messages/shout")));
                assert_eq!((&*workflow_id, spec.outputs.len()), ("chain", 2));
                assert_eq!(state_specification["state_policy"], "NodeLocal");
                assert!(
                    annotations.get("init-payload").is_none_or(|text| text == PAYLOAD),
                    "{annotations:?}"
                );
                let [instance] = &instances[..] else { panic!("{instances:?}") };
                found.functions.insert(logical.to_owned(), ids_of(instance));
            }
            ActiveInstance::Resource(request, instance) => {
                let ResourceRequest { class_type, configuration, workflow_id } = request;
                let configured = configuration.get("filename").or(configuration.get("wf_name"));
                let wanted = if class_type == "file-log" { "a.log" } else { "wf_chain" };
                assert_eq!((configured.map(String::as_str), &*workflow_id), (Some(wanted), "chain"));
                found.resources.insert(logical.to_owned(), ids_of(&instance));
            }
        }
    }

    /// Each says in its text, too, when it was.
    async fn performance(&mut self, key: &str) -> Vec<(f64, f64)> {
        let all: Vec<(String, f64)> = self.ask(&["ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES"]).await;
        let read = |(text, score): &(String, f64)| {
            let [at, value] = text.split(':').collect::<Vec<_>>()[..] else { panic!("{text}") };
            let [at, value] = [at, value].map(|word| word.parse::<f64>().unwrap());
            assert!((at - score).abs() < 1e-6, "{text} at {score}");
            (at, value)
        };
        all.iter().map(read).collect()
    }

    /// The last five, as the documents ask for them.
    async fn samples(&mut self, key: &str) -> Vec<(u64, f64)> {
        let all: Vec<String> = self.ask(&["LRANGE", key, "0", "4"]).await;
        let read = |text: &String| {
            let (ms, at) = text.split_once(',').unwrap();
            (ms.parse::<u64>().unwrap(), at.parse::<f64>().unwrap())
        };
        all.iter().map(read).collect()
    }
}

/// What there is one form of.
fn check(found: &Found, nodes: &[String], parts: &BTreeMap<String, Part>, measured_ms: i64) {
    assert_eq!(found.nodes, nodes.iter().cloned().collect::<BTreeSet<_>>());
    let provided = ["file-log", "metrics-collector"]
        .map(|class| nodes.iter().map(move |node| (class.to_owned(), node.clone())));
    assert_eq!(found.providers, provided.into_iter().flatten().collect::<BTreeSet<_>>());
    let running = |names: [&str; 2]| {
        let of = names.map(|name| &parts[name]);
        BTreeMap::from(of.map(|part| (part.logical.clone(), (part.node.clone(), part.instance.clone()))))
    };
    assert_eq!(found.functions, running(["first", "second"]));
    assert_eq!(found.resources, running(["log", "collector"]));
    let to = |name: &str, targets: &[(&str, &str)]| {
        let target = |(output, to): &(&str, &str)| ((*output).to_owned(), parts[*to].logical.clone());
        (parts[name].logical.clone(), targets.iter().map(target).collect::<BTreeMap<_, _>>())
    };
    let dependencies = [
        to("first", &[("metric", "collector"), ("out", "second")]),
        to("second", &[("metric", "collector"), ("out", "log")]),
        to("log", &[]),
        to("collector", &[]),
    ];
    assert_eq!(found.dependencies, BTreeMap::from(dependencies));

    let of_function = |what: &str| format!("function:{}:{what}", parts["first"].logical);
    let samples = [
        ("workflow:wf_chain:samples".to_owned(), vec![(849, 1_718_287_852.177), (958, 1_718_287_851.007)]),
        (of_function("samples"), vec![(7, 1_718_287_852.2)]),
    ];
    assert_eq!(found.samples, BTreeMap::from(samples));
    let averages = [("workflow:wf_chain:average".to_owned(), 859.9), (of_function("average"), 7.0)];
    assert_eq!(found.averages.len(), averages.len());
    for (key, average) in averages {
        assert!((found.averages[&key] - average).abs() < 1e-6, "{key} is {}", found.averages[&key]);
    }
    assert_eq!(found.performance.len(), 4);
    for name in ["first", "second"] {
        let of = |series: &str| &found.performance[&format!("performance:{}:{series}", parts[name].instance)];
        let (took, came) = (of("function_execution_time"), of("function_transfer_time"));
        let micros: Vec<i64> =
            took.iter().chain(came).map(|(_, value)| (value * 1e6).round() as i64).collect();
        assert_eq!(micros, [250, 250, 1_500_000]);
        let is_then = |(at, _): &(f64, f64)| (at - measured_ms as f64 / 1_000.0).abs() < 0.01;
        assert!(took.iter().chain(came).all(is_then), "{took:?} {came:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_both_generations_read_it() {
    let Filled { redis, world, nodes, measured_ms } = Filled::start().await;
    let parts = parts(&world).await;
    let client = redis.client().await;
    // How nodes are is told more than once.
    say_health(&world, &nodes, 2).await;
    let counts = async || {
        let mut counts = Vec::new();
        for node in &nodes {
            let key = format!("node:health:{node}");
            counts.push(cmd("ZCARD").arg(key).query_async::<u64>(&mut client.clone()).await.unwrap());
        }
        counts
    };
    until("both are there", counts, |counts| *counts == [2, 2]).await;
    let found = Program { client: client.clone(), schema: Schema::Current }.read().await;
    check(&found, &nodes, &parts, measured_ms);
    let now = world.manager.engine.clock().now().wall_ms as f64 / 1_000.0;
    assert_eq!(found.health.len(), 2);
    for all in found.health.values() {
        let free: Vec<i32> = all.iter().map(|(_, free)| *free).collect();
        assert_eq!(free, [1, 2]);
        let is_recent = |(at, _): &(f64, i32)| (measured_ms as f64 / 1_000.0..=now).contains(at);
        assert!(all.iter().all(is_recent), "{all:?} before {now}");
    }

    // The same database in the other form: what was measured before stays.
    let of_2024 = Settings { schema: Schema::Of2024, ..settings(redis.url()) };
    let world = world.restart_with(mirrored_there(of_2024)).await;
    say_health(&world, &nodes, 3).await;
    let texts = async || {
        let mut count = 0;
        for node in &nodes {
            let key = format!("node:health:{node}");
            let text: Option<String> =
                cmd("GET").arg(key).query_async(&mut client.clone()).await.ok().flatten();
            count += usize::from(text.is_some_and(|text| text.contains("\"mem_free\":3,")));
        }
        count
    };
    until("both are texts", texts, |count| *count == 2).await;
    let found = Program { client, schema: Schema::Of2024 }.read().await;
    check(&found, &nodes, &parts, measured_ms);
    let free: Vec<i32> = found.health.values().flatten().map(|(_, free)| *free).collect();
    assert_eq!(free, [3, 3]);
    world.stop().await;
}
