//! What a batch has touched: which rows are to be written, subject by subject, and what is to be done outside.
//!
//! Each subject of the domain has a file here: it says what its changes touch and what they set off. A new kind of change does not
//! compile before it does.

mod analysis;
mod children;
mod lifecycle;
mod members;
mod parent;
mod rollout;
mod stages;
mod traffic;
mod workflows;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use super::{
    audit::{self, StoredEvent},
    changed::Noted,
    effect::Entry,
    json_columns::{self, json},
    principals::{Principal, PrincipalRows},
    rows::{
        assignment_row, audit_rows, child_row, member_rows, outbox_rows, pointer_rows, release_row,
        removed_row, tombstone,
    },
    settings::Setting,
};
use domain::children::Child;
use domain::release::{assignment::StepIndex, change::Change, state::State};
use model::{ChildKey, Now, ReleaseId, ReleaseKey};
use store::StoreError;
use store::rows::{
    AnalysisRunRow, DeploymentRow, PrecedentRow, RegisteredRow, ServiceReleaseRow, SettingRow,
    StageResultRow, WallMs, Writes,
};

/// What a batch has touched so far.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub children: BTreeSet<ChildKey>,
    /// Children whose row is to be written; the others only moved in a release.
    child_rows: BTreeSet<ChildKey>,
    children_gone: BTreeSet<ChildKey>,
    pub releases: BTreeSet<ReleaseKey>,
    /// Releases all of whose members may have moved.
    pub whole: BTreeSet<ReleaseKey>,
    /// Releases that leave the history.
    pub removed: BTreeMap<ReleaseKey, ReleaseId>,
    started: BTreeSet<ReleaseKey>,
    assignments: BTreeSet<(ReleaseKey, ChildKey)>,
    results: BTreeMap<(ReleaseKey, ChildKey, u16, StepIndex), StageResultRow>,
    /// Blocks of analysis whose run is to be written.
    runs: BTreeSet<(ReleaseKey, u8)>,
    precedents: BTreeMap<(String, ReleaseKey), PrecedentRow>,
    service_releases: BTreeMap<ReleaseKey, ServiceReleaseRow>,
    named: PrincipalRows,
    registered: BTreeMap<(String, String, String), RegisteredRow>,
    deployments: BTreeMap<(ChildKey, String), DeploymentRow>,
    audit: BTreeMap<(Option<ReleaseKey>, String), Vec<StoredEvent>>,
    outbox: Vec<(&'static str, String)>,
    settings: BTreeMap<Cow<'static, str>, String>,
    pointers: Vec<String>,
    traffic: traffic::OfTraffic,
    workflows: workflows::OfWorkflows,
    /// The first value that has no stored form: then nothing is written.
    unwritable: Option<StoreError>,
}

impl Touched {
    /// Takes note of the changes of one command, which are applied already.
    pub fn note(
        &mut self,
        state: &State,
        changes: &[Change],
        actor: &audit::Actor,
        note: Option<&str>,
        now: Now,
    ) {
        for change in changes {
            self.note_one(state, change, actor, now);
        }
        match audit::events(state, changes, note) {
            Ok(events) => {
                for (release, event) in events {
                    self.audit.entry((release, actor.name())).or_default().push(event);
                }
            }
            Err(error) => self.unwritable = Some(error),
        }
    }

    /// A value as it is stored; one that has no such form is noted, and keeps everything from being written.
    fn json(&mut self, value: &impl Serialize) -> Option<String> {
        json(value).map_err(|error| self.unwritable = Some(error)).ok()
    }

    /// Puts what the changes set off outside into the outbox.
    pub fn effects(&mut self, state: &State, changes: &[Change], webhooks: &[String]) {
        for change in changes {
            match change {
                Change::Lifecycle(change) => self.lifecycle_effects(state, change, webhooks),
                Change::Parent(change) => self.parent_effects(state, change),
                Change::Children(_)
                | Change::Rollout(_)
                | Change::Stages(_)
                | Change::Members(_)
                | Change::Analysis(_)
                | Change::Traffic(_)
                | Change::Workflows(_) => {}
            }
        }
    }

    /// Puts something into the outbox.
    pub fn effect(&mut self, entry: &Entry) {
        match entry.payload() {
            Ok(payload) => self.outbox.push((entry.kind(), payload)),
            Err(error) => self.unwritable = Some(error),
        }
    }

    /// Keeps something of this manager itself; the last of a name counts.
    pub fn keep(&mut self, setting: &Setting) {
        if let Setting::Tenant(tenant) = setting {
            self.named.note(Principal { tenant: tenant.name.to_string(), user: None }, tenant.created_ms);
        }
        match json_columns::setting_text(setting) {
            Ok(value) => drop(self.settings.insert(setting.name(), value)),
            Err(error) => self.unwritable = Some(error),
        }
    }

    /// Writes what may be named by releases; the last of a name counts.
    pub fn register(&mut self, row: RegisteredRow) {
        self.registered.insert((row.tenant.clone(), row.kind.clone(), row.name.clone()), row);
    }

    /// Takes note of a tenant, or of a user.
    pub fn know(&mut self, known: Principal, at_ms: WallMs) {
        self.named.note(known, at_ms);
    }

    /// What of it concerns a copy of nodes and workflows. Whoever keeps it looks by itself who is a node no more.
    pub fn noted(&self, state: &State) -> Noted {
        let is_node = |key: &&ChildKey| state.children.get(**key).is_some_and(Child::is_node);
        let children = self.child_rows.iter().filter(is_node).copied().collect();
        Noted { children, ..self.workflows.noted() }
    }

    /// Takes note of something that is no change of the state.
    pub fn event(&mut self, actor: &audit::Actor, event: String) {
        let told = StoredEvent { text: event, is_step: false };
        self.audit.entry((None, actor.name())).or_default().push(told);
    }

    fn note_one(&mut self, state: &State, change: &Change, actor: &audit::Actor, now: Now) {
        if let Some(child) = change.child() {
            self.children.insert(child);
        }
        match change {
            Change::Children(change) => self.note_children(state, change),
            Change::Lifecycle(change) => self.note_lifecycle(state, change, actor, now),
            Change::Rollout(change) => self.note_rollout(state, change),
            Change::Stages(change) => self.note_stages(change),
            Change::Members(change) => self.note_members(state, change, now),
            Change::Parent(change) => self.note_parent(change),
            Change::Analysis(change) => self.note_analysis(change),
            Change::Traffic(change) => self.note_traffic(change),
            Change::Workflows(change) => self.note_workflows(state, change),
        }
    }

    /// The rows of everything that was touched. `seq` is that of the commit which carries them. Refused if one of them has
    /// no stored form: what is written must be read again.
    pub fn writes(self, state: &State, seq: u64, now: Now) -> Result<Writes, StoreError> {
        if let Some(error) = self.unwritable {
            return Err(error);
        }
        let mut writes = Writes::default();
        for key in self.child_rows.difference(&self.children_gone) {
            if let Some(child) = state.children.get(*key) {
                writes.children.push(child_row(*key, child, now.wall_ms)?);
            }
        }
        writes.children_gone = self.children_gone.iter().map(|key| key.0).collect();
        writes
            .children
            .extend(self.children_gone.last().and_then(|last| tombstone(state, *last, now.wall_ms)));
        for key in &self.started {
            if let Some(release) = state.find(*key) {
                writes.members.extend(member_rows(release));
            }
        }
        // First: their ids may be another's already.
        writes.releases.extend(self.removed.keys().map(|key| removed_row(*key, now.wall_ms)));
        let mut releases = self.releases;
        for (release_key, child) in self.assignments {
            let Some(release) = state.find(release_key) else { continue };
            // A release that is over stays open in the store only while it owes an undo.
            if release.state.is_over() && !release.is_part {
                releases.insert(release_key);
            }
            if let Some(assignment) = release.assignments.get(&child) {
                writes.assignments.push(assignment_row(release_key, child, assignment, now.wall_ms)?);
            }
        }
        for key in releases {
            if let Some(release) = state.find(key) {
                writes.releases.push(release_row(release, now.wall_ms)?);
            }
        }
        writes.stage_results = self.results.into_values().collect();
        for (key, block) in self.runs {
            if let Some(run) = state.find(key).and_then(|release| release.run(block)) {
                let detail = json_columns::run_text(run)?;
                writes.analysis_runs.push(AnalysisRunRow { release_key: key.0, block: block.into(), detail });
            }
        }
        writes.service_releases = self.service_releases.into_values().collect();
        (writes.tenants, writes.users) = self.named.rows();
        writes.registered = self.registered.into_values().collect();
        writes.precedents = self.precedents.into_values().collect();
        writes.deployments = self.deployments.into_values().collect();
        writes.audit = audit_rows(self.audit, seq, now);
        writes.outbox = outbox_rows(self.outbox, seq, now);
        let setting =
            |(name, value): (Cow<str>, _)| SettingRow { name: name.into_owned(), value, at_ms: now.wall_ms };
        writes.settings = self.settings.into_iter().map(setting).collect();
        writes.pointers = pointer_rows(self.pointers, seq, now);
        self.traffic.write(state, seq, now, &mut writes)?;
        self.workflows.write(state, &mut writes)?;
        Ok(writes)
    }
}
