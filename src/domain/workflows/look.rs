//! What time brings: nodes fall silent, come back or are drained, and what could not run is tried again.

use std::collections::{BTreeMap, BTreeSet};

use model::{ChildKey, Cordon, Now};
use placement::NodeState;

use super::{
    Change, Instance, LeftWhy, Nodes, Part, PartKey, Phase, Workflow, WorkflowKey,
    decide::Ended,
    nodes::silent_ms,
    placing::{Due, How, Placing},
};
use crate::children::Profile;
use crate::release::{
    command::LastSeen,
    state::{Snapshot, State},
};

/// In so many times the keep-alive a node says something of what was placed there, or it is taken for one that can't run it.
const UNHEARD: u64 = 15;

/// In so long, in ms, an instance that starts runs.
const STARTING_MS: u64 = 600_000;

/// Longest time between two tries of what failed, in ms.
const MAX_BETWEEN_MS: u64 = 300_000;

/// What a look is worth for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attention {
    /// Nodes with something of a workflow that are gone, silent or drained.
    pub nodes: BTreeSet<ChildKey>,
    /// Something doesn't run, or is about to move or to end.
    pub is_unsettled: bool,
}

/// What there is to look at. Takes a step for each node that has something of a workflow.
#[must_use]
pub fn attention(state: &Snapshot, seen: &dyn LastSeen, now: Now) -> Attention {
    let is_out = |node: &ChildKey| Health::of(state, seen, now, *node) != Health::Well;
    Attention {
        nodes: state.workflows.nodes().filter(is_out).collect(),
        is_unsettled: state.workflows.unsettled() > 0,
    }
}

/// Whether a node is silent for too long, or nobody's any more.
#[must_use]
pub fn is_out(state: &Snapshot, seen: &dyn LastSeen, now: Now, node: ChildKey) -> bool {
    Health::of(state, seen, now, node).is_out()
}

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    /// Nobody's any more.
    Gone,
    /// For so long, in ms.
    Silent(u64),
    Drained,
    Well,
}

impl Health {
    fn of(state: &Snapshot, seen: &dyn LastSeen, now: Now, node: ChildKey) -> Self {
        let Some(child) = state.children.get(node).filter(|child| child.replaced.is_none()) else {
            return Self::Gone;
        };
        let is_none = |profile: &Profile| profile.capabilities.node.is_none() && !profile.kind.is_manager();
        if child.profile.as_deref().is_none_or(is_none) {
            // It runs nothing for workflows any more, and says so by saying nothing. A manager may have no node for a while.
            return Self::Silent(u64::MAX);
        }
        let silent = silent_ms(seen, node, now);
        match child.cordon {
            _ if silent >= state.settings.placement.keep_alive.as_millis() as u64 => Self::Silent(silent),
            Cordon::Drained => Self::Drained,
            Cordon::Open | Cordon::Cordoned => Self::Well,
        }
    }

    fn is_out(self) -> bool {
        matches!(self, Self::Gone | Self::Silent(_))
    }
}

pub(super) fn look(state: &State, seen: &dyn LastSeen, chance: u64, now: Now) -> Vec<Change> {
    let health = |node: ChildKey| Health::of(state, seen, now, node);
    let all = &state.workflows;
    let unwell = all.nodes().filter(|node| health(*node) != Health::Well);
    let mut parts: BTreeSet<PartKey> =
        unwell.flat_map(|node| all.on_node(node).map(|(key, _)| key)).collect();
    if all.unsettled() > 0 {
        let every = all.iter().flat_map(|workflow| workflow.parts().map(|(key, ..)| key));
        parts.extend(every.filter(|key| all.part(*key).is_some_and(|part| !part.is_settled())));
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let looking = Looking { state, health: &health, now, is_held: is_held(state, seen, now) };
    let (mut changes, mut ended) = (Vec::new(), Ended::default());
    let mut due: BTreeMap<WorkflowKey, (&Workflow, Vec<Due<'_>>)> = BTreeMap::new();
    for key in parts {
        let Some(part) = all.part(key) else { continue };
        let Some(workflow) = all.by_key(part.workflow) else { continue };
        let how = looking.look_at(workflow, key, part, &mut changes, &mut ended);
        if let Some(how) = how {
            let (_, of) = due.entry(workflow.key).or_insert((workflow, Vec::new()));
            of.push(Due { key, part, how });
        }
    }
    let due: Vec<(&Workflow, Vec<Due<'_>>)> = due.into_values().collect();
    changes.extend(Placing::new(state, seen, now, chance).place(&due));
    changes.extend(ended.removed(state));
    changes
}

/// Whether so many nodes fell silent that it is rather this manager that is cut off: then nothing is moved away from them.
#[must_use]
pub fn is_held(state: &Snapshot, seen: &dyn LastSeen, now: Now) -> bool {
    let settings = &state.settings.placement;
    let nodes = Nodes::of(state, seen, now, |_| true);
    let each = nodes.keys.iter().zip(&nodes.all);
    let (mut here, mut vanished) = (0_u64, 0_u64);
    for (key, node) in each {
        if node.state != NodeState::Silent {
            here += 1;
        } else if silent_ms(seen, *key, now) < (settings.keep_alive + settings.hold).as_millis() as u64 {
            vanished += 1;
        }
    }
    vanished * 100 > (here + vanished) * settings.max_vanished
}

struct Looking<'s> {
    state: &'s State,
    health: &'s dyn Fn(ChildKey) -> Health,
    now: Now,
    is_held: bool,
}

impl Looking<'_> {
    /// What is to be done about a part, and how it is to be placed.
    fn look_at(
        &self,
        workflow: &Workflow,
        key: PartKey,
        part: &Part,
        changes: &mut Vec<Change>,
        ended: &mut Ended,
    ) -> Option<How> {
        let mut gone = |instance: &Instance| {
            ended.note(part);
            Change::Gone { part: key, instance: instance.id.clone() }
        };
        let forgotten = self.state.settings.whole_silence.as_millis() as u64;
        let mut left_out = true;
        for one in &part.leaving {
            match (self.health)(one.node) {
                // It is told to end when it comes back, and where to hand over what it has put out.
                Health::Silent(ms) if ms < forgotten || !workflow.is_stopping => {}
                Health::Silent(_) | Health::Gone => changes.push(gone(one)),
                Health::Drained | Health::Well => left_out = false,
            }
        }
        if workflow.is_stopping {
            return None;
        }
        let next = part.next.as_ref().filter(|next| {
            let why = match (self.health)(next.node) {
                Health::Gone => LeftWhy::Forgotten,
                Health::Silent(_) if !self.is_held => LeftWhy::Silent,
                _ if self.is_late(part, next) => LeftWhy::Failed,
                _ => return true,
            };
            changes.push(Change::Dropped { part: key, instance: Instance::clone(next), why });
            if why == LeftWhy::Forgotten {
                changes.push(gone(next));
            }
            false
        });
        let Some(instance) = &part.instance else {
            return match next {
                Some(_) if left_out => {
                    changes.push(Change::TookOver { part: key });
                    None
                }
                Some(_) => None,
                None => Some(How::First),
            };
        };
        let health = (self.health)(instance.node);
        match (next, health) {
            (Some(_), Health::Gone) => changes.extend([Change::TookOver { part: key }, gone(instance)]),
            (Some(_), Health::Silent(_)) if !self.is_held => changes.push(Change::TookOver { part: key }),
            (None, Health::Gone) => {
                let why = LeftWhy::Forgotten;
                changes.extend([Change::Left { part: key, instance: instance.clone(), why }, gone(instance)]);
                return Some(How::First);
            }
            (None, Health::Silent(_)) => return (!self.is_held).then_some(How::Instead(LeftWhy::Silent)),
            (None, _) if self.is_late(part, instance) => {
                return self.is_due(part).then_some(How::Instead(LeftWhy::Failed));
            }
            (None, Health::Drained) if instance.phase == Phase::Running => {
                return self.is_due(part).then_some(How::Beside);
            }
            (None, Health::Drained) => return Some(How::Instead(LeftWhy::Drained)),
            (Some(_), _) | (None, Health::Well) => {}
        }
        None
    }

    /// Whether an instance should run by now, or can't.
    fn is_late(&self, part: &Part, instance: &Instance) -> bool {
        let since = self.now.served_ms.saturating_sub(part.tried_ms);
        match instance.phase {
            Phase::Placed => since >= UNHEARD * self.keep_alive_ms(),
            Phase::Starting => since >= STARTING_MS,
            Phase::Failed(_) => true,
            Phase::Ready | Phase::Running => false,
        }
    }

    /// Whether a part is to be tried elsewhere by now.
    fn is_due(&self, part: &Part) -> bool {
        let between = match part.failures {
            0 => 0,
            more => self.keep_alive_ms().saturating_mul(1 << more.min(16)).min(MAX_BETWEEN_MS),
        };
        self.now.served_ms.saturating_sub(part.tried_ms) >= between
    }

    fn keep_alive_ms(&self) -> u64 {
        self.state.settings.placement.keep_alive.as_millis() as u64
    }
}
