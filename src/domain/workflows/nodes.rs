//! The machines of agents, as nodes on which functions of workflows are placed.

use std::collections::{BTreeMap, BTreeSet};

use model::{ChildKey, Cordon, Now, area};
use placement::{Lies, Node, NodeState, Position};

use super::Instance;
use crate::{
    children::Child,
    plan::{Middle, Place},
    release::{command::LastSeen, state::Snapshot},
};

/// Nodes, in order of birth.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The child whose machine each is.
    pub keys: Vec<ChildKey>,
    pub all: Vec<Node>,
}

/// How nodes lie to areas.
#[derive(Debug)]
pub struct NodeAreas<'s> {
    pub state: &'s Snapshot,
    pub keys: &'s [ChildKey],
}

impl Nodes {
    /// Of those children that `sees` takes. Deployed agents and routers are none, and managers without nodes.
    pub fn of(state: &Snapshot, seen: &dyn LastSeen, now: Now, sees: impl Fn(&Child) -> bool) -> Self {
        Self::among(state, seen, now, state.children.iter().filter(|(_, child)| sees(child)))
    }

    fn among<'c>(
        state: &Snapshot,
        seen: &dyn LastSeen,
        now: Now,
        children: impl Iterator<Item = (ChildKey, &'c Child)>,
    ) -> Self {
        let mut nodes = Self::default();
        for (key, child) in children.filter(|(_, child)| child.replaced.is_none()) {
            if let Some(mut node) = machine(child) {
                if silent_ms(seen, key, now) >= state.settings.placement.keep_alive.as_millis() as u64 {
                    node.state = NodeState::Silent;
                }
                let position = |middle: Middle| Position { east: middle.east, north: middle.north };
                node.at = state.children.areas().middle(key).map(position);
                nodes.keys.push(key);
                nodes.all.push(node);
            }
        }
        nodes
    }
}

/// A node.
#[must_use]
pub fn node_of(state: &Snapshot, seen: &dyn LastSeen, now: Now, key: ChildKey) -> Option<Node> {
    only(state, seen, now, key).all.pop()
}

/// The machine of one child, if it is a node.
pub(super) fn only(state: &Snapshot, seen: &dyn LastSeen, now: Now, key: ChildKey) -> Nodes {
    Nodes::among(state, seen, now, state.children.get(key).map(|child| (key, child)).into_iter())
}

/// For how long a node has said nothing.
#[must_use]
pub fn silent_ms(seen: &dyn LastSeen, node: ChildKey, now: Now) -> u64 {
    now.served_ms.saturating_sub(seen.last_report(node).unwrap_or(0))
}

/// Where events to an instance are taken; empty: only its own node can put something out to it.
#[must_use]
pub fn events_url(state: &Snapshot, instance: &Instance) -> Option<String> {
    if let Some(url) = &instance.url {
        return Some(url.to_string());
    }
    let profile = state.children.get(instance.node)?.profile.as_ref()?;
    Some(profile.capabilities.node.as_ref()?.events.clone())
}

/// None: nothing may be placed there.
fn machine(child: &Child) -> Option<Node> {
    let profile = child.profile.as_ref()?;
    let capabilities = &profile.capabilities;
    let has = capabilities.node.as_deref()?;
    let mut labels: BTreeMap<&String, &String> = capabilities.labels.iter().collect();
    labels.extend(child.labels.iter().flat_map(|given| given.iter()));
    let label = |(key, value): (&String, &String)| {
        if value.is_empty() { key.clone() } else { format!("{key}={value}") }
    };
    let below = capabilities.labels_below.iter().flat_map(|below| below.iter());
    let below = below.flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    Some(Node {
        has_nodes_below: profile.kind.is_manager(),
        may_have_any_runtime: profile.kind.is_manager() && capabilities.runtimes.is_none(),
        may_have_any_label: profile.kind.is_manager() && capabilities.labels_below.is_none(),
        id: child.id.as_str().to_ascii_lowercase().into(),
        state: if child.cordon == Cordon::Open { NodeState::Ready } else { NodeState::Cordoned },
        labels: labels.into_iter().chain(below).map(label).collect(),
        runtimes: capabilities.runtimes.iter().flatten().cloned().collect(),
        resources: has.resources.iter().cloned().collect::<BTreeSet<_>>(),
        is_tee: has.tee,
        has_tpm: has.tpm,
        cpus: has.cpus,
        cores: has.cores,
        mhz: has.mhz,
        memory_mib: has.memory_mib,
        at: None,
    })
}

impl placement::Areas for NodeAreas<'_> {
    fn lie(&self, area: &str) -> Vec<Lies> {
        let mut all = vec![Lies::Unknown; self.keys.len()];
        let Ok(polygons) = area::parse(area) else { return all };
        let areas = self.state.children.areas();
        let text = |child| self.state.children.get(child)?.area.as_deref();
        areas.place(&areas.cover(&polygons), text, |child, _, place| {
            if let Some(lies) = self.keys.binary_search(&child).ok().and_then(|at| all.get_mut(at)) {
                *lies = match place {
                    Place::Inside | Place::Partly => Lies::Inside,
                    Place::Outside => Lies::Outside,
                    Place::Unknown => Lies::Unknown,
                };
            }
        });
        all
    }
}
