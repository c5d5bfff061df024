//! What follows by itself: runs begin, and verdicts act.

use super::{
    change::Change,
    run::{Extended, Metered, Run, RunStatus, ms},
    verdict::{WEIGHT_OF_ERROR, name, weight},
};
use crate::release::{
    assignment::StepIndex,
    change::Change as StateChange,
    ending::{Cause, Ending},
    first_failure::Place,
    lifecycle::{self, roll_back},
    members,
    pause::{OF_ANALYSIS, Pause, PausedBy},
    state::{End as ReleaseEnd, Release, State},
};
use ::analysis::Verdict;
use language::{
    OnLimit,
    analysis::{Analysis, Unclear},
};
use model::Now;

/// The runs that begin now.
pub(in crate::release) fn begin(release: &Release, changes: &[&StateChange], now: Now) -> Vec<StateChange> {
    if release.strategy.rollout.is_none() || !release.state.is_going() {
        return Vec::new();
    }
    let mut begun = Vec::new();
    for (block, (stage, analysis)) in release.strategy.analyses().enumerate() {
        let block = block as u8;
        let waves = release.gates.stand.waves;
        let (number, of) = match stage {
            None if analysis.duration.is_none() => (0, 1),
            None if release.is_global() => {
                (u32::from(release.gates.front()), u32::from(release.gates.levels.rollout()) + 1)
            }
            _ => (waves.saturating_sub(1), release.turns.waves()),
        };
        let last = release.run(block);
        if last.is_some_and(|run| run.number >= number) {
            continue;
        }
        let is_due = match stage {
            Some(stage) => changes.iter().any(|change| enters(release, change, stage)),
            None => release.counts.awaited > 0,
        };
        if is_due {
            // Those who join later don't make the parts of alpha smaller that were spent already.
            let of = last.map_or(of, |run| run.of);
            begun.push(StateChange::Analysis(Change::Began { release: release.key, block, number, of, now }));
        }
    }
    begun
}

/// Whether with this change a child is in a stage.
fn enters(release: &Release, change: &StateChange, stage: usize) -> bool {
    let StateChange::Members(members::Change::Stepped { release: of, child, .. }) = change else {
        return false;
    };
    let found = release.assignments.get(child).filter(|_| *of == release.key);
    found.is_some_and(|found| {
        found.fetched && !found.status.is_over() && found.slot.stage_index() == Some(stage)
    })
}

/// What a verdict that has not acted yet does.
pub(in crate::release) fn judge(state: &State, release: &Release, now: Now) -> Vec<StateChange> {
    if release.runs.is_empty() || !release.state.is_going() {
        return Vec::new();
    }
    let decided = release.runs.iter().find(|run| run.standing == RunStatus::Open && run.verdict.is_some());
    if let Some(run) = decided
        && let (Some((_, analysis)), Some(verdict)) = (release.block(run.block), run.verdict)
    {
        return act(state, release, run, verdict, weight(verdict, analysis).0, now);
    }
    let at = release.at(now);
    let is_late = |run: &&Run| release.overdue(run).is_some_and(|overdue| overdue <= at);
    let Some(run) = release.runs.iter().find(is_late) else { return Vec::new() };
    let late = Run { why: "it was not judged in time".to_owned(), ..run.clone() };
    act(state, release, &late, Verdict::Error, WEIGHT_OF_ERROR, now)
}

/// How a run goes on instead of ending with this verdict: as somebody has said already, or else, once, as the strategy does.
fn extension(analysis: &Analysis, run: &Run, verdict: Verdict) -> Option<Extended> {
    if !matches!(verdict, Verdict::Inconclusive | Verdict::NoData) {
        return None;
    }
    if let Some(said) = run.extended {
        let goes_on = said.begun.is_none() && run.metrics.iter().any(Metered::may_go_on);
        return goes_on.then_some(said);
    }
    let extend = analysis.extend?;
    let judged = analysis.metrics.iter().zip(&run.metrics).filter(|(metric, _)| !metric.dry_run);
    let mut undecided = judged.filter(|(_, found)| found.verdict == Some(Verdict::Inconclusive));
    let is_failed = verdict == Verdict::NoData && analysis.no_data == Unclear::Fail;
    let goes_on = !is_failed && undecided.any(|(_, found)| found.may_go_on());
    goes_on.then(|| Extended { for_ms: ms(extend.duration), calls: extend.calls, begun: None })
}

fn act(
    state: &State,
    release: &Release,
    run: &Run,
    verdict: Verdict,
    weight: u8,
    now: Now,
) -> Vec<StateChange> {
    if let Some(extended) = release.block(run.block).and_then(|(_, block)| extension(block, run, verdict)) {
        let (release, block) = (release.key, run.block);
        return vec![StateChange::Analysis(Change::Extended { release, block, extended, now })];
    }
    let on_failure = release.strategy.rollout.as_ref().map(|rollout| rollout.on_failure).unwrap_or_default();
    let standing = match (weight, on_failure) {
        (0 | 1, _) => RunStatus::Passed,
        (4.., OnLimit::Rollback) => RunStatus::Failed,
        (4.., OnLimit::Continue) => RunStatus::Accepted,
        (2 | 3, _) | (4.., OnLimit::Pause) => RunStatus::Paused,
    };
    let reason = format!("{OF_ANALYSIS}{}: {}: {}", release.block_name(run.block), name(verdict), run.why);
    let mut changes = vec![StateChange::Analysis(Change::VerdictGiven {
        release: release.key,
        block: run.block,
        verdict,
        why: run.why.clone(),
        standing,
        now,
    })];
    match standing {
        RunStatus::Failed => {
            let stage = release.block(run.block).and_then(|(stage, _)| stage).map(StepIndex::stage);
            let numbers = Some(run.why.clone());
            let ending = Ending { numbers, ..Ending::new(Cause::Analysis, reason) };
            let ending = match stage {
                Some(stage) => Place::of(&release.strategy, stage, None).ending(ending),
                None => ending,
            };
            changes.extend(roll_back(state, release, ending, ReleaseEnd::RolledBack, now));
        }
        RunStatus::Paused => {
            let pause = Pause::new(PausedBy::Analysis, reason);
            changes.push(StateChange::Lifecycle(lifecycle::Change::Paused {
                release: release.key,
                pause,
                now,
            }));
        }
        RunStatus::Open | RunStatus::Passed | RunStatus::Accepted => {}
    }
    changes
}
