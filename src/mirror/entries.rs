//! What stands there of a node and of a part of a workflow: keys and JSON as EDGELESS has them. Readers of either of its generations
//! find what they know, and are to leave aside what they don't.
//!
//! | key | value |
//! |---|---|
//! | `node:capabilities:NODE` | what a node has; beyond EDGELESS, `name` and `cordoned` |
//! | `node:health:NODE` | how its machine was when it said so last; in the form of today a sorted set of these, by when that was |
//! | `provider:CLASS-NODE` | a class of resources that a node provides |
//! | `instance:LOGICAL` | a function or a resource, and the instance that is to run |
//! | `dependency:LOGICAL` | by the name of an output: the logical id of who gets what is put out there |

use std::collections::BTreeMap;

use serde::Serialize;

use domain::{
    release::state::Snapshot,
    workflows::{self, Instance, Part, PartKey, Workflow},
};
use engine::view::Children;
use model::{ChildKey, Now};
use placement::{Node, NodeState};
use protocol::measurements::NodeHealth;

/// What the key begins with of how a node's machine is.
pub const HEALTH: &str = "node:health:";

/// A key, and what stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: String,
    /// It is one of a sorted set, by this time in milliseconds since 1970.
    pub at_ms: Option<i64>,
}

/// Which of two forms stands there where EDGELESS has changed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schema {
    /// Of June 2024, as documented.
    Of2024,
    /// Of today.
    #[default]
    Current,
}

#[derive(Serialize)]
struct Capabilities<'n> {
    num_cpus: u32,
    model_name_cpu: &'static str,
    clock_freq_cpu: f64,
    num_cores: u32,
    /// In MiB.
    mem_size: u64,
    labels: Vec<&'n str>,
    is_tee_running: bool,
    has_tpm: bool,
    runtimes: Vec<&'n str>,
    disk_tot_space: u32,
    num_gpus: u32,
    model_name_gpu: &'static str,
    mem_size_gpu: u32,
    name: &'n str,
    cordoned: bool,
}

#[derive(Serialize)]
struct Provider<'n> {
    class_type: &'n str,
    node_id: &'n str,
    outputs: [&'static str; 0],
}

#[derive(Serialize)]
enum ActiveInstance<'w> {
    Function(FunctionRequest<'w>, Vec<String>),
    Resource(ResourceRequest<'w>, String),
}

#[derive(Serialize)]
struct FunctionRequest<'w> {
    spec: Specification<'w>,
    annotations: &'w BTreeMap<String, String>,
    state_specification: StateSpecification<'w>,
    workflow_id: &'w str,
}

#[derive(Serialize)]
struct Specification<'w> {
    id: &'w str,
    function_type: &'w str,
    version: &'w str,
    binary: Option<()>,
    code: Option<&'w str>,
    outputs: Vec<&'w str>,
}

#[derive(Serialize)]
struct StateSpecification<'w> {
    state_id: &'w str,
    state_policy: &'static str,
}

#[derive(Serialize)]
struct ResourceRequest<'w> {
    class_type: &'w str,
    configuration: &'w BTreeMap<String, String>,
    workflow_id: &'w str,
}

/// As both generations have it.
#[derive(Serialize)]
struct Health {
    #[serde(flatten)]
    of_machine: NodeHealth,
    cpu_load: i64,
    function_execution_times: BTreeMap<String, Vec<f64>>,
    disk_tot_reads: i64,
    disk_tot_writes: i64,
    gpu_load_perc: i64,
    gpu_temp_cels: i64,
    active_power: i64,
}

impl Health {
    fn new(said: NodeHealth) -> Self {
        // Readers have 32 bits for these.
        let short = |value: i64| value.clamp(-1, i32::MAX.into());
        let of_machine = NodeHealth {
            cpu_usage: short(said.cpu_usage),
            mem_free: short(said.mem_free),
            mem_used: short(said.mem_used),
            mem_total: short(said.mem_total),
            mem_available: short(said.mem_available),
            proc_cpu_usage: short(said.proc_cpu_usage),
            proc_memory: short(said.proc_memory),
            proc_vmemory: short(said.proc_vmemory),
            load_avg_1: short(said.load_avg_1),
            load_avg_5: short(said.load_avg_5),
            load_avg_15: short(said.load_avg_15),
            ..said
        };
        Self {
            of_machine,
            cpu_load: of_machine.load_avg_1,
            function_execution_times: BTreeMap::new(),
            disk_tot_reads: -1,
            disk_tot_writes: -1,
            gpu_load_perc: -1,
            gpu_temp_cels: -1,
            active_power: -1,
        }
    }
}

fn entry(key: String, value: &impl Serialize) -> Option<Entry> {
    serde_json::to_string(value).ok().map(|value| Entry { key, value, at_ms: None })
}

/// What stands there of a node; nothing of one that is silent or gone.
#[must_use]
pub fn of_node(state: &Snapshot, seen: &Children, now: Now, key: ChildKey, schema: Schema) -> Vec<Entry> {
    let Some(node) = workflows::node_of(state, seen, now, key) else { return Vec::new() };
    if node.state == NodeState::Silent {
        return Vec::new();
    }
    let child = state.children.get(key);
    let name = child.and_then(|child| child.profile.as_ref()?.name.as_deref()).unwrap_or_default();
    let Some(id) = child.map(|child| child.id.as_str()) else { return Vec::new() };
    let health = seen.health(key);
    let disk = health.map_or(-1, |(health, _)| health.disk_tot_space);
    let Node { labels, runtimes, resources, is_tee, has_tpm, cpus, cores, mhz, memory_mib, .. } = &node;
    let capabilities = Capabilities {
        num_cpus: *cpus,
        model_name_cpu: "",
        clock_freq_cpu: f64::from(*mhz),
        num_cores: *cores,
        mem_size: memory_mib.unwrap_or(0),
        labels: labels.iter().map(String::as_str).collect(),
        is_tee_running: *is_tee,
        has_tpm: *has_tpm,
        runtimes: runtimes.iter().map(String::as_str).collect(),
        disk_tot_space: u32::try_from(disk / (1024 * 1024)).unwrap_or(0),
        num_gpus: 0,
        model_name_gpu: "",
        mem_size_gpu: 0,
        name,
        cordoned: node.state != NodeState::Ready,
    };
    let provider = |class: &String| {
        entry(format!("provider:{class}-{id}"), &Provider { class_type: class, node_id: id, outputs: [] })
    };
    let providers = resources.iter().filter_map(provider);
    let health = health.and_then(|(health, at_ms)| {
        let entry = entry(format!("{HEALTH}{id}"), &Health::new(health))?;
        Some(Entry { at_ms: (schema == Schema::Current).then_some(at_ms), ..entry })
    });
    let capabilities = entry(format!("node:capabilities:{id}"), &capabilities);
    capabilities.into_iter().chain(health).chain(providers).collect()
}

/// What stands there of a part of a workflow; nothing once it has ended with that.
#[must_use]
pub fn of_part(state: &Snapshot, key: PartKey) -> Vec<Entry> {
    let found = state.workflows.part(key);
    let found = found.and_then(|part| Some((state.workflows.by_key(part.workflow)?, part)));
    let Some((workflow, part)) = found else { return Vec::new() };
    // Below a manager, another one may have its logical id by now.
    let is_replaced = workflow.above.is_some();
    if workflow.is_stopping && (is_replaced || part.instances().next().is_none()) {
        return Vec::new();
    }
    let instance = active(state, workflow, key, part);
    let instance = instance.and_then(|instance| entry(format!("instance:{}", part.logical), &instance));
    let dependency = entry(format!("dependency:{}", part.logical), &targets(state, workflow, key));
    instance.into_iter().chain(dependency).collect()
}

/// None: a resource that runs nowhere, of which there is no form.
fn active<'w>(
    state: &Snapshot,
    workflow: &'w Workflow,
    key: PartKey,
    part: &'w Part,
) -> Option<ActiveInstance<'w>> {
    let runs = part.instance.as_ref().and_then(|instance| instance_id(state, instance));
    let workflow_id = &*workflow.id;
    if let Some(resource) = workflow.resource(key) {
        let (class_type, configuration) = (&*resource.class, &resource.configuration);
        return Some(ActiveInstance::Resource(
            ResourceRequest { class_type, configuration, workflow_id },
            runs?,
        ));
    }
    let function = workflow.function(key)?;
    let spec = Specification {
        id: &function.class,
        function_type: function.requirements.runtime.as_deref().unwrap_or_default(),
        version: &function.version,
        binary: None,
        code: function.code.as_deref(),
        outputs: function.outputs.keys().map(String::as_str).collect(),
    };
    let state_specification = StateSpecification { state_id: &part.logical, state_policy: "NodeLocal" };
    let annotations = &function.annotations;
    let request = FunctionRequest { spec, annotations, state_specification, workflow_id };
    Some(ActiveInstance::Function(request, runs.into_iter().collect()))
}

fn instance_id(state: &Snapshot, instance: &Instance) -> Option<String> {
    let node = &state.children.get(instance.node)?.id;
    Some(format!("InstanceId(node_id: {node}, function_id: {})", instance.id))
}

fn targets(state: &Snapshot, workflow: &Workflow, key: PartKey) -> BTreeMap<String, String> {
    if let Some(above) = &workflow.above {
        return above.outputs.iter().map(|(output, to)| (output.clone(), to.part.clone())).collect();
    }
    let function = workflow.function(key).map(|function| &function.outputs);
    let outputs = function.or_else(|| workflow.resource(key).map(|resource| &resource.outputs));
    let target = |(output, name): (&String, &String)| {
        let part = state.workflows.part(workflow.key_of(name)?)?;
        Some((output.clone(), part.logical.to_string()))
    };
    outputs.into_iter().flatten().filter_map(target).collect()
}
