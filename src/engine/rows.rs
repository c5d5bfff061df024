//! From the state to rows: what a batch of changes writes.
//!
//! Changes say what was touched; the rows are made from the state as it is after all of them, so that a child that
//! moved three times in a batch is written once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use super::effect::{ENROLLED, TAKING, UPWARD, Upward};
use super::{
    audit,
    effect::{Entry, Pointer, Webhook},
    members::{SLICE_MEMBERS, pack, pack_parts},
    stored::{AssignmentDetail, ChildDetail, ReleaseDetail, Times, form::Version, json},
};
use heart::{
    children::{self, Child, Variant},
    release::{
        analysis,
        assignment::{Assignment, Mark, Slot, Step},
        change::Change,
        lifecycle, members,
        offer::Piece,
        rollout, stages,
        state::{End, Release, State},
        summary::Kept,
        upstream,
    },
};
use model::{ChildKey, ChildKind, Now, Outcome, ReleaseId, ReleaseKey, StageStatus};
use store::StoreError;
use store::rows::{
    AnalysisRunRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, MembersRow, OutboxRow, PrecedentRow,
    REMOVED, ReleaseRow, StageResultRow, WallMs, Writes,
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
    results: BTreeMap<(ReleaseKey, ChildKey, u16, Slot), StageResultRow>,
    /// Blocks of analysis whose run is to be written.
    runs: BTreeSet<(ReleaseKey, u8)>,
    precedents: BTreeMap<(String, ReleaseKey), PrecedentRow>,
    deployments: BTreeMap<(ChildKey, String), DeploymentRow>,
    audit: BTreeMap<(Option<ReleaseKey>, String), Vec<String>>,
    outbox: Vec<(&'static str, String)>,
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
            self.note_one(state, change, now);
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
                Change::Lifecycle(lifecycle::Change::Ended { release, .. }) => {
                    let Some(release) = state.find(*release) else { continue };
                    for url in webhooks {
                        self.effect(&Entry::Webhook(ended(url, release)));
                    }
                }
                Change::Upstream(upstream::Change::StageReported { release, stage, status, .. }) => {
                    let release = state.find(*release);
                    self.owe(release.and_then(|release| upward(release, *stage, *status)));
                }
                Change::Upstream(upstream::Change::Recounted { release }) => {
                    self.owe(state.find(*release).and_then(recount));
                }
                Change::Upstream(upstream::Change::UndoReported { offer, unconfirmed, .. }) => {
                    self.owe(Some(Upward::undone(offer.clone(), *unconfirmed)));
                }
                Change::Upstream(upstream::Change::Forwarded { id, to }) => {
                    let pointer = Pointer { release: id.clone(), to: to.clone() };
                    self.effect(&Entry::Forwarded(pointer));
                }
                _ => {}
            }
        }
    }

    /// Owes the parent a result.
    fn owe(&mut self, upward: Option<Upward>) {
        if let Some(upward) = upward {
            self.effect(&upward.into());
        }
    }

    /// Puts something into the outbox.
    pub fn effect(&mut self, entry: &Entry) {
        match entry.payload() {
            Ok(payload) => self.outbox.push((entry.kind(), payload)),
            Err(error) => self.unwritable = Some(error),
        }
    }

    fn note_one(&mut self, state: &State, change: &Change, now: Now) {
        if let Some(child) = change.child() {
            self.children.insert(child);
        }
        self.note_analysis(state, change, now);
        match change {
            Change::Children(
                children::Change::Arrived { child, .. }
                | children::Change::CalledAgain { child }
                | children::Change::Moved { child, .. }
                | children::Change::CalledFrom { child, .. }
                | children::Change::Proven { child }
                | children::Change::Replaced { child, .. }
                | children::Change::Back { child }
                | children::Change::Reported { child, .. }
                | children::Change::Labelled { child, .. }
                | children::Change::Cordoned { child, .. },
            ) => {
                self.child_rows.insert(*child);
            }
            Change::Children(children::Change::Forgotten { child, .. }) => {
                self.children_gone.insert(*child);
            }
            Change::Lifecycle(lifecycle::Change::Started { release, .. }) => {
                self.started.insert(*release);
                self.again(state, *release);
                self.releases.extend(state.find(*release).into_iter().flat_map(|r| &r.overtakes.overtook));
                self.whole.insert(*release);
                self.releases.insert(*release);
            }
            Change::Lifecycle(
                lifecycle::Change::Ended { release, .. }
                | lifecycle::Change::Paused { release, .. }
                | lifecycle::Change::Resumed { release, .. }
                | lifecycle::Change::Aborted { release, .. }
                | lifecycle::Change::Retried { release, .. },
            )
            | Change::Stages(
                stages::Change::Ended { release, .. }
                | stages::Change::Skipped { release, .. }
                | stages::Change::UntestedRolledOut { release, .. },
            )
            | Change::Rollout(rollout::Change::LevelOpened { release, .. }) => {
                self.releases.insert(*release);
                self.whole.insert(*release);
            }
            Change::Members(members::Change::Joined { release, child, .. }) => {
                self.releases.insert(*release);
                self.assignments.insert((*release, *child));
            }
            Change::Lifecycle(
                lifecycle::Change::Submitted { release, .. }
                | lifecycle::Change::Replanned { release, .. }
                | lifecycle::Change::FaultNoted { release, .. },
            )
            | Change::Rollout(
                rollout::Change::GateReached { release, .. }
                | rollout::Change::GateLeft { release }
                | rollout::Change::ApprovalAsked { release, .. }
                | rollout::Change::Approved { release, .. },
            )
            | Change::Upstream(
                upstream::Change::StageReported { release, .. }
                | upstream::Change::Recounted { release }
                | upstream::Change::Held { release, .. }
                | upstream::Change::Continued { release, .. }
                | upstream::Change::UndoAwaited { release, .. }
                | upstream::Change::UndoReported { release, .. },
            )
            | Change::Analysis(
                analysis::Change::Began { release, .. }
                | analysis::Change::Looked { release, .. }
                | analysis::Change::VerdictGiven { release, .. }
                | analysis::Change::Extended { release, .. },
            )
            | Change::Stages(stages::Change::Timed { release, .. }) => {
                self.releases.insert(*release);
            }
            Change::Rollout(rollout::Change::WavesOpened { release, from, to, .. }) => {
                self.releases.insert(*release);
                if let Some(found) = state.find(*release) {
                    self.children.extend(found.turns.between(*from, to + 1));
                }
            }
            Change::Members(members::Change::Stepped { release, child, step, summary, .. }) => {
                self.assignments.insert((*release, *child));
                self.note_summary(state, *release, *child, step, summary.as_deref(), now);
            }
            Change::Members(members::Change::Numbers { release, child, slot, status, summary }) => {
                self.keep_result(state, *release, *child, *slot, *status, summary, now);
            }
            Change::Rollout(rollout::Change::WavesPlanned { release, moved, managers, .. }) => {
                self.releases.insert(*release);
                self.started.insert(*release);
                let managers = managers.iter().map(|(child, _)| (*release, *child));
                self.assignments.extend(managers);
                let acted = |child: &ChildKey| {
                    let release = state.find(*release)?;
                    let part = release.assignments.get(child)?;
                    let has_acted = part.rare().joined.is_some() || *part != release.untouched(part);
                    has_acted.then_some((release.key, *child))
                };
                self.assignments.extend(moved.iter().filter_map(|(child, _)| acted(child)));
            }
            Change::Lifecycle(lifecycle::Change::Removed { release, id }) => {
                self.removed.insert(*release, id.clone());
            }
            Change::Children(children::Change::Seen { .. })
            | Change::Rollout(rollout::Change::TurnoutAsked { .. })
            | Change::Members(members::Change::DeadlinesSeen { .. } | members::Change::LateKept { .. })
            | Change::Upstream(upstream::Change::Forwarded { .. }) => {}
            Change::Members(members::Change::Deployed { child, release, function, variant }) => {
                self.deploy(state, *child, *release, *function, *variant, now);
            }
        }
    }

    /// A release that is planned once more has rows of those who had a part in it before.
    fn again(&mut self, state: &State, key: ReleaseKey) {
        let Some(release) = state.find(key) else { return };
        let had = release.assignments.iter().filter(|(_, part)| part.attempt > 1 || part.outcome.is_some());
        self.assignments.extend(had.map(|(child, _)| (key, *child)));
    }

    /// What is kept of analyses, and for those of later releases.
    fn note_analysis(&mut self, state: &State, change: &Change, now: Now) {
        match change {
            Change::Analysis(
                analysis::Change::Began { release, block, .. }
                | analysis::Change::Extended { release, block, .. }
                | analysis::Change::VerdictGiven { release, block, .. },
            ) => {
                self.runs.insert((*release, *block));
            }
            Change::Analysis(analysis::Change::Looked { release, run }) => {
                self.runs.insert((*release, run.block));
            }
            // To resume is to accept verdicts.
            Change::Lifecycle(lifecycle::Change::Resumed { release, .. }) => self.runs_of(state, *release),
            Change::Lifecycle(lifecycle::Change::Ended { release, end, .. }) => {
                self.runs_of(state, *release);
                if *end == End::Done {
                    self.precede(state, *release, Some(now.wall_ms), now);
                }
            }
            Change::Lifecycle(lifecycle::Change::Aborted { release, .. }) => {
                self.precede(state, *release, None, now);
            }
            _ => {}
        }
    }

    fn runs_of(&mut self, state: &State, key: ReleaseKey) {
        let runs = state.find(key).into_iter().flat_map(|found| found.runs.iter());
        self.runs.extend(runs.map(|run| (key, run.block)));
    }

    /// Keeps when the stages of a release were; without an end it is nothing to be compared with.
    fn precede(&mut self, state: &State, key: ReleaseKey, ended_ms: Option<WallMs>, now: Now) {
        let Some(release) = state.find(key).filter(|release| release.participants() > 0) else { return };
        for (at, function) in release.strategy.functions.iter().enumerate() {
            let Some(times) = self.json(&Times(release.times_of(at, now.wall_ms))) else { return };
            let row = PrecedentRow {
                function: function.name.clone(),
                release_key: key.0,
                id: release.id.to_string(),
                ended_ms,
                times,
            };
            self.precedents.insert((function.name.clone(), key), row);
        }
    }

    fn note_summary(
        &mut self,
        state: &State,
        release: ReleaseKey,
        child: ChildKey,
        step: &Step,
        summary: Option<&Kept>,
        now: Now,
    ) {
        let Some(summary) = summary else { return };
        match step {
            Step::Waiting { slot } => {
                self.keep_result(state, release, child, *slot, StageStatus::SuccessWaiting, summary, now);
            }
            Step::Reported { slot, status, .. } => {
                self.keep_result(state, release, child, *slot, *status, summary, now);
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the columns")]
    fn keep_result(
        &mut self,
        state: &State,
        release: ReleaseKey,
        child: ChildKey,
        slot: Slot,
        status: StageStatus,
        kept: &Kept,
        now: Now,
    ) {
        let Some(assignment) = state.find(release).and_then(|found| found.assignments.get(&child)) else {
            return;
        };
        // What follows from a result may have begun the next attempt already.
        let is_of = |mark: &&Mark| mark.slot == slot && mark.digest == kept.digest;
        let mark = assignment.marks().iter().rev().find(is_of);
        let attempt = mark.map_or(assignment.attempt, |mark| mark.attempt);
        let row = StageResultRow {
            release_key: release.0,
            child_key: child.0,
            attempt: attempt as i16,
            stage: i16::from(slot.0),
            status: i16::from(status.wire()),
            at_ms: now.wall_ms,
            digest: kept.digest.cast_signed(),
            summary: kept.json.clone(),
        };
        self.results.insert((release, child, attempt, slot), row);
    }

    fn deploy(
        &mut self,
        state: &State,
        child: ChildKey,
        release: ReleaseKey,
        function: usize,
        variant: Variant,
        now: Now,
    ) {
        let Some(function) = state.find(release).and_then(|r| r.strategy.functions.get(function)) else {
            return;
        };
        let path = if variant == Variant::Base { &function.base.path } else { &function.new.path };
        let row = DeploymentRow {
            child_key: child.0,
            function: function.name.clone(),
            release_key: release.0,
            variant: variant.name().to_owned(),
            path: path.clone(),
            at_ms: now.wall_ms,
        };
        self.deployments.insert((child, function.name.clone()), row);
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
                let detail = json(run)?;
                writes.analysis_runs.push(AnalysisRunRow { release_key: key.0, block: block.into(), detail });
            }
        }
        writes.precedents = self.precedents.into_values().collect();
        writes.deployments = self.deployments.into_values().collect();
        writes.audit = audit_rows(self.audit, seq, now);
        writes.outbox = outbox_rows(self.outbox, seq, now);
        Ok(writes)
    }
}

fn audit_rows(
    audit: BTreeMap<(Option<ReleaseKey>, String), Vec<String>>,
    seq: u64,
    now: Now,
) -> Vec<AuditRow> {
    audit
        .into_iter()
        .enumerate()
        .map(|(idx, ((release, actor), events))| AuditRow {
            seq,
            idx: idx as u32,
            at_ms: now.wall_ms,
            release_key: release.map(|key| key.0),
            actor,
            events: format!("[{}]", events.join(",")),
        })
        .collect()
}

/// Effects of one commit that fit its sequence number into one id.
const MAX_EFFECTS_PER_COMMIT: u64 = 1_000_000;

fn outbox_rows(outbox: Vec<(&'static str, String)>, seq: u64, now: Now) -> Vec<OutboxRow> {
    outbox
        .into_iter()
        .zip(0..MAX_EFFECTS_PER_COMMIT)
        .map(|((kind, payload), place)| OutboxRow {
            id: seq * MAX_EFFECTS_PER_COMMIT + place,
            kind: kind.to_owned(),
            at_ms: now.wall_ms,
            payload,
            served_ms: Some(now.served_ms),
        })
        .collect()
}

/// What tells the parent how a stage of its offer ended; `None`: the release came from no parent.
pub fn upward(release: &Release, stage: u8, status: StageStatus) -> Option<Upward> {
    let found = release.strategy.stages.get(usize::from(stage))?;
    let next = release.stage_after(stage).filter(|_| status == StageStatus::Completed);
    Some(Upward {
        next: next.map(str::to_owned),
        offer: release.upstream.as_ref()?.offer.clone(),
        release: Some(release.id.clone()),
        release_key: release.key.0,
        stage: Some(found.name.clone()),
        slot: Slot::stage(usize::from(stage)).0,
        split: found.new_traffic,
        begun: release.begun(usize::from(stage)).filter(|_| release.strategy.is_classed()),
        status,
        agents: release.agents(),
        why: release.ending.clone().filter(|_| status != StageStatus::Completed),
        recount: None,
    })
}

/// What tells the parent that the agents stand otherwise than it was told.
pub fn recount(release: &Release) -> Option<Upward> {
    let said = release.upstream.as_ref()?.said?;
    let told = upward(release, said.stage, said.status)?;
    Some(Upward { next: None, recount: Some(said.recounts), ..told })
}

/// Tells a webhook of the end of a release.
fn ended(url: &str, release: &Release) -> Webhook {
    let body = serde_json::json!({
        "event": "release_ended",
        "release": release.id.as_str(),
        "state": release.state.name(),
        "why": release.ending,
        "unconfirmed": release.unproven(),
        "counts": release.counts,
        "ended_ms": release.ended.map(|now| now.wall_ms),
    });
    Webhook { url: url.to_owned(), body }
}

/// The id of a row that only keeps a number from being given again. No child and no release has such an id.
pub(super) const TOMBSTONE: char = '!';

/// What is left of the child with the highest number: without it, the number would be given again after a restart,
/// and the newcomer would inherit what is stored of the one that is gone.
fn tombstone(state: &State, gone: ChildKey, now_ms: WallMs) -> Option<ChildRow> {
    let highest = state.children.next_key().is_none_or(|next| next.0 == gone.0 + 1);
    highest.then(|| ChildRow {
        child_key: gone.0,
        id: format!("{TOMBSTONE}{}", gone.0),
        kind: ChildKind::Agent.name().to_owned(),
        name: None,
        area: None,
        agents: 0,
        born_ms: now_ms,
        seen_ms: now_ms,
        detail: "{}".to_owned(),
    })
}

/// What is left of a release that leaves the history, until all its rows are gone: it refers to nothing.
fn removed_row(key: ReleaseKey, wall_ms: WallMs) -> ReleaseRow {
    ReleaseRow {
        release_key: key.0,
        id: format!("{TOMBSTONE}{}", key.0),
        state: REMOVED.to_owned(),
        open: false,
        digest: Vec::new(),
        archive: Vec::new(),
        strategy: String::new(),
        functions: "[]".to_owned(),
        submitted_ms: wall_ms,
        updated_ms: wall_ms,
        ended_ms: None,
        detail: "{}".to_owned(),
    }
}

fn child_row(key: ChildKey, child: &Child, seen_ms: WallMs) -> Result<ChildRow, StoreError> {
    let profile = child.profile.as_deref();
    let detail = ChildDetail {
        version: Version::NOW,
        address: child.address,
        unproven: child.unproven,
        replaced: child.replaced.as_deref().copied(),
        called_again: child.called_again,
        born_served_ms: child.born.served_ms,
        cordon: child.cordon,
        plain: profile.is_none(),
        capabilities: profile.map(|profile| profile.capabilities.clone()).unwrap_or_default(),
        labels: child.labels.as_deref().cloned().unwrap_or_default(),
    };
    Ok(ChildRow {
        child_key: key.0,
        id: child.id.as_str().to_owned(),
        kind: profile.map_or(ChildKind::Agent, |profile| profile.kind).name().to_owned(),
        name: profile.and_then(|profile| profile.name.clone()),
        area: child.area.as_deref().map(str::to_owned),
        agents: child.agents,
        born_ms: child.born.wall_ms,
        seen_ms,
        detail: json(&detail)?,
    })
}

fn release_row(release: &Release, wall_ms: WallMs) -> Result<ReleaseRow, StoreError> {
    let detail = ReleaseDetail {
        version: Version::NOW,
        state: release.state.clone(),
        clock: release.clock,
        facts: release.facts.clone(),
        submitted: release.submitted,
        deferred: release.deferred,
        overtakes: release.overtakes.clone(),
        started: release.started,
        started_at: release.started_at,
        ended: release.ended,
        ending: release.ending.clone(),
        first_fault: release.first_fault,
        attempt: release.attempt,
        participants: release.participants(),
        excluded: release.excluded.clone(),
        counts: release.counts,
        stand: release.gates.stand,
        accepted: release.accepted,
        runs: Vec::new(),
        times: release.times.clone(),
        upstream: release.upstream.clone(),
        left_out: release.left_out,
        managers: release.managers.iter().map(|(child, planned)| (*child, planned.clone())).collect(),
        agents: release.agents_below(),
    };
    let functions: Vec<&str> = release.strategy.functions.iter().map(|f| f.name.as_str()).collect();
    Ok(ReleaseRow {
        release_key: release.key.0,
        id: release.id.as_str().to_owned(),
        state: release.state.name().to_owned(),
        open: release.is_open(),
        digest: release.digest.to_vec(),
        archive: release.archive.to_vec(),
        strategy: release.text.as_ref().to_owned(),
        functions: json(&functions)?,
        submitted_ms: release.submitted.wall_ms,
        updated_ms: wall_ms,
        ended_ms: release.ended.map(|now| now.wall_ms),
        detail: json(&detail)?,
    })
}

fn member_rows(release: &Release) -> impl Iterator<Item = MembersRow> + '_ {
    let of = |key: &ChildKey| {
        let lacks = release.assignments.get(key).map_or(0, |part| part.lacks().0);
        (release.first_wave(*key), lacks)
    };
    release.members.chunks(SLICE_MEMBERS).zip(0..).map(move |(keys, slice)| MembersRow {
        release_key: release.key.0,
        slice,
        keys: pack(keys),
        waves: pack_parts(&keys.iter().map(of).collect::<Vec<(u32, u64)>>()),
    })
}

fn assignment_row(
    release: ReleaseKey,
    child: ChildKey,
    assignment: &Assignment,
    wall_ms: WallMs,
) -> Result<AssignmentRow, StoreError> {
    let excluded = match assignment.outcome {
        Some(Outcome::Excluded(why)) => Some(why),
        _ => None,
    };
    let rare = assignment.rare();
    let detail = AssignmentDetail {
        version: Version::NOW,
        named: assignment.named,
        piece: assignment.piece(),
        fetched: assignment.fetched,
        led: assignment.fetched
            && !assignment.acts_by_itself()
            && matches!(assignment.piece(), Piece::Stage(_)),
        idle: assignment.idle(),
        manager: assignment.whole().cloned(),
        wave: assignment.wave,
        admitted: assignment.is_admitted(),
        passed: assignment.passed(),
        joined: rare.joined,
        since: assignment.since,
        stage_since: assignment.stage_since,
        polls: assignment.polls,
        lacks: assignment.lacks(),
        tainted: assignment.tainted,
        rolled_out: assignment.rolled_out,
        undo: rare.undo.as_deref().cloned(),
        excluded,
        successor: rare.successor,
        displaced: rare.displaced,
        predecessor: rare.predecessor,
        facts: assignment.facts,
        late: assignment.late().to_vec(),
    };
    Ok(AssignmentRow {
        release_key: release.0,
        child_key: child.0,
        status: assignment.status as i16,
        outcome: assignment.outcome.map(|outcome| outcome.name().to_owned()),
        attempt: assignment.attempt as i16,
        stage: i16::from(assignment.slot.0),
        stage_status: i16::from(assignment.stage_status.wire()),
        updated_ms: wall_ms,
        detail: json(&detail)?,
    })
}
