//! Folding a change in. Infallible: whether it is right was decided before it was made.

use std::sync::Arc;

use super::{Change, LeftWhy, Part, PartKey, Phase, Workflow, WorkflowKey, Workflows};
use model::ChildKey;

/// Folds one change in.
pub fn apply(workflows: &mut Workflows, change: &Change) {
    match change {
        Change::Started { workflow, parts } => workflows.hold(Arc::clone(workflow), parts.iter().cloned()),
        Change::Placed { part, instance, at_ms } => {
            workflows.last = Some(instance.node);
            workflows.change(*part, |part| {
                part.instance = Some(instance.clone());
                part.note_placed(*at_ms);
            });
        }
        Change::Moving { part, instance, at_ms } => {
            workflows.last = Some(instance.node);
            workflows.change(*part, |part| {
                part.next = Some(instance.clone());
                part.note_placed(*at_ms);
            });
        }
        Change::TookOver { part } => workflows.change(*part, |part| {
            part.leaving.extend(part.instance.take());
            part.instance = part.next.take();
        }),
        Change::Dropped { part, why, .. } => workflows.change(*part, |part| {
            part.note_left(*why);
            part.leaving.extend(part.next.take());
        }),
        Change::Left { part, why, .. } => workflows.change(*part, |part| {
            part.note_left(*why);
            part.leaving.extend(part.instance.take());
        }),
        Change::Seen { part, instance, phase, at_ms } => workflows.change(*part, |part| {
            let of = part.instance.iter_mut().chain(&mut part.next).find(|one| one.id == *instance);
            if let Some(of) = of {
                // What has run and is to be begun once more has as long for that as a new one.
                let is_begun_again =
                    of.phase == Phase::Running && matches!(phase, Phase::Placed | Phase::Starting);
                of.phase = phase.clone();
                if is_begun_again {
                    part.tried_ms = *at_ms;
                }
            }
            if *phase == Phase::Running {
                part.failures = 0;
            }
        }),
        Change::Reached { part, instance, url } => workflows.change(*part, |part| {
            let of = part.instance.iter_mut().chain(&mut part.next).find(|one| one.id == *instance);
            if let Some(of) = of {
                of.url.clone_from(url);
            }
        }),
        Change::Gone { part, instance } => {
            workflows.change(*part, |part| part.leaving.retain(|leaving| leaving.id != *instance));
        }
        Change::StrategySet { workflow, strategy } => {
            let Some(id) = workflows.ids.get(workflow) else { return };
            if let Some(workflow) = workflows.by_id.get_mut(id) {
                Arc::make_mut(workflow).strategy = *strategy;
            }
        }
        Change::AboveSet { workflow, above } => {
            let Some(id) = workflows.ids.get(workflow) else { return };
            if let Some(workflow) = workflows.by_id.get_mut(id) {
                Arc::make_mut(workflow).above = Some(Arc::clone(above));
            }
        }
        Change::Stopping { workflow } => {
            let Some(id) = workflows.ids.get(workflow).cloned() else { return };
            if let Some(workflow) = workflows.by_id.get_mut(&id) {
                let before = Arc::clone(workflow);
                Arc::make_mut(workflow).is_stopping = true;
                workflows.waiting -= workflows.count(&before, |part| !part.is_placed());
            }
        }
        Change::Removed { workflow } => workflows.forget(*workflow),
    }
}

impl Part {
    fn note_placed(&mut self, at_ms: u64) {
        self.placed += 1;
        self.tried_ms = at_ms;
    }

    fn note_left(&mut self, why: LeftWhy) {
        self.failures = self.failures.saturating_add(u32::from(why == LeftWhy::Failed));
    }
}

impl Workflows {
    /// Takes one in, with its parts in the order of their numbers, as it was stored.
    pub fn hold(&mut self, workflow: Arc<Workflow>, parts: impl IntoIterator<Item = Arc<Part>>) {
        self.next = self.next.max(workflow.key.0 + 1);
        for (at, part) in (workflow.first.0..).zip(parts) {
            self.next_part = self.next_part.max(at + 1);
            self.parts_count += 1;
            self.waiting += usize::from(!part.is_placed() && !workflow.is_stopping);
            self.unsettled += usize::from(!part.is_settled());
            let newest = part.next.as_ref().or(part.instance.as_ref());
            if let Some(newest) = newest.filter(|_| self.last_at <= part.tried_ms) {
                (self.last, self.last_at) = (Some(newest.node), part.tried_ms);
            }
            for node in part.nodes() {
                self.note(node, PartKey(at));
            }
            self.parts.put(at as usize, Some(part));
        }
        self.ids.insert(workflow.key, workflow.id.clone());
        self.by_id.insert(workflow.id.clone(), workflow);
    }

    /// The numbers that are given next, of a workflow and of a part.
    pub(super) fn next(&self) -> (u32, u32) {
        (self.next, self.next_part)
    }

    pub(super) fn parts_count(&self) -> usize {
        self.parts_count
    }

    pub(super) fn last(&self) -> Option<ChildKey> {
        self.last
    }

    fn count(&self, workflow: &Workflow, which: impl Fn(&Part) -> bool) -> usize {
        let parts = (workflow.first.0..).take(workflow.len()).filter_map(|at| self.part(PartKey(at)));
        parts.filter(|part| which(part)).count()
    }

    fn change(&mut self, key: PartKey, change: impl FnOnce(&mut Part)) {
        let Some(Some(part)) = self.parts.get_mut(key.0 as usize) else { return };
        let part = Arc::make_mut(part);
        let all = |part: &Part| (part.is_placed(), part.is_settled(), part.nodes());
        let (was_placed, was_settled, before) = all(part);
        change(part);
        let (is_placed, is_settled, after) = all(part);
        let workflow = part.workflow;
        self.unsettled += usize::from(was_settled && !is_settled);
        self.unsettled -= usize::from(!was_settled && is_settled);
        if self.by_key(workflow).is_some_and(|workflow| !workflow.is_stopping) {
            self.waiting += usize::from(was_placed && !is_placed);
            self.waiting -= usize::from(!was_placed && is_placed);
        }
        for node in after.difference(&before) {
            self.note(*node, key);
        }
        for node in before.difference(&after) {
            self.take_note(*node, key);
        }
    }

    fn note(&mut self, node: ChildKey, part: PartKey) {
        let at = node.0 as usize;
        let mut parts = self.on_node.take(at).flatten().unwrap_or_default();
        Arc::make_mut(&mut parts).insert(part);
        self.on_node.put(at, Some(parts));
    }

    fn take_note(&mut self, node: ChildKey, part: PartKey) {
        let at = node.0 as usize;
        let Some(mut parts) = self.on_node.take(at).flatten() else { return };
        Arc::make_mut(&mut parts).remove(&part);
        if !parts.is_empty() {
            self.on_node.put(at, Some(parts));
        }
    }

    fn forget(&mut self, key: WorkflowKey) {
        let Some(workflow) = self.ids.remove(&key).and_then(|id| self.by_id.remove(&id)) else { return };
        if !workflow.is_stopping {
            self.waiting -= self.count(&workflow, |part| !part.is_placed());
        }
        for at in (workflow.first.0..).take(workflow.len()) {
            if let Some(part) = self.parts.take(at as usize).flatten() {
                self.parts_count -= 1;
                self.unsettled -= usize::from(!part.is_settled());
                for node in part.nodes() {
                    self.take_note(node, PartKey(at));
                }
            }
        }
    }
}
