//! A child that uses what the protocol allows beside the reference: name, kind and capabilities at a poll, counts,
//! errors of the base version and the times of calls in results, an id that survives restarts, results that are sent again
//! until they are answered, reports of a stage while it goes on, jumps that are followed, `then: rollback` at the end of a stage, and long polls.
//!
//! It never exits by itself: what fails is tried again at the next poll. A manager that knows nothing of long polls
//! answers at once; then it is asked as often as a deployed agent would ask.

use std::{borrow::Cow, time::Duration};

use tokio::time::Instant;

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    interim::Reporter,
    machine::Role,
    offer::{Minima, NextAction, Offer, OfferStage, StageKind},
    report::Phase,
    summary::{conditions_hold, full_summary, summary_of_none},
};
use model::{FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_VALUES, StageStatus};
use wire::{Capabilities, ChildKind, EndStageAnswer, Leads, PollRequest, StageSummary, Then as Signal};

/// Between two questions for the end of a stage, and between two tries to send a result.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// How often a result is sent before it is given up.
const RESULT_TRIES: u32 = 60;

/// Most stages run of one offer: a graph that loops ends here.
pub(super) const MAX_STAGES_RUN: usize = 256;

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
    let request = PollRequest {
        geographic_area: Some(&area),
        id: Some(id.into()),
        number_of_children: 0,
        name: Some(name(child)),
        kind: Some(ChildKind::Agent),
        capabilities: Some(capabilities(child, Leads::Stepwise)),
        ..PollRequest::default()
    };
    let target = child.config.waiting("/poll");
    let Some((id, release)) = child.poll(&target, &request).await? else { return Ok(()) };
    child.machine.saved_id = Some(id.clone());
    child.keep_id(id);
    if !release.is_empty() {
        child.phase(Phase::Running);
        run_offer(child, &release).await?;
        child.offer_over();
    }
    Ok(())
}

pub(super) fn name(child: &SimulatedChild<'_>) -> Cow<'static, str> {
    Cow::Owned(format!("simulated-{}", child.index))
}

pub(super) fn capabilities(child: &SimulatedChild<'_>, leads: Leads) -> Capabilities {
    let runtimes = &child.config.runtimes;
    Capabilities {
        runtimes: (!runtimes.is_empty()).then(|| runtimes.clone()),
        labels: child.config.labels.clone(),
        features: [FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS].map(str::to_owned).into(),
        leads,
        ..Capabilities::default()
    }
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
            return report(child, &offer, summary_of_none(stage), "").await;
        }
        next = run_stage(child, &offer, stage).await?;
    }
    Ok(())
}

/// Runs a stage; the one that follows it.
async fn run_stage<'o>(
    child: &mut SimulatedChild<'_>,
    offer: &'o Offer,
    stage: &OfferStage,
) -> Result<Option<&'o OfferStage>, ProcessEnd> {
    let function = offer.functions.iter().find(|function| function.name == stage.function);
    let (Some(function), Some(kind), Some(minima)) = (function, stage.kind(), stage.minima()) else {
        report(child, offer, summary_of_none(stage), "").await?;
        return Ok(None);
    };
    let (clock, session) = (child.config.clock, child.config.session_calls);
    let mut calls = child.calls(stage, function, function).timed_by(clock).in_sessions(session, clock);
    child.machine.start_proxy(function);
    let reporter = Reporter::for_stage(stage);
    if reporter.is_some() {
        // Until the manager's time is known.
        calls.enter(0);
    }
    let running = Running { child, offer, stage, minima, reporter };
    let told_to_roll_back = running.until_its_end(kind, &mut calls).await?;
    let (status, action) = if conditions_hold(stage, &calls) {
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

/// A stage while it is tested.
struct Running<'r, 'c> {
    child: &'r mut SimulatedChild<'c>,
    offer: &'r Offer,
    stage: &'r OfferStage,
    minima: Minima,
    reporter: Option<Reporter>,
}

impl Running<'_, '_> {
    /// Lets calls happen until the stage ends; true: the manager wants it rolled back.
    async fn until_its_end(mut self, kind: StageKind, calls: &mut StageCalls) -> Result<bool, ProcessEnd> {
        let mut announced = false;
        // Of the child's time, in the last question.
        let mut waited = Duration::ZERO;
        loop {
            let mut pause = TICK.saturating_sub(waited);
            if let Some(reporter) = &mut self.reporter {
                reporter.report_if_due(self.child, self.offer, self.stage, calls).await?;
                pause = pause.min(self.child.config.of_child(reporter.wait()));
            }
            self.child.wait_with_calls(pause, calls).await;
            let met = calls.elapsed >= self.minima.duration && calls.calls() >= self.minima.calls;
            if met && (kind == StageKind::AB || !conditions_hold(self.stage, calls)) {
                return Ok(false);
            }
            match kind {
                StageKind::AB => {}
                StageKind::WaitForSignal => {
                    if met && !announced {
                        announced = true;
                        self.announce(calls).await?;
                    }
                    let answer = self.ask_for_the_end(announced, &mut waited, calls).await?;
                    if answer.end_stage {
                        return Ok(answer.then == Some(Signal::Rollback));
                    }
                }
            }
        }
    }

    /// Says that the stage has all it needs and waits for the signal.
    async fn announce(&mut self, calls: &StageCalls) -> Result<(), ProcessEnd> {
        let waiting = full_summary(self.stage, calls, StageStatus::SuccessWaiting, self.child.reads);
        report(self.child, self.offer, waiting, self.stage.on_success.as_written()).await
    }

    /// Asks whether the stage is to end; `waited` is how much of the child's time the answer took.
    async fn ask_for_the_end(
        &mut self,
        announced: bool,
        waited: &mut Duration,
        calls: &mut StageCalls,
    ) -> Result<EndStageAnswer, ProcessEnd> {
        // Before it has announced itself there is something to look after every second.
        let waits = announced && !self.child.config.wait.is_zero();
        let longest = self.reporter.as_ref().map_or(Duration::MAX, Reporter::wait);
        let target = if waits {
            self.child.config.waiting_at_most("/end_stage", longest)
        } else {
            "/end_stage".to_owned()
        };
        let asked = Instant::now();
        let answer = self.child.ask_end(&target, self.offer, self.stage, &[]).await?;
        *waited = if waits { self.child.config.of_child(asked.elapsed()) } else { Duration::ZERO };
        self.child.make_calls_of(*waited, calls);
        Ok(answer)
    }
}

/// Sends a result until the manager says yes or no to it.
pub(super) async fn report(
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
