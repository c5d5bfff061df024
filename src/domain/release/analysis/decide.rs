//! A look is taken in; and an analysis goes on after an end that decided nothing, because somebody says so.

use super::{
    change::Change as RunChange,
    command::Command,
    run::{Extended, InterimAnalysis, Run, RunStatus},
    verdict::{combined, is_passed_early},
};
use crate::release::{
    assignment::Assignment,
    change::Change,
    command::{Decision, NoReply, Reply},
    decide::checks::{find, held, wrong},
    lifecycle,
    pause::PausedBy,
    state::{Release, State},
};
use language::analysis::Analysis;
use model::Now;

/// Decides what is asked of an analysis.
pub(in crate::release) fn decide(state: &State, command: &Command, now: Now) -> Decision {
    match command {
        Command::Extend { release, for_ms, calls } => extend(state, release, *for_ms, *calls, now).into(),
        Command::Looked(look) => looked(state, look),
    }
}

fn extend(state: &State, id: &str, for_ms: u64, calls: Option<u64>, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    if release.parent.is_some() {
        return Err(held(release, "the analysis, which is judged where the release was planned".to_owned()));
    }
    let block = release.is_under_way().then(|| block(release)).flatten();
    let Some((block, standing)) = block else {
        return Err(wrong(
            release,
            "no analysis of it is open, or ended undecided with a part of its alpha kept",
        ));
    };
    let extended = Extended { for_ms, calls, begun: None };
    let mut changes = vec![
        Change::Analysis(RunChange::Extended { release: release.key, block, extended, now }),
        Change::Lifecycle(lifecycle::Change::ActedOn { release: release.key }),
    ];
    if standing == RunStatus::Paused && waits_for_verdict(release) {
        changes.push(Change::Lifecycle(lifecycle::Change::Resumed { release: release.key, now }));
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// Whether it is paused for an analysis, and for nothing else that somebody is to decide.
fn waits_for_verdict(release: &Release) -> bool {
    let is_paused = release.state.pause().is_some_and(|pause| pause.by == PausedBy::Analysis);
    is_paused && !release.assignments.values().any(Assignment::is_undecided)
}

/// The one that ended undecided, or else one that is open and will end.
fn block(release: &Release) -> Option<(u8, RunStatus)> {
    let undecided = release.runs.iter().find(|run| run.may_go_on());
    let open = || release.runs.iter().find(|run| release.may_be_extended(run));
    undecided.or_else(open).map(|run| (run.block, run.standing))
}

/// Takes a look in, if it is the one that is waited for.
fn looked(state: &State, look: &InterimAnalysis) -> Decision {
    let Some((release, analysis, run)) = awaited(state, look) else {
        return Decision::unchanged(Reply::Looked { counts: false });
    };
    let mut metrics = look.metrics.clone();
    // While somebody is still in the stage it is looked at: what would be gained by an end?
    let is_early = look.is_gathered && release.is_gathered(run) && is_passed_early(analysis, &look.metrics);
    if is_early {
        let all = analysis.metrics.iter().zip(&mut metrics);
        all.filter(|(_, found)| found.passes_early()).for_each(|(metric, found)| found.end_early(metric));
    }
    let verdict = combined(analysis, &metrics, is_early);
    let run = Run {
        looks: run.looks + 1,
        looked_ms: look.elapsed_ms,
        metrics,
        verdict: verdict.as_ref().map(|(verdict, _)| *verdict),
        why: verdict.map(|(_, why)| why).unwrap_or_default(),
        ..run.clone()
    };
    let change = Change::Analysis(RunChange::Looked { release: look.release, run: Box::new(run) });
    Decision::new(vec![change], Reply::Looked { counts: true })
}

/// What a look is at, if it is the one that is waited for.
fn awaited<'a>(state: &'a State, look: &InterimAnalysis) -> Option<(&'a Release, &'a Analysis, &'a Run)> {
    let release = state.release(look.release).filter(|release| release.state.is_going())?;
    let (_, analysis) = release.block(look.block)?;
    let run = release.run(look.block).filter(|run| run.is_open())?;
    let is_next = run.number == look.number && run.looks == look.after;
    (is_next && look.metrics.len() == analysis.metrics.len()).then_some((release, analysis, run))
}
