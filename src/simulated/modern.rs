//! A child that uses what the protocol allows beside the reference: name, kind and capabilities at a poll, counts,
//! errors of the base version and the times of calls in results, an id that survives restarts, results that are sent again
//! until they are answered, reports of a stage while it goes on, jumps that are followed, `then: rollback` at the end of a stage, and long polls.
//!
//! It never exits by itself: what fails is tried again at the next poll. A manager that knows nothing of long polls
//! answers at once; then it is asked as often as a deployed agent would ask.

use std::{borrow::Cow, time::Duration};

use tokio::time::Instant;

use super::{
    calls::{StageCalls, Tally},
    child::{ProcessEnd, Reads, SimulatedChild, hold, summary},
    interim::Reporter,
    machine::Role,
    offer::{NextAction, Offer, OfferStage, StageKind},
    report::Phase,
};
use analysis::{Assignment, Values};
use model::{FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_VALUES, StageStatus};
use wire::{Capabilities, ChildKind, HistogramForm, PollRequest, StageSummary, StratumForm, Then as Signal};

/// Between two questions for the end of a stage, and between two tries to send a result.
const TICK: Duration = Duration::from_secs(1);

/// How often a result is sent before it is given up.
const RESULT_TRIES: u32 = 60;

/// Most stages run of one offer: a graph that loops ends here.
const MAX_STAGES_RUN: usize = 256;

/// Runs the child until it dies.
pub async fn run(mut child: SimulatedChild<'_>) -> ProcessEnd {
    child.id = child.machine.saved_id.clone().unwrap_or_default();
    loop {
        let asked = Instant::now();
        if let Err(end) = poll_once(&mut child).await {
            return end;
        }
        // A poll that waited was pause enough, and so was a release.
        let waits = !child.config.wait.is_zero();
        let paused = if waits { child.config.of_child(asked.elapsed()) } else { Duration::ZERO };
        child.pause(child.config.poll.saturating_sub(paused)).await;
    }
}

async fn poll_once(child: &mut SimulatedChild<'_>) -> Result<(), ProcessEnd> {
    let (id, area) = (child.id.clone(), child.machine.area.clone());
    let runtimes = &child.config.runtimes;
    let request = PollRequest {
        geographic_area: Some(&area),
        id: Some(id.into()),
        number_of_children: 0,
        name: Some(Cow::Owned(format!("simulated-{}", child.index))),
        kind: Some(ChildKind::Agent),
        capabilities: Some(Capabilities {
            runtimes: (!runtimes.is_empty()).then(|| runtimes.clone()),
            labels: child.config.labels.clone(),
            features: [FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS].map(str::to_owned).into(),
            ..Capabilities::default()
        }),
        ..PollRequest::default()
    };
    let target = child.config.waiting("/poll");
    let Some((id, release)) = child.poll(&target, &request).await? else { return Ok(()) };
    child.machine.saved_id = Some(id.clone());
    child.called(id);
    if !release.is_empty() {
        child.phase(Phase::Running);
        run_offer(child, &release).await?;
        child.offer_over();
    }
    Ok(())
}

async fn run_offer(child: &mut SimulatedChild<'_>, release: &str) -> Result<(), ProcessEnd> {
    let target = format!("/release?childID={}&releaseID={release}", child.id);
    let Ok(yaml) = child.get_ok(&target).await? else { return Ok(()) };
    let Ok(offer) = Offer::read(&String::from_utf8_lossy(&yaml)) else { return Ok(()) };
    let target = format!("/release/functions/{}?childID={}", offer.id, child.id);
    let Ok(archive) = child.get_ok(&target).await? else { return Ok(()) };
    if child.machine.unpack(&archive).is_err() {
        return Ok(());
    }
    child.pause(child.config.setup).await;
    let ready = child.machine.set_up(&offer.functions);
    let mut next = offer.stages.first();
    for _ in 0..MAX_STAGES_RUN {
        let Some(stage) = next else { return Ok(()) };
        if !ready {
            return report(child, &offer, unable(stage), "").await;
        }
        next = run_stage(child, &offer, stage).await?;
    }
    Ok(())
}

/// The stage could not be run at all.
fn unable(stage: &OfferStage) -> StageSummary {
    StageSummary { stage_name: Some(stage.name.clone()), ..StageSummary::without_calls(StageStatus::Error) }
}

/// Runs a stage; the one that follows it.
async fn run_stage<'o>(
    child: &mut SimulatedChild<'_>,
    offer: &'o Offer,
    stage: &OfferStage,
) -> Result<Option<&'o OfferStage>, ProcessEnd> {
    let function = offer.functions.iter().find(|function| function.name == stage.function);
    let (Some(function), Some(kind), Some(minima)) = (function, stage.kind(), stage.minima()) else {
        report(child, offer, unable(stage), "").await?;
        return Ok(None);
    };
    let (clock, session) = (child.config.clock, child.config.session_calls);
    let mut calls = child.calls(stage, function, function).timed_by(clock).in_sessions(session, clock);
    child.machine.start_proxy(function);
    let mut reporter = Reporter::of(stage);
    if reporter.is_some() {
        // Until the manager's time is known.
        calls.enter(0);
    }
    let mut told_to_roll_back = false;
    let mut announced = false;
    // Of the child's time, in the last question.
    let mut waited = Duration::ZERO;
    loop {
        let mut pause = TICK.saturating_sub(waited);
        if let Some(reporter) = &mut reporter {
            reporter.turn(child, offer, stage, &mut calls).await?;
            pause = pause.min(child.config.of_child(reporter.wait()));
        }
        child.pass(pause, &mut calls).await;
        let met = calls.elapsed >= minima.duration && calls.calls() >= minima.calls;
        if met && (kind == StageKind::AB || !hold(stage, &calls)) {
            break;
        }
        if kind == StageKind::WaitForSignal {
            if met && !announced {
                announced = true;
                let waiting = full_summary(stage, &calls, StageStatus::SuccessWaiting, child.reads);
                report(child, offer, waiting, stage.on_success.as_written()).await?;
            }
            // Before it has announced itself there is something to look after every second.
            let waits = announced && !child.config.wait.is_zero();
            let longest = reporter.as_ref().map_or(Duration::MAX, Reporter::wait);
            let target = if waits {
                child.config.waiting_at_most("/end_stage", longest)
            } else {
                "/end_stage".to_owned()
            };
            let asked = Instant::now();
            let answer = child.ask_end(&target, offer, stage).await?;
            waited = if waits { child.config.of_child(asked.elapsed()) } else { Duration::ZERO };
            child.went_on(waited, &mut calls);
            if answer.end_stage {
                told_to_roll_back = answer.then == Some(Signal::Rollback);
                break;
            }
        }
    }
    let (status, action) = if hold(stage, &calls) {
        (StageStatus::Completed, &stage.on_success)
    } else {
        (StageStatus::Failure, &stage.on_failure)
    };
    let action = if told_to_roll_back { &NextAction::Rollback } else { action };
    match action {
        NextAction::Rollout => child.settle(function, Role::New).await,
        NextAction::Rollback => child.settle(function, Role::Base).await,
        NextAction::Stage(_) => {}
    }
    let next = if let NextAction::Stage(name) = action { name } else { "" };
    let summary = full_summary(stage, &calls, status, child.reads);
    report(child, offer, summary, next).await?;
    Ok(offer.stages.iter().find(|stage| stage.name == next))
}

/// Everything a newer child can say to a manager that reads so much.
pub(super) fn full_summary(
    stage: &OfferStage,
    calls: &StageCalls,
    status: StageStatus,
    reads: Reads,
) -> StageSummary {
    let exactly = reads.values;
    let (f1_values, f1_histogram) = times(&calls.base, exactly);
    let (f2_values, f2_histogram) = times(&calls.new, exactly);
    let strata = match calls.sessions() {
        None => calls.parts().map(|(interval, sides)| stratum(interval, sides, exactly)).collect(),
        Some(sessions) if reads.groups => sessions.strata(exactly),
        Some(_) => Vec::new(),
    };
    let whole = StageSummary {
        f1_err_rate: calls.base.error_rate(),
        f1_calls: Some(calls.base.calls),
        f2_calls: Some(calls.new.calls),
        f1_errors: Some(calls.base.errors),
        f2_errors: Some(calls.new.errors),
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        strata,
        ..summary(stage, calls, status)
    };
    if calls.sessions().is_some() { of_sessions(whole, reads) } else { whole }
}

/// Of calls that depend on each other. Who doesn't read groups would compare them as independent ones: it is told how many there
/// were, and how the new version did by itself.
fn of_sessions(whole: StageSummary, reads: Reads) -> StageSummary {
    if reads.groups {
        return StageSummary { assignment: Some(Assignment::User), ..whole };
    }
    StageSummary { f1_errors: None, f1_histogram: None, f1_values: None, ..whole }
}

fn stratum(interval: u32, sides: [&Tally; 2], exactly: bool) -> StratumForm {
    let counted = sides.map(|side| [side.calls, side.errors]);
    StratumForm { interval, ..of_both(counted, sides.map(|side| times(side, exactly))) }
}

/// Times of successful calls, exactly or as a histogram.
pub(super) type TimesTold = (Option<Box<Values>>, Option<HistogramForm>);

/// Of base and new version: calls and errors, and the times of the others.
pub(super) fn of_both(
    [[f1_calls, f1_errors], [f2_calls, f2_errors]]: [[u64; 2]; 2],
    [(f1_values, f1_histogram), (f2_values, f2_histogram)]: [TimesTold; 2],
) -> StratumForm {
    StratumForm {
        f1_calls: Some(f1_calls),
        f2_calls: Some(f2_calls),
        f1_errors: Some(f1_errors),
        f2_errors: Some(f2_errors),
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        ..StratumForm::default()
    }
}

/// The times of successful calls in the one form that the manager reads.
fn times(tally: &Tally, exactly: bool) -> TimesTold {
    if exactly { (tally.values().cloned().map(Box::new), None) } else { (None, tally.histogram()) }
}

/// Sends a result until the manager says yes or no to it.
async fn report(
    child: &mut SimulatedChild<'_>,
    offer: &Offer,
    summary: StageSummary,
    next: &str,
) -> Result<(), ProcessEnd> {
    for _ in 0..RESULT_TRIES {
        match child.report(offer, summary.clone(), next).await? {
            Some(status) if status.is_success() || status.is_client_error() => return Ok(()),
            _ => child.pause(TICK).await,
        }
    }
    Ok(())
}
