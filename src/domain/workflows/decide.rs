//! What follows from a command.

use std::{collections::BTreeMap, sync::Arc};

use model::Now;

use super::{
    Above, Change, Command, LeftWhy, MAX_PARTS, MAX_WORKFLOWS, NewWorkflow, Part, PartKey, Phase, Told,
    Workflow, WorkflowKey,
    look::look,
    placing::{Due, How, Placing},
};
use crate::release::{
    command::{Decision, LastSeen, Refusal, Reply},
    state::State,
};

/// Decides one command.
pub fn decide(state: &State, seen: &dyn LastSeen, command: &Command, now: Now) -> Decision {
    let decided = match command {
        Command::Start { new, chance } => start(state, new, Placing::new(state, seen, now, *chance)),
        Command::Stop { id } => stop(state, id),
        Command::SetStrategy { id, strategy } => set_strategy(state, id, *strategy),
        Command::SetAbove { id, above } => set_above(state, id, above),
        Command::Move { id, part, nodes } => {
            move_part(state, id, part, nodes, &Placing::new(state, seen, now, 0))
        }
        Command::Report { child, told } => report(state, child, told, now),
        Command::Look { chance } => Ok(look(state, seen, *chance, now)),
    };
    let decided =
        decided.map(|changes| Decision::new(changes.into_iter().map(Into::into).collect(), Reply::Stored));
    decided.into()
}

fn start(state: &State, new: &NewWorkflow, mut placing: Placing<'_>) -> Result<Vec<Change>, Refusal> {
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
        secret: new.secret,
        first: PartKey(first),
        since: placing.now,
        by: new.by.clone(),
        is_stopping: false,
        strategy: new.strategy,
        above: new.above.clone(),
    };
    if all.parts_count() + workflow.len() > MAX_PARTS {
        return Err(Refusal::Limit { what: "functions and resources of workflows", limit: MAX_PARTS });
    }
    let parts: Vec<Arc<Part>> =
        new.logical.iter().cloned().map(|logical| Arc::new(Part::new(workflow.key, logical))).collect();
    let due = parts.iter().zip(first..).map(|(part, at)| Due { key: PartKey(at), part, how: How::First });
    let placed = placing.place(&[(&workflow, due.collect())]);
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
    let why = LeftWhy::Stopped;
    for (part, ..) in workflow.parts() {
        let Some(of) = state.workflows.part(part) else { continue };
        is_held |= of.instances().next().is_some();
        changes.extend(of.instance.clone().map(|instance| Change::Left { part, instance, why }));
        changes.extend(of.next.clone().map(|instance| Change::Dropped { part, instance, why }));
    }
    changes.extend((!is_held).then_some(Change::Removed { workflow: workflow.key }));
    Ok(changes)
}

fn set_strategy(
    state: &State,
    id: &str,
    strategy: Option<placement::Strategy>,
) -> Result<Vec<Change>, Refusal> {
    let workflow = state.workflows.get(id).ok_or_else(|| Refusal::UnknownWorkflow(id.to_owned()))?;
    let is_other = workflow.strategy != strategy;
    Ok(is_other.then_some(Change::StrategySet { workflow: workflow.key, strategy }).into_iter().collect())
}

fn set_above(state: &State, id: &str, above: &Arc<Above>) -> Result<Vec<Change>, Refusal> {
    let unknown = || Refusal::UnknownWorkflow(id.to_owned());
    let workflow = state.workflows.get(id).filter(|workflow| workflow.above.is_some()).ok_or_else(unknown)?;
    let is_other = workflow.above.as_ref() != Some(above);
    let set = is_other.then(|| Change::AboveSet { workflow: workflow.key, above: Arc::clone(above) });
    Ok(set.into_iter().collect())
}

fn move_part(
    state: &State,
    id: &str,
    name: &str,
    nodes: &[String],
    placing: &Placing<'_>,
) -> Result<Vec<Change>, Refusal> {
    let workflow = state.workflows.get(id).ok_or_else(|| Refusal::UnknownWorkflow(id.to_owned()))?;
    let unknown = || Refusal::UnknownPart { workflow: id.to_owned(), part: name.to_owned() };
    let (key, _, requirements) = workflow.parts().find(|(_, of, _)| *of == name).ok_or_else(unknown)?;
    let part = state.workflows.part(key).ok_or_else(unknown)?;
    let refused = |why: String| Err(Refusal::CanNotMove { part: name.to_owned(), why });
    if workflow.is_stopping {
        return refused("its workflow stops".to_owned());
    }
    if let Some(next) = &part.next {
        let is_on_its_way = nodes.iter().any(|node| state.children.key(node) == Some(next.node));
        return if is_on_its_way { Ok(Vec::new()) } else { refused("it is being moved".to_owned()) };
    }
    let mut reasons = Vec::new();
    for node in nodes {
        let key_of = state.children.key(node).filter(|key| placing.sees(workflow, *key));
        let Some(to) = key_of else {
            reasons.push(format!("{node} is not known"));
            continue;
        };
        if part.instance.as_ref().is_some_and(|instance| instance.node == to) {
            return Ok(Vec::new());
        }
        match placing.why_not(requirements, to) {
            Some(why) => reasons.push(format!("{node}: {why}")),
            None => return Ok(vec![placing.change(workflow, key, part, to, How::Beside)]),
        }
    }
    refused(if reasons.is_empty() { "no node is named".to_owned() } else { reasons.join("; ") })
}

fn report(state: &State, child: &str, told: &[Told], now: Now) -> Result<Vec<Change>, Refusal> {
    let unknown = || Refusal::UnknownChild(child.to_owned());
    let node = state.children.key(child).ok_or_else(unknown)?;
    let told: BTreeMap<&str, &Told> = told.iter().map(|one| (&*one.id, one)).collect();
    let mut changes = Vec::new();
    let mut gone = Ended::default();
    for (key, part) in state.workflows.on_node(node) {
        let mut after = Part::clone(part);
        for one in after.instance.iter_mut().chain(&mut after.next).filter(|one| one.node == node) {
            // One that the node says nothing of hasn't been begun there, or is to be begun once more.
            let (phase, url) =
                told.get(&*one.id).map_or((&Phase::Placed, &None), |one| (&one.phase, &one.url));
            if *url != one.url {
                changes.push(Change::Reached { part: key, instance: one.id.clone(), url: url.clone() });
            }
            if *phase != one.phase {
                one.phase = phase.clone();
                let (instance, phase, at_ms) = (one.id.clone(), phase.clone(), now.served_ms);
                changes.push(Change::Seen { part: key, instance, phase, at_ms });
            }
        }
        let has_ended = |one: &super::Instance| one.node == node && !told.contains_key(&*one.id);
        for one in part.leaving.iter().filter(|one| has_ended(one)) {
            changes.push(Change::Gone { part: key, instance: one.id.clone() });
            gone.note(part);
        }
        after.leaving.retain(|one| !has_ended(one));
        changes.extend(goes_on(state, key, &after));
    }
    changes.extend(gone.removed(state));
    Ok(changes)
}

/// How a move goes on.
fn goes_on(state: &State, key: PartKey, part: &Part) -> Option<Change> {
    let next = part.next.as_ref()?;
    let is_source = || state.workflows.by_key(part.workflow).is_some_and(|of| of.is_source(key));
    match (&part.instance, &next.phase) {
        (Some(_), Phase::Running) => Some(Change::TookOver { part: key }),
        (Some(instance), Phase::Ready) if is_source() => {
            Some(Change::Left { part: key, instance: instance.clone(), why: LeftWhy::Moved })
        }
        (_, Phase::Failed(_)) => {
            Some(Change::Dropped { part: key, instance: next.clone(), why: LeftWhy::Failed })
        }
        (None, _) if part.leaving.is_empty() => Some(Change::TookOver { part: key }),
        _ => None,
    }
}

/// How many instances that were to end have, by workflow.
#[derive(Default)]
pub(super) struct Ended(BTreeMap<WorkflowKey, usize>);

impl Ended {
    pub(super) fn note(&mut self, part: &Part) {
        *self.0.entry(part.workflow).or_default() += 1;
    }

    /// Workflows of which these were the last.
    pub(super) fn removed<'s>(&'s self, state: &'s State) -> impl Iterator<Item = Change> + 's {
        self.0.iter().filter_map(|(key, ended)| {
            let workflow = state.workflows.by_key(*key).filter(|workflow| workflow.is_stopping)?;
            let parts = workflow.parts().filter_map(|(key, ..)| state.workflows.part(key));
            let held: usize = parts.map(|part| part.instances().count()).sum();
            (held == *ended).then_some(Change::Removed { workflow: *key })
        })
    }
}
