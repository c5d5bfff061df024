//! Parts are placed on the nodes that there are now.

use std::collections::BTreeMap;

use model::{ChildKey, Now, tenant};
use placement::{Placer, Requirements};
use sha2::{Digest as _, Sha256};

use super::{
    Change, Instance, LeftWhy, NodeAreas, Nodes, Part, PartKey, Phase, Workflow, look::is_out, nodes::only,
};
use crate::{
    children::Child,
    release::{command::LastSeen, state::State},
};

pub(super) struct Placing<'s> {
    pub state: &'s State,
    pub seen: &'s dyn LastSeen,
    pub now: Now,
    draws: Draws,
}

/// A part that is to be placed.
pub(super) struct Due<'s> {
    pub key: PartKey,
    pub part: &'s Part,
    pub how: How,
}

#[derive(Clone, Copy)]
pub(super) enum How {
    /// It has no instance.
    First,
    /// Its instance leaves at once, if there is another node.
    Instead(LeftWhy),
    /// Its instance leaves once the next one can take over.
    Beside,
}

impl<'s> Placing<'s> {
    /// `chance`: where draws begin.
    pub fn new(state: &'s State, seen: &'s dyn LastSeen, now: Now, chance: u64) -> Self {
        Self { state, seen, now, draws: Draws { chance, count: 0 } }
    }

    /// Whether a workflow may run on the machine of a child: a tenant's runs on the tenant's nodes.
    pub fn sees(&self, workflow: &Workflow, child: ChildKey) -> bool {
        self.state.children.get(child).is_some_and(|child| belongs(tenant_of(workflow), child))
    }

    /// Why a node can't run what requires this.
    pub fn why_not(&self, asked: &Requirements, node: ChildKey) -> Option<String> {
        let nodes = only(self.state, self.seen, self.now, node);
        let areas = NodeAreas { state: self.state, keys: &nodes.keys };
        if nodes.keys.is_empty() {
            return Some("it is no node".to_owned());
        }
        let placer = self.placer(&nodes, &areas);
        placer.why_not(asked).into_iter().next().map(|(_, why)| why.to_string())
    }

    /// The change by which a part comes to a node.
    pub fn change(&self, workflow: &Workflow, key: PartKey, part: &Part, node: ChildKey, how: How) -> Change {
        let id = instance_id(workflow, part);
        let (instance, at_ms) = (Instance { id, node, phase: Phase::Placed, url: None }, self.now.served_ms);
        match how {
            How::Beside if part.instance.is_some() => Change::Moving { part: key, instance, at_ms },
            // Of one that begins by itself the next one waits until the one before has ended.
            _ if workflow.is_source(key) && self.may_still_run(part, how) => {
                Change::Moving { part: key, instance, at_ms }
            }
            How::Beside | How::First | How::Instead(_) => Change::Placed { part: key, instance, at_ms },
        }
    }

    /// Whether an instance that is to end is on a node that is there.
    fn may_still_run(&self, part: &Part, how: How) -> bool {
        let is_there = |one: &Instance| !is_out(self.state, self.seen, self.now, one.node);
        let leaves = part.instance.iter().filter(|_| matches!(how, How::Instead(_)));
        part.leaving.iter().chain(leaves).any(is_there)
    }

    /// Those of the parts for which there is a node.
    pub fn place(&mut self, wanted: &[(&Workflow, Vec<Due<'_>>)]) -> Vec<Change> {
        let mut by_tenant: BTreeMap<Option<&str>, Vec<&(&Workflow, Vec<Due<'_>>)>> = BTreeMap::new();
        for one in wanted {
            by_tenant.entry(tenant_of(one.0)).or_default().push(one);
        }
        by_tenant.into_iter().flat_map(|(tenant, wanted)| self.place_of_tenant(tenant, &wanted)).collect()
    }

    fn place_of_tenant(
        &mut self,
        tenant: Option<&str>,
        wanted: &[&(&Workflow, Vec<Due<'_>>)],
    ) -> Vec<Change> {
        let nodes = Nodes::of(self.state, self.seen, self.now, |child| belongs(tenant, child));
        let areas = NodeAreas { state: self.state, keys: &nodes.keys };
        let mut placer = self.placer(&nodes, &areas);
        let mut changes = Vec::new();
        for (workflow, due) in wanted {
            placer.choose_by(workflow.strategy.unwrap_or(self.state.settings.placement.strategy));
            let neighbours = workflow.definition.neighbours();
            let place_of = |key: PartKey| {
                let instance = self.state.workflows.part(key)?.instance.as_ref()?;
                nodes.keys.binary_search(&instance.node).ok()
            };
            let parts: BTreeMap<PartKey, (&str, &Requirements)> =
                workflow.parts().map(|(key, name, requirements)| (key, (name, requirements))).collect();
            let mut at: BTreeMap<&str, usize> =
                parts.iter().filter_map(|(key, (name, _))| Some((*name, place_of(*key)?))).collect();
            for Due { key, part, how } in due {
                let Some((name, requirements)) = parts.get(key) else { continue };
                let than = part.instance.as_ref().and_then(|one| nodes.keys.binary_search(&one.node).ok());
                let draw = self.draws.next();
                let placed = if let (How::Instead(LeftWhy::Failed), Some(than)) = (how, than) {
                    // One after the other, or two that can't run it would take turns.
                    placer.place_after(requirements, than)
                } else if workflow.function(*key).is_none() {
                    placer.place_resource_elsewhere(requirements, draw, than)
                } else {
                    let near = neighbours.get(name).into_iter().flatten();
                    let near: Vec<usize> = near.filter_map(|name| at.get(name).copied()).collect();
                    placer.place_elsewhere(requirements, &near, draw, than)
                };
                let Some((node, child)) = placed.node().and_then(|node| Some((node, *nodes.keys.get(node)?)))
                else {
                    continue;
                };
                at.insert(name, node);
                if let (How::Instead(why), Some(instance)) = (how, &part.instance) {
                    changes.push(Change::Left { part: *key, instance: instance.clone(), why: *why });
                }
                changes.push(self.change(workflow, *key, part, child, *how));
            }
        }
        changes
    }

    /// One that knows what is on the nodes already.
    fn placer<'n>(&self, nodes: &'n Nodes, areas: &'n NodeAreas<'n>) -> Placer<'n> {
        let all = &self.state.workflows;
        let last = all.last().and_then(|last| nodes.keys.partition_point(|key| *key <= last).checked_sub(1));
        let mut placer = Placer::new(&nodes.all, areas, self.state.settings.placement.strategy, last);
        for (at, key) in nodes.keys.iter().enumerate() {
            for (part, of) in all.on_node(*key) {
                let requirements = all.by_key(of.workflow).and_then(|workflow| workflow.requirements(part));
                if let Some(requirements) = requirements {
                    placer.note(at, requirements);
                }
            }
        }
        placer
    }
}

fn tenant_of(workflow: &Workflow) -> Option<&str> {
    tenant::split(&workflow.id).map(|(tenant, _)| tenant)
}

fn belongs(tenant: Option<&str>, child: &Child) -> bool {
    tenant.is_none() || child.tenant() == tenant
}

/// Numbers evenly from 0 to below 1 that follow from one.
struct Draws {
    chance: u64,
    count: u64,
}

impl Draws {
    fn next(&mut self) -> f64 {
        self.count += 1;
        let hash =
            Sha256::new().chain_update(self.chance.to_be_bytes()).chain_update(self.count.to_be_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        // As many bits as a number from 0 to 1 has.
        (u64::from_be_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A UUID that no other instance has, at whichever manager: the nth of a part.
fn instance_id(workflow: &Workflow, part: &Part) -> Box<str> {
    let hash = Sha256::new().chain_update("instance").chain_update(workflow.secret.0);
    let hash = hash.chain_update(&*part.logical).chain_update(part.placed.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string().into()
}
