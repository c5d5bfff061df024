//! What changes of workflows touch.

use std::collections::BTreeSet;

use super::Touched;
use crate::{
    changed::Noted,
    json_columns::workflows::{part_row, workflow_row},
};
use domain::{
    release::state::State,
    workflows::{Change, Part, PartKey, WorkflowKey},
};
use store::{StoreError, rows::Writes};

/// What was touched of workflows.
#[derive(Debug, Default)]
pub(super) struct OfWorkflows {
    workflows: BTreeSet<WorkflowKey>,
    parts: BTreeSet<PartKey>,
    gone: BTreeSet<WorkflowKey>,
}

impl Touched {
    /// Nodes of parts that put something out to one.
    pub(super) fn note_senders(&mut self, state: &State, key: PartKey, part: &Part) {
        let workflow = state.workflows.by_key(part.workflow).into_iter();
        let senders = workflow.flat_map(|workflow| workflow.senders(key));
        let senders = senders.filter_map(|key| state.workflows.part(key));
        self.children.extend(senders.flat_map(|part| part.instances()).map(|instance| instance.node));
    }

    pub(super) fn note_workflows(&mut self, state: &State, change: &Change) {
        // Their calls wait for it.
        if let Some((key, part)) = change.part().and_then(|key| Some((key, state.workflows.part(key)?))) {
            self.children.extend(part.instances().map(|instance| instance.node));
            // Those who put something out to it are told where it is.
            let is_elsewhere = !matches!(change, Change::Seen { .. } | Change::Gone { .. });
            if is_elsewhere {
                self.note_senders(state, key, part);
            }
        }
        if let Change::AboveSet { workflow, .. } = change {
            let parts = state.workflows.by_key(*workflow).into_iter().flat_map(|workflow| workflow.parts());
            let parts = parts.filter_map(|(key, ..)| state.workflows.part(key));
            self.children.extend(parts.flat_map(|part| part.instances()).map(|instance| instance.node));
        }
        let of = &mut self.workflows;
        match change {
            Change::Started { workflow, .. } => {
                of.workflows.insert(workflow.key);
                of.parts.extend(workflow.parts().map(|(key, ..)| key));
            }
            Change::Placed { part, .. }
            | Change::Moving { part, .. }
            | Change::TookOver { part }
            | Change::Dropped { part, .. }
            | Change::Left { part, .. }
            | Change::Seen { part, .. }
            | Change::Reached { part, .. }
            | Change::Gone { part, .. } => drop(of.parts.insert(*part)),
            Change::StrategySet { workflow, .. }
            | Change::AboveSet { workflow, .. }
            | Change::Stopping { workflow } => drop(of.workflows.insert(*workflow)),
            Change::Removed { workflow } => drop(of.gone.insert(*workflow)),
        }
    }
}

impl OfWorkflows {
    pub fn noted(&self) -> Noted {
        let workflows = self.workflows.union(&self.gone).copied().collect();
        Noted { parts: self.parts.clone(), workflows, ..Noted::default() }
    }

    /// The rows of all that was touched.
    pub fn write(self, state: &State, writes: &mut Writes) -> Result<(), StoreError> {
        writes.workflows_gone = self.gone.iter().map(|key| key.0).collect();
        for key in self.workflows {
            if let Some(workflow) = state.workflows.by_key(key) {
                writes.workflows.push(workflow_row(workflow)?);
            }
        }
        for key in self.parts {
            if let Some(part) = state.workflows.part(key) {
                writes.workflow_parts.push(part_row(key, part)?);
            }
        }
        Ok(())
    }
}
