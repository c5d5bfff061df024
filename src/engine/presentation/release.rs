//! Releases as the API shows them.

use std::collections::BTreeMap;

use super::{
    analysis,
    waves::{self, Waves},
};
use crate::{
    end_notification::told_ending,
    json_columns::{self, ReleaseDetail as StoredDetail},
    questions::part::PartBelow,
    unreadable::Unreadable,
};
use domain::release::{
    analysis::Run,
    assignment::{Dated, ReleaseEvent, StageSet},
    ending::Ending,
    manager::Agents,
    pause::Pause,
    pending_children::{self, PendingChildren},
    previous_run::Timed,
    revision::Tag,
    state::{Counts, End, Release, ReleaseState, Snapshot},
    waits,
};
use language::{Action, Stage, StageKind, Strategy, Subject};
use model::{Exclusion, Now, ReleaseKey, hex};
use protocol::{api, time::rfc3339};
use store::{
    StoreError,
    rows::{AnalysisRunRow, ReleaseRow},
};

/// A release in memory.
pub fn release(state: &Snapshot, release: &Release, now: Now) -> api::Release {
    api::Release {
        id: release.id.to_string(),
        name: release.strategy.name.clone(),
        tag: release.tag().to_string(),
        state: release.state.name().to_owned(),
        reason: reason(&release.state, release.ending.as_deref()),
        why: release.ending.as_deref().map(told_ending),
        waits_for: waits::release(state, release, now),
        functions: function_names(&release.strategy),
        attempt: release.attempt,
        submitted: rfc3339(release.submitted.wall_ms),
        started: release.started.map(wall),
        ended: release.ended.map(wall),
        counts: counts(&release.counts, release.participants()),
        unconfirmed: unconfirmed(&release.state, &release.counts),
        agents: release.agents_below().map(agents),
        left_out: release.left_out,
    }
}

/// A release in memory, with its strategy.
pub fn detail(state: &Snapshot, found: &Release, now: Now) -> api::ReleaseDetail {
    let mut stages = stages(&found.strategy, found.parent.is_some());
    mark_skipped(&mut stages, &found.facts);
    mark_failed(&mut stages, &found.strategy, found.failed, &found.runs);
    mark_times(&mut stages, &found.times);
    let mut waves = Waves::of(found);
    let mut awaited = vec![PendingChildren::default(); stages.len()];
    let deadlines = state.settings.deadlines(&found.strategy, &state.children);
    for (key, assignment) in &found.assignments {
        waves.add(found, deadlines, *key, assignment);
        let Some(index) = assignment.slot.stage_index() else { continue };
        if let (Some(stage), Some(awaited)) = (stages.get_mut(index), awaited.get_mut(index)) {
            *stage.children.entry(assignment.stage_status.name().to_owned()).or_default() += 1;
            awaited.add(found, deadlines, *key, assignment);
        }
    }
    for (index, (stage, awaited)) in stages.iter_mut().zip(awaited).enumerate() {
        stage.waits_for = pending_children::stage(found, index, awaited, now);
    }
    api::ReleaseDetail {
        release: release(state, found, now),
        strategy: found.text.as_ref().to_owned(),
        least_ms: found.strategy.least_duration().as_millis() as u64,
        stages,
        waves: waves.overviews(found, now),
        limits: waves::limits(found),
        analyses: analysis::overviews(&found.strategy, &found.runs),
        excluded: excluded(&found.excluded),
        functions_digest: hex::encode(&found.archive),
        below: Vec::new(),
    }
}

/// A release from the store.
pub fn from_row(row: &ReleaseRow, unreadable: &Unreadable) -> Result<api::Release, StoreError> {
    let detail = detail_of(row, unreadable)?;
    let name = strategy_of(row, unreadable).map(|strategy| strategy.name);
    with_name(row, &detail, name.unwrap_or_default(), unreadable)
}

/// A release from the store, with its strategy and the runs of its analyses. Where its children stood is left to the list of children.
pub fn detail_from_row(
    row: &ReleaseRow,
    runs: &[AnalysisRunRow],
    unreadable: &Unreadable,
) -> Result<api::ReleaseDetail, StoreError> {
    let detail = detail_of(row, unreadable)?;
    let runs: Result<Vec<_>, _> = runs.iter().map(json_columns::run).collect();
    let runs = runs.inspect_err(|error| unreadable.note(error))?;
    let strategy = strategy_of(row, unreadable);
    let name = strategy.as_ref().map(|strategy| strategy.name.clone());
    let from_parent = detail.parent.is_some();
    let mut stages = strategy.as_ref().map(|strategy| stages(strategy, from_parent)).unwrap_or_default();
    mark_skipped(&mut stages, &detail.facts);
    mark_times(&mut stages, &detail.times);
    if let Some(strategy) = &strategy {
        mark_failed(&mut stages, strategy, detail.failed, &runs);
    }
    let analyses = strategy.as_ref().map(|strategy| analysis::overviews(strategy, &runs)).unwrap_or_default();
    Ok(api::ReleaseDetail {
        release: with_name(row, &detail, name.unwrap_or_default(), unreadable)?,
        strategy: row.strategy.clone(),
        least_ms: strategy.as_ref().map_or(0, |strategy| strategy.least_duration().as_millis() as u64),
        stages,
        waves: Vec::new(),
        limits: Vec::new(),
        analyses,
        excluded: excluded(&detail.excluded),
        functions_digest: hex::encode(&row.archive),
        below: Vec::new(),
    })
}

pub(super) fn detail_of(row: &ReleaseRow, unreadable: &Unreadable) -> Result<StoredDetail, StoreError> {
    let detail = json_columns::release_detail(row.release_key, &row.detail);
    detail.inspect_err(|error| unreadable.note(error))
}

/// A release is shown also where its strategy can't be read: without what would come from it.
pub fn strategy_of(row: &ReleaseRow, unreadable: &Unreadable) -> Option<Strategy> {
    json_columns::strategy_of(row).inspect_err(|error| unreadable.note(error)).ok()
}

/// A release from the store whose strategy has this name.
pub fn with_name(
    row: &ReleaseRow,
    detail: &StoredDetail,
    name: String,
    unreadable: &Unreadable,
) -> Result<api::Release, StoreError> {
    let functions = json_columns::function_names(row.release_key, &row.functions);
    let functions = functions.inspect_err(|error| unreadable.note(error))?;
    Ok(api::Release {
        id: row.id.clone(),
        name,
        tag: Tag { release: ReleaseKey(row.release_key), revision: detail.revision }.to_string(),
        state: detail.state.name().to_owned(),
        reason: reason(&detail.state, detail.ending.as_deref()),
        why: detail.ending.as_deref().map(told_ending),
        waits_for: None,
        functions,
        attempt: detail.attempt,
        submitted: rfc3339(row.submitted_ms),
        started: detail.started.map(wall),
        ended: row.ended_ms.map(rfc3339),
        counts: counts(&detail.counts, detail.participants),
        unconfirmed: unconfirmed(&detail.state, &detail.counts),
        agents: detail.agents.map(agents),
        left_out: detail.left_out,
    })
}

fn wall(at: Now) -> String {
    rfc3339(at.wall_ms)
}

/// Why a release is `DoneUntested`.
const UNTESTED: &str = "no agent got the calls that its test needs, so nothing is known of the new version: \
                        `choirmaster release retry` tries again";

fn reason(state: &ReleaseState, ending: Option<&Ending>) -> Option<String> {
    match state {
        ReleaseState::Paused(Pause { reason, .. }) | ReleaseState::RollingBack { reason, .. } => {
            Some(reason.clone())
        }
        ReleaseState::AwaitingApproval { what, .. } => Some(what.clone()),
        ReleaseState::Over { end: End::Untested, .. } => Some(UNTESTED.to_owned()),
        ReleaseState::Over { .. } => ending.map(|ending| ending.text.clone()),
        ReleaseState::Planned | ReleaseState::Running => None,
    }
}

/// Undo offers outlive a release; some of them may have been confirmed since it ended.
fn unconfirmed(state: &ReleaseState, counts: &Counts) -> u32 {
    match state {
        ReleaseState::Over { unconfirmed, .. } => *unconfirmed,
        ReleaseState::Planned
        | ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::RollingBack { .. } => counts.undo_overdue,
    }
}

fn function_names(strategy: &Strategy) -> Vec<String> {
    strategy.subject_keys().map(str::to_owned).collect()
}

fn excluded(excluded: &[(Exclusion, u32)]) -> BTreeMap<String, u32> {
    excluded.iter().map(|(why, count)| (why.to_string(), *count)).collect()
}

fn counts(counts: &Counts, participants: u32) -> api::ReleaseCounts {
    let [succeeded, failed, timed_out, unreachable, lost, undone, untested, excluded] = counts.by_outcome();
    api::ReleaseCounts {
        participants,
        todo: counts.todo,
        doing: counts.doing,
        done: counts.done,
        failed_status: counts.failed,
        succeeded,
        failed,
        timed_out,
        unreachable,
        lost,
        undone,
        untested,
        excluded,
        undoing: counts.undoing,
    }
}

pub fn part_below(below: PartBelow) -> api::PartBelow {
    let PartBelow { path, state, reason, waits_for, agents, unheard } = below;
    let is_heard = unheard.is_none();
    api::PartBelow {
        manager: path,
        state: is_heard.then_some(state),
        reason: unheard.or(reason),
        waits_for,
        agents: is_heard.then(|| self::agents(agents)),
    }
}

pub fn agents(agents: Agents) -> api::AgentCounts {
    let Agents { participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed } = agents;
    api::AgentCounts { participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed }
}

/// In what comes from above, the types of stages say after which of them the parent holds a barrier; agents wait for
/// this one's signal in all of them.
fn stages(strategy: &Strategy, from_above: bool) -> Vec<api::StageOverview> {
    strategy
        .stages
        .iter()
        .map(|stage| api::StageOverview {
            name: stage.name.clone(),
            skipped: false,
            failed: false,
            kind: match stage.kind {
                StageKind::AB if !stage.shares.is_empty() => "Traffic".to_owned(),
                StageKind::AB if !from_above => "A/B".to_owned(),
                StageKind::AB | StageKind::WaitForSignal => "WaitForSignal".to_owned(),
            },
            function: strategy.subject_key(stage.subject).unwrap_or_default().to_owned(),
            new_traffic: stage.new_traffic,
            min_calls: stage.min_calls,
            min_ms: stage.min_duration.as_millis() as u64,
            on_success: follows(strategy, stage.on_success),
            on_failure: follows(strategy, stage.on_failure),
            began: None,
            ended: None,
            measured: None,
            shares: shares(strategy, stage),
            children: BTreeMap::new(),
            agents_below: BTreeMap::new(),
            waits_for: None,
        })
        .collect()
}

/// What follows a stage, as strategies write it.
fn follows(strategy: &Strategy, action: Action) -> String {
    match action {
        Action::Rollout => "rollout".to_owned(),
        Action::Rollback => "rollback".to_owned(),
        Action::Stage(next) => strategy.stages.get(next).map_or_else(String::new, |stage| stage.name.clone()),
    }
}

/// What each variation gets, in percent; nothing of a function.
fn shares(strategy: &Strategy, stage: &Stage) -> BTreeMap<String, f64> {
    let Some(Subject::Service(service)) = strategy.subject(stage.subject) else { return BTreeMap::new() };
    let all = service.variations.iter().zip(&stage.shares);
    all.map(|(variation, share)| (variation.name.to_string(), ab_releases::percent(*share))).collect()
}

fn mark_skipped(stages: &mut [api::StageOverview], facts: &[Dated]) {
    for dated in facts {
        if let ReleaseEvent::StageSkipped { stage, .. } = dated.fact
            && let Some(stage) = stages.get_mut(usize::from(stage))
        {
            stage.skipped = true;
        }
    }
}

/// Of the last wave that was timed in each stage.
fn mark_times(stages: &mut [api::StageOverview], times: &[Timed]) {
    let mut times: Vec<&Timed> = times.iter().collect();
    times.sort_by_key(|timed| timed.number);
    for timed in times {
        if let Some(stage) = timed.stage.and_then(|stage| stages.get_mut(usize::from(stage))) {
            (stage.began, stage.ended) = (Some(rfc3339(timed.began_ms)), timed.ended_ms.map(rfc3339));
        }
    }
}

fn mark_failed(stages: &mut [api::StageOverview], strategy: &Strategy, failed: StageSet, runs: &[Run]) {
    for (at, (stage, analysis)) in strategy.analyses().enumerate() {
        let run = runs.iter().find(|run| usize::from(run.block) == at);
        if let Some(stage) = stage.and_then(|stage| stages.get_mut(stage)) {
            stage.failed = run.is_some_and(|run| run.has_failed(analysis));
        }
    }
    for (at, stage) in (0..).zip(stages) {
        stage.failed |= failed.contains(at);
    }
}
