//! What a release needs of whoever takes part: the part of a strategy by which children are chosen.

use std::collections::BTreeMap;

use language::{Group, MAX_FUNCTIONS, MAX_TARGET_LABELS, MAX_TARGET_POSITIONS, Strategy, Target};
use model::area::check_polygon;

/// Longest name of a runtime or a function, in bytes.
const MAX_RUNTIME_BYTES: usize = 256;

/// A target, for each function the runtimes of its base and its new version and the labels of its agents, and for each service the labels of
/// its routers.
#[derive(Debug, Clone, PartialEq)]
pub struct Needs {
    pub target: Option<Target>,
    pub runtimes: Vec<[String; 2]>,
    /// Of each function; empty: none asks for labels.
    pub agents: Vec<BTreeMap<String, String>>,
    pub routers: Vec<BTreeMap<String, String>>,
    /// The names of both, functions first, by which it is known who has not come back from an earlier release of one.
    pub functions: Vec<String>,
    /// The base versions of the functions, as [`language::Version::content`]; empty: they are not known.
    pub bases: Vec<u64>,
}

impl Needs {
    pub fn of(strategy: &Strategy) -> Self {
        let runtimes = strategy.functions.iter().map(|f| [f.base.env.clone(), f.new.env.clone()]);
        let asks = strategy.functions.iter().any(|function| !function.agents.is_empty());
        let agents = strategy.functions.iter().filter(|_| asks).map(|function| function.agents.clone());
        let routers = strategy.services.iter().map(|service| service.routers.clone());
        let functions = strategy.subject_keys().map(str::to_owned).collect();
        let target = strategy.target.clone();
        Self {
            target,
            runtimes: runtimes.collect(),
            agents: agents.collect(),
            routers: routers.collect(),
            functions,
            bases: strategy.bases(),
        }
    }

    /// The same for a group of a hybrid; of another strategy, all.
    pub fn of_group(strategy: &Strategy, group: Group) -> Self {
        if strategy.is_hybrid() { Self::of(&strategy.of_group(group)) } else { Self::of(strategy) }
    }

    /// Checks what came from somewhere else.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=MAX_FUNCTIONS).contains(&(self.runtimes.len() + self.routers.len())) {
            return Err(format!("runtimes of 1 to {MAX_FUNCTIONS} functions are needed"));
        }
        if self.routers.iter().any(|labels| labels.len() > MAX_TARGET_LABELS) {
            return Err(format!("routers are asked for by at most {MAX_TARGET_LABELS} labels"));
        }
        let are_many = |labels: &BTreeMap<String, String>| labels.len() > MAX_TARGET_LABELS;
        if self.agents.len() > self.runtimes.len() || self.agents.iter().any(are_many) {
            return Err(format!("agents of a function are asked for by at most {MAX_TARGET_LABELS} labels"));
        }
        if self.runtimes.iter().flatten().any(|runtime| runtime.len() > MAX_RUNTIME_BYTES) {
            return Err(format!("the name of a runtime has at most {MAX_RUNTIME_BYTES} bytes"));
        }
        let is_long = |name: &String| name.len() > MAX_RUNTIME_BYTES;
        if self.functions.len() > MAX_FUNCTIONS || self.functions.iter().any(is_long) {
            return Err(format!(
                "at most {MAX_FUNCTIONS} functions are named, each with at most {MAX_RUNTIME_BYTES} bytes"
            ));
        }
        if self.bases.len() > self.runtimes.len() {
            return Err("a base version is told of each function".to_owned());
        }
        let Some(Target { area, labels, partial: _ }) = &self.target else { return Ok(()) };
        if labels.len() > MAX_TARGET_LABELS {
            return Err(format!("a target has at most {MAX_TARGET_LABELS} labels"));
        }
        let Some(area) = area else { return Ok(()) };
        if area.0.iter().flatten().map(Vec::len).sum::<usize>() > MAX_TARGET_POSITIONS {
            return Err(format!("a target has at most {MAX_TARGET_POSITIONS} positions"));
        }
        area.polygons().iter().try_for_each(check_polygon).map_err(|error| error.to_string())
    }
}
