//! What follows from a command.

use std::{collections::BTreeMap, sync::Arc};

use model::{ChildKey, Now, tenant};
use placement::Placer;
use sha2::{Digest as _, Sha256};

use super::{
    Change, Command, Instance, MAX_PARTS, MAX_WORKFLOWS, NewWorkflow, NodeAreas, Nodes, Part, PartKey, Phase,
    Told, Workflow, WorkflowKey,
};
use crate::{
    children::Child,
    release::{
        command::{Decision, LastSeen, Refusal, Reply},
        state::State,
    },
};

/// Decides one command.
pub fn decide(state: &State, seen: &dyn LastSeen, command: &Command, now: Now) -> Decision {
    let decided = match command {
        Command::Start { new, chance } => start(state, seen, new, *chance, now),
        Command::Stop { id } => stop(state, id),
        Command::Report { child, told } => report(state, child, told),
        Command::Look { chance } => Ok(look(state, seen, *chance, now)),
    };
    let decided =
        decided.map(|changes| Decision::new(changes.into_iter().map(Into::into).collect(), Reply::Stored));
    decided.into()
}

fn start(
    state: &State,
    seen: &dyn LastSeen,
    new: &NewWorkflow,
    chance: u64,
    now: Now,
) -> Result<Vec<Change>, Refusal> {
    let all = &state.workflows;
    if all.get(&new.id).is_some() {
        return Err(Refusal::WorkflowTaken(new.id.clone()));
    }
    if all.len() >= MAX_WORKFLOWS {
        return Err(Refusal::Limit { what: "workflows", limit: MAX_WORKFLOWS });
    }
    let (key, first) = all.next();
    let workflow = Workflow {
        key: WorkflowKey(key),
        id: new.id.clone(),
        definition: Arc::clone(&new.definition),
        text: Arc::clone(&new.text),
        types: Arc::clone(&new.types),
        archive: new.archive,
        first: PartKey(first),
        since: now,
        by: new.by.clone(),
        is_stopping: false,
    };
    if all.parts_count() + workflow.len() > MAX_PARTS {
        return Err(Refusal::Limit { what: "functions and resources of workflows", limit: MAX_PARTS });
    }
    let part = |logical: Box<str>| {
        Arc::new(Part { workflow: workflow.key, logical, instance: None, leaving: Vec::new(), placed: 0 })
    };
    let parts: Vec<Arc<Part>> = new.logical.iter().cloned().map(part).collect();
    let placed =
        Placing { state, seen, chance, now }.place(&[(&workflow, parts.iter().map(AsRef::as_ref).collect())]);
    let started = Change::Started { workflow: Arc::new(workflow), parts };
    Ok(std::iter::once(started).chain(placed).collect())
}

fn stop(state: &State, id: &str) -> Result<Vec<Change>, Refusal> {
    let workflow = state.workflows.get(id).ok_or_else(|| Refusal::UnknownWorkflow(id.to_owned()))?;
    if workflow.is_stopping {
        return Ok(Vec::new());
    }
    let mut changes = vec![Change::Stopping { workflow: workflow.key }];
    let mut is_held = false;
    for (key, ..) in workflow.parts() {
        let Some(part) = state.workflows.part(key) else { continue };
        is_held |= part.instance.is_some() || !part.leaving.is_empty();
        changes.extend(part.instance.is_some().then_some(Change::Left { part: key }));
    }
    changes.extend((!is_held).then_some(Change::Removed { workflow: workflow.key }));
    Ok(changes)
}

fn report(state: &State, child: &str, told: &[Told]) -> Result<Vec<Change>, Refusal> {
    let unknown = || Refusal::UnknownChild(child.to_owned());
    let node = state.children.key(child).ok_or_else(unknown)?;
    let told: BTreeMap<&str, &Phase> = told.iter().map(|one| (&*one.id, &one.phase)).collect();
    let mut changes = Vec::new();
    let mut gone = Ended::default();
    for (key, part) in state.workflows.on_node(node) {
        let own = part.instance.iter().filter(|instance| instance.node == node);
        for instance in own {
            // One that the node says nothing of hasn't been begun there, or is to be begun once more.
            let phase = told.get(&*instance.id).copied().unwrap_or(&Phase::Placed);
            if *phase != instance.phase {
                changes.push(Change::Seen { part: key, phase: phase.clone() });
            }
        }
        let ended = part.leaving.iter().filter(|one| one.node == node && !told.contains_key(&*one.id));
        for instance in ended {
            changes.push(Change::Gone { part: key, instance: instance.id.clone() });
            gone.note(part);
        }
    }
    changes.extend(gone.removed(state));
    Ok(changes)
}

/// How many instances that were to end have, by workflow.
#[derive(Default)]
struct Ended(BTreeMap<WorkflowKey, usize>);

impl Ended {
    fn note(&mut self, part: &Part) {
        *self.0.entry(part.workflow).or_default() += 1;
    }

    /// Workflows of which these were the last.
    fn removed<'s>(&'s self, state: &'s State) -> impl Iterator<Item = Change> + 's {
        self.0.iter().filter_map(|(key, ended)| {
            let workflow = state.workflows.by_key(*key).filter(|workflow| workflow.is_stopping)?;
            let parts = workflow.parts().filter_map(|(key, ..)| state.workflows.part(key));
            let held: usize =
                parts.map(|part| part.leaving.len() + usize::from(part.instance.is_some())).sum();
            (held == *ended).then_some(Change::Removed { workflow: *key })
        })
    }
}

fn look(state: &State, seen: &dyn LastSeen, chance: u64, now: Now) -> Vec<Change> {
    let (mut changes, mut gone) = (Vec::new(), Ended::default());
    let is_gone = |node: &ChildKey| state.children.get(*node).is_none();
    let mut lost = false;
    for node in state.workflows.nodes().filter(is_gone) {
        for (key, part) in state.workflows.on_node(node) {
            if let Some(instance) = part.instance.iter().find(|instance| instance.node == node) {
                changes.push(Change::Left { part: key });
                changes.push(Change::Gone { part: key, instance: instance.id.clone() });
                lost = true;
            }
            for instance in part.leaving.iter().filter(|instance| instance.node == node) {
                changes.push(Change::Gone { part: key, instance: instance.id.clone() });
                gone.note(part);
            }
        }
    }
    changes.extend(gone.removed(state));
    // What was lost just now waits from now on, and is placed with the next look.
    if state.workflows.waiting() > 0 && !lost {
        let wanted = state.workflows.iter().filter(|workflow| !workflow.is_stopping).map(|workflow| {
            let parts = workflow.parts().filter_map(|(key, ..)| state.workflows.part(key));
            (workflow.as_ref(), parts.map(AsRef::as_ref).collect())
        });
        let wanted: Vec<(&Workflow, Vec<&Part>)> = wanted.collect();
        changes.extend(Placing { state, seen, chance, now }.place(&wanted));
    }
    changes
}

/// Parts are placed on the nodes that there are now.
struct Placing<'s> {
    state: &'s State,
    seen: &'s dyn LastSeen,
    chance: u64,
    now: Now,
}

impl Placing<'_> {
    /// Those of the parts that have no instance, as far as a node may run them. A tenant's workflow runs on the tenant's nodes.
    fn place(&self, wanted: &[(&Workflow, Vec<&Part>)]) -> Vec<Change> {
        let mut by_tenant: BTreeMap<Option<&str>, Vec<&(&Workflow, Vec<&Part>)>> = BTreeMap::new();
        for one in wanted {
            let tenant = tenant::split(&one.0.id).map(|(tenant, _)| tenant);
            by_tenant.entry(tenant).or_default().push(one);
        }
        let mut draws = Draws { chance: self.chance, count: 0 };
        by_tenant
            .into_iter()
            .flat_map(|(tenant, wanted)| self.of_tenant(tenant, &wanted, &mut draws))
            .collect()
    }

    fn of_tenant(
        &self,
        tenant: Option<&str>,
        wanted: &[&(&Workflow, Vec<&Part>)],
        draws: &mut Draws,
    ) -> Vec<Change> {
        let all = &self.state.workflows;
        let sees = |child: &Child| tenant.is_none() || child.tenant() == tenant;
        let nodes = Nodes::of(self.state, self.seen, self.now, sees);
        let areas = NodeAreas { state: self.state, keys: &nodes.keys };
        let last = all.last().and_then(|last| nodes.keys.partition_point(|key| *key <= last).checked_sub(1));
        let mut placer = Placer::new(&nodes.all, &areas, self.state.settings.placement, last);
        for (at, key) in nodes.keys.iter().enumerate() {
            for (part, of) in all.on_node(*key) {
                let requirements = all.by_key(of.workflow).and_then(|workflow| workflow.requirements(part));
                if let Some(requirements) = requirements {
                    placer.note(at, requirements);
                }
            }
        }
        let mut changes = Vec::new();
        for (workflow, parts) in wanted {
            let neighbours = workflow.definition.neighbours();
            let mut at: BTreeMap<&str, usize> = BTreeMap::new();
            for ((_, name, _), part) in workflow.parts().zip(parts) {
                let node =
                    part.instance.as_ref().and_then(|instance| nodes.keys.binary_search(&instance.node).ok());
                at.extend(node.map(|node| (name, node)));
            }
            let resources = workflow.definition.resources.len();
            for (place, ((key, name, requirements), part)) in workflow.parts().zip(parts).enumerate() {
                if part.instance.is_some() {
                    continue;
                }
                let placed = if place < resources {
                    placer.place_resource(requirements, draws.next())
                } else {
                    let near = neighbours.get(name).into_iter().flatten();
                    let near: Vec<usize> = near.filter_map(|name| at.get(name).copied()).collect();
                    placer.place(requirements, &near, draws.next())
                };
                let Some((node, child)) = placed.node().and_then(|node| Some((node, *nodes.keys.get(node)?)))
                else {
                    continue;
                };
                at.insert(name, node);
                let id = instance_id(&part.logical, part.placed);
                changes.push(Change::Placed {
                    part: key,
                    instance: Instance { id, node: child, phase: Phase::Placed },
                });
            }
        }
        changes
    }
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

/// A UUID that no other instance has: the nth of a part.
fn instance_id(logical: &str, nth: u32) -> Box<str> {
    let hash = Sha256::new().chain_update("instance").chain_update(logical).chain_update(nth.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string().into()
}
