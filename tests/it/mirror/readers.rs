//! Programs that read the database of an EDGELESS of either generation, made of the documented forms: they want each field that these have,
//! and stop at a key that they don't know.

use std::collections::HashMap;

use serde::Deserialize;

use super::{count, mirrored, node, server::Redis, settings, start_chain, until_there};

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

/// `InstanceId(node_id: N, function_id: F)`, as they take it apart.
fn node_of(instance: &str) -> String {
    let words: Vec<&str> = instance.split(' ').collect();
    assert_eq!((words.len(), words[0], words[2]), (4, "InstanceId(node_id:", "function_id:"));
    words[1].trim_end_matches(',').to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_both_generations_read_it() {
    let redis = Redis::start().await;
    let world = mirrored(settings(redis.url())).await;
    let node = node(&world).await;
    start_chain(&world).await;
    world.run_placed(&node).await;
    let all = until_there(&redis, "the workflow is there", |all| count(all, "instance:") == 3).await;
    let (mut functions, mut resources, mut dependencies) = (0, 0, HashMap::new());
    for (key, value) in all.iter().filter(|(key, _)| !key.ends_with(":last_update")) {
        let words: Vec<&str> = key.splitn(3, ':').collect();
        match words[..] {
            ["node", "capabilities", id] => {
                let found: NodeCapabilities = serde_json::from_str(value).unwrap();
                assert_eq!((id, found.num_cores, found.has_tpm), (&*node, 4, true));
                assert_eq!(found.labels, ["gpu", "tier=edge"]);
            }
            ["provider", _] => {
                let found: ResourceProvider = serde_json::from_str(value).unwrap();
                assert_eq!((&*found.class_type, &found.node_id, found.outputs.len()), ("file-log", &node, 0));
            }
            ["instance", _] => match serde_json::from_str(value).unwrap() {
                ActiveInstance::Function(request, instances) => {
                    functions += 1;
                    assert_eq!(node_of(&instances[0]), node);
                    let Request { spec, annotations, state_specification, workflow_id } = request;
                    assert_eq!((&*spec.id, &*spec.function_type, &*spec.version), ("shout", "python", "0.1"));
                    assert_eq!((spec.binary, spec.code.as_deref()), (None, Some("fns/messages/shout")));
                    assert_eq!((&*workflow_id, spec.outputs.len()), ("chain", 1));
                    assert_eq!(state_specification["state_policy"], "NodeLocal");
                    assert!(annotations.len() <= 1, "{annotations:?}");
                }
                ActiveInstance::Resource(request, instance) => {
                    resources += 1;
                    assert_eq!((&*request.class_type, &*request.workflow_id), ("file-log", "chain"));
                    assert_eq!(
                        (&*request.configuration["filename"], node_of(&instance)),
                        ("a.log", node.clone())
                    );
                }
            },
            ["dependency", id] => {
                let found: HashMap<String, String> = serde_json::from_str(value).unwrap();
                dependencies.insert(id.to_owned(), found);
            }
            ["domain_info", "domain_id"] => assert!(!value.is_empty()),
            ["choirmaster", _] => {}
            _ => panic!("no reader knows {key}"),
        }
    }
    assert_eq!((functions, resources, dependencies.len()), (2, 1, 3));
    // From the first to the log.
    let ends = dependencies.values().filter(|to| to.is_empty()).count();
    let to_known =
        dependencies.values().flat_map(HashMap::values).filter(|to| dependencies.contains_key(*to));
    assert_eq!((ends, to_known.count()), (1, 2));
    world.stop().await;
}
