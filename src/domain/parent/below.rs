//! What is below this manager, as its parent sees it: an area, a number of agents, runtimes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::area::{self, Reported};
use crate::children::{Child, Children};
use model::{Capabilities, Cordon, Leads, NodeCapabilities};

/// Most runtimes that are reported one by one; with more of them nothing is said, which means all.
const MAX_RUNTIMES: usize = 64;

/// Most labels that are reported, each value of a key counted; with more of them nothing is said, which means any.
const MAX_LABELS: usize = 512;

/// Most classes of resources that are reported.
const MAX_RESOURCES: usize = 32;

type Labels = BTreeMap<String, BTreeSet<String>>;

/// What is known of the children together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Below {
    area: Reported,
    agents: u32,
    /// `None`: a child doesn't say what it runs.
    runtimes: Option<BTreeSet<String>>,
    /// `None`: a manager below doesn't say which labels its children have, or there are too many.
    labels: Option<Labels>,
    /// What nodes have together on which functions of workflows may be placed; none: there is no node.
    node: Option<NodeCapabilities>,
}

/// Children that were looked at.
#[derive(Debug, Default)]
pub struct Survey {
    areas: Vec<Arc<str>>,
    agents: u32,
    runtimes: BTreeSet<String>,
    some_say_nothing: bool,
    labels: SomeLabels,
    node: Option<NodeCapabilities>,
    /// Processors × cores × MHz of all nodes.
    weight: u64,
}

/// Labels of which some may not be known.
#[derive(Debug, Default)]
struct SomeLabels {
    known: Labels,
    pairs: usize,
    some_unknown: bool,
}

impl SomeLabels {
    fn add(&mut self, key: &str, value: &str) {
        if self.pairs > MAX_LABELS || self.known.get(key).is_some_and(|values| values.contains(value)) {
            return;
        }
        self.pairs += 1;
        self.known.entry(key.to_owned()).or_default().insert(value.to_owned());
    }

    /// An operator's label wins over the one that the child reports.
    fn of(&mut self, child: &Child) {
        let given = child.labels.as_deref().into_iter().flatten();
        given.clone().for_each(|(key, value)| self.add(key, value));
        let capabilities = child.profile.as_deref().map(|profile| &profile.capabilities);
        let is_given = |key: &str| child.labels.as_deref().is_some_and(|labels| labels.contains_key(key));
        let own = capabilities.into_iter().flat_map(|capabilities| &capabilities.labels);
        own.filter(|(key, _)| !is_given(key)).for_each(|(key, value)| self.add(key, value));
        if child.kind().is_manager() {
            match capabilities.and_then(|capabilities| capabilities.labels_below.as_deref()) {
                Some(below) => self.merge(below),
                None => self.some_unknown = true,
            }
        }
    }

    fn merge(&mut self, labels: &Labels) {
        for (key, values) in labels {
            for value in values {
                self.add(key, value);
            }
        }
    }
}

impl Survey {
    /// Looks at all children.
    pub fn of(children: &Children) -> Self {
        let mut look = Self::default();
        for (_, child) in children.iter().filter(|(_, child)| child.replaced.is_none()) {
            look.areas.extend(child.area.clone());
            look.agents = look.agents.saturating_add(child.counted_agents());
            match child.profile.as_ref().and_then(|profile| profile.capabilities.runtimes.as_ref()) {
                Some(runtimes) => look.runtimes.extend(runtimes.iter().cloned()),
                None => look.some_say_nothing = true,
            }
            look.labels.of(child);
            look.node_of(child);
        }
        look
    }

    /// A machine on which something new may be placed.
    fn node_of(&mut self, child: &Child) {
        let profile = child.profile.as_ref().filter(|_| child.cordon == Cordon::Open);
        let Some(has) = profile.and_then(|profile| profile.capabilities.node.as_deref()) else { return };
        let all = self.node.get_or_insert_default();
        let [cpus, cores, mhz] = [has.cpus, has.cores, has.mhz].map(|number| u64::from(number.max(1)));
        self.weight = self.weight.saturating_add(cpus.saturating_mul(cores).saturating_mul(mhz));
        all.memory_mib = match (all.memory_mib, has.memory_mib) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        all.tee |= has.tee;
        all.tpm |= has.tpm;
        let more = has.resources.iter().filter(|class| !all.resources.contains(class));
        let more: Vec<String> =
            more.take(MAX_RESOURCES.saturating_sub(all.resources.len())).cloned().collect();
        all.resources.extend(more);
    }

    /// Puts together what was seen. With many children this takes a while.
    /// `service_area`: the manager's own, which stands in while no child has one.
    pub fn finish(self, service_area: Option<&str>) -> Below {
        let own = service_area.filter(|_| self.areas.is_empty()).map(Arc::from);
        let areas = own.map_or(self.areas, |own| vec![own]);
        let says_all = !self.some_say_nothing && self.runtimes.len() <= MAX_RUNTIMES;
        Below {
            area: area::reported(&areas),
            agents: self.agents,
            runtimes: says_all.then_some(self.runtimes),
            node: self.node.map(|node| {
                let (cpus, cores, mhz) = (1, 1, u32::try_from(self.weight).unwrap_or(u32::MAX));
                NodeCapabilities { cpus, cores, mhz, ..node }
            }),
            labels: (!self.labels.some_unknown && self.labels.pairs <= MAX_LABELS)
                .then_some(self.labels.known),
        }
    }
}

impl Below {
    /// GeoJSON that contains the areas of all children; only a parent that is more than the plain system understands
    /// several polygons.
    pub fn area(&self, is_understood: bool) -> Option<&str> {
        let area = if is_understood { &self.area.close } else { &self.area.polygon };
        area.as_deref()
    }

    pub fn agents(&self) -> u32 {
        self.agents
    }

    /// What can run below. `features`: those that both sides know; a parent that names none is told nothing that is not
    /// of its time.
    /// `public_url`: where people reach this manager's own page.
    pub fn capabilities(&self, features: Vec<String>, public_url: Option<&str>) -> Option<Capabilities> {
        let runtimes = self.runtimes.as_ref().map(|runtimes| runtimes.iter().cloned().collect());
        if runtimes.is_none() && features.is_empty() {
            return None;
        }
        let knows_no_features = features.is_empty();
        let public_url = public_url.filter(|_| !features.is_empty()).map(Box::from);
        let labels_below = self.labels.clone().filter(|_| !features.is_empty()).map(Box::new);
        // A manager has no labels of its own: what is known of those below it is said apart.
        let leads = Leads::default();
        Some(Capabilities {
            runtimes,
            labels: BTreeMap::new(),
            labels_below,
            features,
            leads,
            routers: Vec::new(),
            public_url,
            node: self.node.clone().filter(|_| !knows_no_features).map(Box::new),
        })
    }
}
