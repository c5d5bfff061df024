//! A child that uses what the protocol allows beside the reference: name, kind and capabilities at a poll, counts,
//! errors of the base version and the times of calls in results, an id that survives restarts, results that are sent again
//! until they are answered, reports of a stage while it goes on, jumps that are followed, `then: rollback` at the end of a stage, and long polls.
//!
//! It never exits by itself: what fails is tried again at the next poll. A manager that knows nothing of long polls
//! answers at once; then it is asked as often as a deployed agent would ask.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    interim::Reporter,
    machine::Role,
    offer::{Minima, NextAction, Offer, OfferStage, StageKind},
    offered::{self, Begun, MAX_STAGES_RUN, TICK, is_met},
    report::Phase,
    summary::{conditions_hold, summary_of_none},
};
use model::StageStatus;
use protocol::{EndStageAnswer, FollowUp as Signal, Leads};

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
    if let Some(release) = offered::poll(child, Leads::Stepwise).await? {
        child.phase(Phase::Running);
        run_offer(child, &release).await?;
        child.offer_over();
    }
    Ok(())
}

async fn run_offer(child: &mut SimulatedChild<'_>, release: &str) -> Result<(), ProcessEnd> {
    let Some(offer) = offered::fetch(child, release, Offer::read).await? else { return Ok(()) };
    child.pause(child.config.setup).await;
    let ready = child.machine.set_up(&offer.functions);
    let mut next = offer.stages.first();
    for _ in 0..MAX_STAGES_RUN {
        let Some(stage) = next else { return Ok(()) };
        if !ready {
            return offered::report(child, &offer, summary_of_none(stage), "").await;
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
    let Some(begun) = offered::begin(child, offer, stage).await? else { return Ok(None) };
    let Begun { function, kind, minima, mut calls, reporter } = begun;
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
    offered::end(child, offer, stage, (&calls, status), action.stage()).await
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
            let met = is_met(self.minima, calls);
            if met && (kind == StageKind::AB || !conditions_hold(self.stage, calls)) {
                return Ok(false);
            }
            match kind {
                StageKind::AB => {}
                StageKind::WaitForSignal => {
                    if met && !announced {
                        announced = true;
                        offered::announce(self.child, self.offer, self.stage, calls).await?;
                    }
                    let answer = self.ask_for_the_end(announced, &mut waited, calls).await?;
                    if answer.end_stage {
                        return Ok(answer.then == Some(Signal::Rollback));
                    }
                }
            }
        }
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
