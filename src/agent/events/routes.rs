use std::collections::{BTreeMap, BTreeSet, HashMap};

use protocol::placements::{PlacedInstance, PlacedPart, PlacedState, PlacedTarget};

/// Who gets what, and what is here.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// What the manager calls this agent.
    pub node: String,
    /// Where its proxy takes calls of functions; none: it isn't known.
    pub proxy: Option<String>,
    /// By instance, which may have ended: by output, who gets it.
    outputs: HashMap<String, BTreeMap<String, PlacedTarget>>,
    /// Instances that may put something out, with their logical ids; and those of them that begin by themselves.
    speaking: BTreeMap<String, String>,
    sources: BTreeSet<String>,
    /// Parts that are here, by what they are called everywhere.
    parts: HashMap<String, LocalPart>,
    /// Instances of which the manager says nothing any more, and something waits.
    untold: BTreeSet<String>,
    /// Instances whose events nobody waits for any more.
    given_up: BTreeSet<String>,
}

/// A part on this machine.
#[derive(Debug, Clone)]
pub(super) struct LocalPart {
    pub instance: String,
    pub name: String,
    pub what: PlacedPart,
    pub key: String,
    pub is_running: bool,
}

/// Where an event goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    To(PlacedTarget),
    /// It isn't known now.
    Unknown,
    /// Nobody is its target any more.
    Nobody,
}

impl Routes {
    pub fn new(
        node: &str,
        wanted: &[PlacedInstance],
        running: &BTreeSet<String>,
        proxy: Option<&str>,
        kept: HashMap<String, BTreeMap<String, PlacedTarget>>,
        given_up: BTreeSet<String>,
    ) -> Self {
        let untold = kept.keys().cloned().collect();
        let mut outputs = kept;
        outputs.extend(wanted.iter().map(|one| (one.id.clone(), one.outputs.clone())));
        let speaks = |one: &&PlacedInstance| one.state != PlacedState::Prepare;
        let here = wanted.iter().filter(|one| one.state == PlacedState::Run);
        let part = |one: &PlacedInstance| {
            let (instance, name) = (one.id.clone(), one.name.clone());
            let (what, key, is_running) = (one.what.clone(), one.key.clone(), running.contains(&one.id));
            (one.part.clone(), LocalPart { instance, name, what, key, is_running })
        };
        Self {
            node: node.to_owned(),
            proxy: proxy.map(str::to_owned),
            outputs,
            sources: wanted.iter().filter(|one| one.source).map(|one| one.id.clone()).collect(),
            speaking: wanted.iter().filter(speaks).map(|one| (one.id.clone(), one.part.clone())).collect(),
            parts: here.map(part).collect(),
            untold,
            given_up,
        }
    }

    pub fn is_of(&self, node: &str, proxy: Option<&str>, given_up: &BTreeSet<String>) -> bool {
        self.node == node && self.proxy.as_deref() == proxy && self.given_up == *given_up
    }

    pub fn outputs_of<'i>(
        &self,
        instances: impl Iterator<Item = &'i String>,
    ) -> HashMap<String, BTreeMap<String, PlacedTarget>> {
        instances.filter_map(|one| Some((one.clone(), self.outputs.get(one)?.clone()))).collect()
    }

    /// The target of an output, or the outputs that there are; none: the instance isn't here.
    pub fn target(&self, instance: &str, output: &str) -> Option<Result<&PlacedTarget, Vec<&str>>> {
        let outputs = self.outputs.get(instance).filter(|_| self.speaking.contains_key(instance))?;
        Some(outputs.get(output).ok_or_else(|| outputs.keys().map(String::as_str).collect()))
    }

    /// What an instance that may put something out is called whichever node runs it.
    pub fn logical(&self, instance: &str) -> &str {
        self.speaking.get(instance).map_or("", String::as_str)
    }

    /// Whether an instance begins by itself.
    pub fn is_source(&self, instance: &str) -> bool {
        self.sources.contains(instance)
    }

    /// Whether the manager says anything of an instance.
    pub fn has(&self, instance: &str) -> bool {
        self.outputs.contains_key(instance) && !self.untold.contains(instance)
    }

    /// Whether an instance is to run here.
    pub fn is_here(&self, instance: &str) -> bool {
        self.parts.values().any(|part| part.instance == instance)
    }

    pub fn part(&self, part: &str) -> Option<&LocalPart> {
        self.parts.get(part)
    }

    pub fn route(&self, from: &str, to: &str) -> Route {
        if self.given_up.contains(from) {
            return Route::Nobody;
        }
        let Some(outputs) = self.outputs.get(from) else { return Route::Unknown };
        match outputs.values().find(|target| target.part == to) {
            Some(target) => Route::To(target.clone()),
            // The manager has told all that it gets to somebody.
            None => Route::Nobody,
        }
    }
}
