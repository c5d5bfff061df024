//! From the state to rows: what a batch of changes writes.
//!
//! Changes say what was touched; the rows are made from the state as it is after all of them, so that a child that
//! moved three times in a batch is written once.

use std::collections::BTreeMap;

use super::{
    audit::StoredEvent,
    effect::ParentStageResult,
    json_columns::{AssignmentDetail, ChildDetail, ReleaseDetail, form::Version, json},
    members::{PackedPart, SLICE_MEMBERS, pack, pack_parts},
};
use domain::{
    children::Child,
    release::{
        assignment::{Assignment, StepIndex},
        state::{Release, State},
    },
};
use model::{ChildKey, ChildKind, Now, Outcome, ReleaseKey, StageStatus};
use store::StoreError;
use store::rows::{
    AssignmentRow, AuditRow, ChildRow, MembersRow, OutboxRow, PointerRow, REMOVED, ReleaseRow, WallMs,
};

pub(super) fn audit_rows(
    audit: BTreeMap<(Option<ReleaseKey>, String), Vec<StoredEvent>>,
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
            steps: events.iter().all(|event| event.is_step),
            events: format!("[{}]", joined(&events)),
        })
        .collect()
}

fn joined(events: &[StoredEvent]) -> String {
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    texts.join(",")
}

/// Effects, and pointers, of one commit that fit its sequence number into one id.
const MAX_EFFECTS_PER_COMMIT: u64 = 1_000_000;

pub(super) fn outbox_rows(outbox: Vec<(&'static str, String)>, seq: u64, now: Now) -> Vec<OutboxRow> {
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

/// `pointers`: their details.
pub(super) fn pointer_rows(pointers: Vec<String>, seq: u64, now: Now) -> Vec<PointerRow> {
    pointers
        .into_iter()
        .zip(0..MAX_EFFECTS_PER_COMMIT)
        .map(|(detail, place)| PointerRow {
            pointer_key: seq * MAX_EFFECTS_PER_COMMIT + place,
            at_ms: now.wall_ms,
            detail,
        })
        .collect()
}

/// What tells the parent how a stage of its offer ended; `None`: the release came from no parent.
pub fn owed(release: &Release, stage: u8, status: StageStatus) -> Option<ParentStageResult> {
    let found = release.strategy.stages.get(usize::from(stage))?;
    let next = release.stage_after(stage).filter(|_| status == StageStatus::Completed);
    Some(ParentStageResult {
        next: next.map(str::to_owned),
        offer: release.parent.as_ref()?.offer.clone(),
        release: Some(release.id.clone()),
        release_key: release.key.0,
        stage: Some(found.name.clone()),
        slot: StepIndex::stage(usize::from(stage)).0,
        split: found.new_traffic,
        begun: release.begun(usize::from(stage)).filter(|_| release.strategy.is_classed()),
        status,
        agents: release.agents(),
        why: release.ending.clone(),
        recount: None,
    })
}

/// What tells the parent that the agents stand otherwise than it was told.
pub fn recount(release: &Release) -> Option<ParentStageResult> {
    let said = release.parent.as_ref()?.said?;
    let told = owed(release, said.stage, said.status)?;
    Some(ParentStageResult { next: None, recount: Some(said.recounts), ..told })
}

/// The id of a row that only keeps a number from being given again. No child and no release has such an id.
pub(super) const TOMBSTONE: char = '!';

/// What is left of the child with the highest number: without it, the number would be given again after a restart,
/// and the newcomer would inherit what is stored of the one that is gone.
pub(super) fn tombstone(state: &State, gone: ChildKey, now_ms: WallMs) -> Option<ChildRow> {
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
pub(super) fn removed_row(key: ReleaseKey, wall_ms: WallMs) -> ReleaseRow {
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

pub(super) fn child_row(key: ChildKey, child: &Child, seen_ms: WallMs) -> Result<ChildRow, StoreError> {
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

pub(super) fn release_row(release: &Release, wall_ms: WallMs) -> Result<ReleaseRow, StoreError> {
    let detail = ReleaseDetail {
        version: Version::NOW,
        state: release.state.clone(),
        revision: release.revision,
        acted: release.acted,
        clock: release.clock,
        facts: release.facts.clone(),
        submitted: release.submitted,
        deferred: release.deferred,
        is_back: release.counts.are_back(release.strategy.is_hybrid()),
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
        failed: release.failed,
        times: release.times.clone(),
        parent: release.parent.clone(),
        left_out: release.left_out,
        managers: release.managers.iter().map(|(child, planned)| (*child, planned.clone())).collect(),
        agents: release.agents_below(),
        contents: release.strategy.contents(),
        adopts: release.adopts.clone(),
    };
    let functions: Vec<&str> = release.strategy.subject_keys().collect();
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

pub(super) fn member_rows(release: &Release) -> impl Iterator<Item = MembersRow> + '_ {
    let of = |key: &ChildKey| {
        let part = release.assignments.get(key);
        let lacks = part.map_or(0, |part| part.lacks_in(&release.strategy).0);
        let in_place = part.is_some_and(Assignment::is_in_place);
        PackedPart { wave: release.first_wave(*key), lacks, in_place }
    };
    release.members.chunks(SLICE_MEMBERS).zip(0..).map(move |(keys, slice)| MembersRow {
        release_key: release.key.0,
        slice,
        keys: pack(keys),
        waves: pack_parts(&keys.iter().map(of).collect::<Vec<PackedPart>>()),
    })
}

pub(super) fn assignment_row(
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
        idle: assignment.idle(),
        manager: assignment.whole().cloned(),
        in_place: assignment.is_in_place(),
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
        kept: rare.kept,
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
