//! Folding a change in. Infallible: whether it is right was decided before it was made.

use std::sync::Arc;

use super::{Change, Part, PartKey, Workflow, WorkflowKey, Workflows};
use model::ChildKey;

/// Folds one change in.
pub fn apply(workflows: &mut Workflows, change: &Change) {
    match change {
        Change::Started { workflow, parts } => workflows.hold(Arc::clone(workflow), parts.iter().cloned()),
        Change::Placed { part, instance } => {
            workflows.last = Some(instance.node);
            workflows.change(*part, |part| {
                part.instance = Some(instance.clone());
                part.placed += 1;
            });
        }
        Change::Left { part } => workflows.change(*part, |part| part.leaving.extend(part.instance.take())),
        Change::Seen { part, phase } => workflows.change(*part, |part| {
            if let Some(instance) = &mut part.instance {
                instance.phase = phase.clone();
            }
        }),
        Change::Gone { part, instance } => {
            workflows.change(*part, |part| part.leaving.retain(|leaving| leaving.id != *instance));
        }
        Change::Stopping { workflow } => {
            let Some(id) = workflows.ids.get(workflow).cloned() else { return };
            if let Some(workflow) = workflows.by_id.get_mut(&id) {
                let before = Arc::clone(workflow);
                Arc::make_mut(workflow).is_stopping = true;
                workflows.waiting -= workflows.count_waiting(&before);
            }
        }
        Change::Removed { workflow } => workflows.forget(*workflow),
    }
}

impl Workflows {
    /// Takes one in, with its parts in the order of their numbers, as it was stored.
    pub fn hold(&mut self, workflow: Arc<Workflow>, parts: impl IntoIterator<Item = Arc<Part>>) {
        self.next = self.next.max(workflow.key.0 + 1);
        for (at, part) in (workflow.first.0..).zip(parts) {
            self.next_part = self.next_part.max(at + 1);
            self.parts_count += 1;
            self.waiting += usize::from(part.waits(&workflow));
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

    fn count_waiting(&self, workflow: &Workflow) -> usize {
        let parts = (workflow.first.0..).take(workflow.len()).filter_map(|at| self.part(PartKey(at)));
        parts.filter(|part| part.waits(workflow)).count()
    }

    fn change(&mut self, key: PartKey, change: impl FnOnce(&mut Part)) {
        let Some(Some(part)) = self.parts.get_mut(key.0 as usize) else { return };
        let before: Vec<ChildKey> = part.nodes().collect();
        let part = Arc::make_mut(part);
        let (had, workflow) = (part.instance.is_some(), part.workflow);
        change(part);
        let (has, after): (bool, Vec<ChildKey>) = (part.instance.is_some(), part.nodes().collect());
        if self.by_key(workflow).is_some_and(|workflow| !workflow.is_stopping) {
            self.waiting += usize::from(had && !has);
            self.waiting -= usize::from(!had && has);
        }
        for node in after.iter().filter(|node| !before.contains(node)) {
            self.note(*node, key);
        }
        for node in before.iter().filter(|node| !after.contains(node)) {
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
        self.waiting -= self.count_waiting(&workflow);
        for at in (workflow.first.0..).take(workflow.len()) {
            if let Some(part) = self.parts.take(at as usize).flatten() {
                self.parts_count -= 1;
                for node in part.nodes() {
                    self.take_note(node, PartKey(at));
                }
            }
        }
    }
}
