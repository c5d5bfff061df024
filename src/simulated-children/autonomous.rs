//! A child that takes the whole strategy in one offer and walks through it by itself, as one's own agents do: the versions of all
//! functions are set up once, shares change in place, and the base version answers alone only where that is ordered.
//!
//! - It always has a call open that waits: `/end_stage` in a stage of either type, else `/poll`.
//! - A stage of type `A/B` it ends by itself. In one that waits for the signal it announces itself when it has all it needs, or
//!   its stage is skipped, and judges itself when it may end.
//! - An idle stage that it is told to end was tested by nobody: that is a failure without calls, and it goes back.
//! - `then: rollback` takes everything back at once.
//! - What it has in hand and how far it is it keeps on disk: after a restart it goes on with that stage.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    interim::Reporter,
    machine::{Role, Walk},
    offer::{Minima, NextAction, Offer, OfferStage, StageKind},
    offered::{self, Begun, MAX_STAGES_RUN, TICK, is_met},
    report::Phase,
    summary::{conditions_hold, summary_of_none},
};
use model::StageStatus;
use protocol::{FollowUp as Signal, Leads};

/// Runs the child until it dies.
pub async fn run(mut child: SimulatedChild<'_>) -> ProcessEnd {
    child.id = child.machine.saved_id.clone().unwrap_or_default();
    loop {
        let asked = Instant::now();
        let went = match child.machine.walk.clone() {
            Some(walk) => go_on(&mut child, walk).await,
            None => poll_once(&mut child).await,
        };
        if let Err(end) = went {
            return end;
        }
        // A poll that waited was pause enough, and so was a release.
        let passed = child.config.of_child(asked.elapsed());
        child.pause(child.config.poll.saturating_sub(passed)).await;
    }
}

async fn poll_once(child: &mut SimulatedChild<'_>) -> Result<(), ProcessEnd> {
    let Some(offer) = offered::poll(child, Leads::Whole).await? else { return Ok(()) };
    let walk = Walk { offer, stage: None };
    child.machine.walk = Some(walk.clone());
    go_on(child, walk).await
}

/// Takes up what it has in hand, from its beginning or where it was.
async fn go_on(child: &mut SimulatedChild<'_>, walk: Walk) -> Result<(), ProcessEnd> {
    child.phase(Phase::Running);
    if let Some(offer) = offered::fetch(child, &walk.offer, Offer::read_whole).await? {
        run_offer(child, &offer, walk.stage.as_deref()).await?;
        child.machine.walk = None;
        child.offer_over();
    }
    Ok(())
}

async fn run_offer(
    child: &mut SimulatedChild<'_>,
    offer: &Offer,
    from: Option<&str>,
) -> Result<(), ProcessEnd> {
    child.pause(child.config.setup).await;
    let ready = child.machine.set_up(&offer.functions);
    let mut skipped = Vec::new();
    let named = from.and_then(|from| offer.stages.iter().find(|stage| stage.name == from));
    let mut next = named.or(offer.stages.first());
    for _ in 0..MAX_STAGES_RUN {
        let Some(stage) = next else { return Ok(()) };
        let (id, name) = (offer.id.clone(), stage.name.clone());
        child.machine.walk = Some(Walk { offer: id, stage: Some(name) });
        if !ready {
            return offered::report(child, offer, summary_of_none(stage), "").await;
        }
        next = run_stage(child, offer, stage, &mut skipped).await?;
    }
    Ok(())
}

/// Runs a stage; the one that follows it.
async fn run_stage<'o>(
    child: &mut SimulatedChild<'_>,
    offer: &'o Offer,
    stage: &OfferStage,
    skipped: &mut Vec<String>,
) -> Result<Option<&'o OfferStage>, ProcessEnd> {
    let Some(begun) = offered::begin(child, offer, stage).await? else { return Ok(None) };
    let Begun { function: _, kind, minima, mut calls, reporter } = begun;
    let mut testing = Testing { child: &mut *child, offer, stage, kind, minima, reporter, skipped };
    let end = testing.until_its_end(&mut calls).await?;
    let is_tested = stage.new_traffic == 0 || calls.new.calls > 0;
    let is_skipped = skipped.contains(&stage.name) && !is_met(minima, &calls);
    let (status, action) = if is_skipped || (is_tested && conditions_hold(stage, &calls)) {
        (StageStatus::Completed, &stage.on_success)
    } else {
        (StageStatus::Failure, if is_tested { &stage.on_failure } else { &NextAction::Rollback })
    };
    let action = match end {
        End::InTime => action,
        End::TakenBack => &NextAction::Rollback,
    };
    let settled = match action {
        NextAction::Rollout => Some(Role::New),
        NextAction::Rollback => Some(Role::Base),
        NextAction::Stage(_) => None,
    };
    if let Some(role) = settled {
        for function in &offer.functions {
            child.settle(function, role).await;
        }
    }
    offered::end(child, offer, stage, (&calls, status), action.stage()).await
}

/// Why a stage has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    InTime,
    /// Everything is to be taken back.
    TakenBack,
}

/// A stage while it is tested.
struct Testing<'r, 'c> {
    child: &'r mut SimulatedChild<'c>,
    offer: &'r Offer,
    stage: &'r OfferStage,
    kind: StageKind,
    minima: Minima,
    reporter: Option<Reporter>,
    /// Of which it was told that they are passed over.
    skipped: &'r mut Vec<String>,
}

impl Testing<'_, '_> {
    /// Lets calls happen until the stage ends.
    async fn until_its_end(&mut self, calls: &mut StageCalls) -> Result<End, ProcessEnd> {
        let mut announced = false;
        loop {
            if let Some(reporter) = &mut self.reporter {
                reporter.report_if_due(self.child, self.offer, self.stage, calls).await?;
            }
            let is_skipped = self.skipped.contains(&self.stage.name);
            let is_ready = is_skipped || is_met(self.minima, calls);
            let failed = is_ready && !is_skipped && !conditions_hold(self.stage, calls);
            if is_ready && (self.kind == StageKind::AB || failed) {
                return Ok(End::InTime);
            }
            if is_ready && !announced {
                announced = true;
                offered::announce(self.child, self.offer, self.stage, calls).await?;
            }
            if let Some(end) = self.ask(announced, calls).await? {
                return Ok(end);
            }
        }
    }

    /// Asks whether the stage is to end, and lets the calls of meanwhile happen.
    async fn ask(&mut self, announced: bool, calls: &mut StageCalls) -> Result<Option<End>, ProcessEnd> {
        let config = self.child.config;
        let until_met = config.real(self.minima.duration.saturating_sub(calls.elapsed));
        // Calls that are still missing are looked after every second of the child's.
        let own = if announced { Duration::MAX } else { until_met.max(config.real(TICK)) };
        let longest = self.reporter.as_ref().map_or(own, |reporter| own.min(reporter.wait()));
        let target = config.waiting_at_most("/end_stage", longest);
        let asked = Instant::now();
        let answer = self.child.ask_end(&target, self.offer, self.stage, self.skipped).await?;
        let is_over = answer.end_stage;
        self.skipped.extend(answer.skip.into_iter().filter(|name| !name.is_empty()));
        self.skipped.sort_unstable();
        self.skipped.dedup();
        self.child.make_calls_of(self.child.config.of_child(asked.elapsed()), calls);
        if is_over {
            let is_back = answer.then == Some(Signal::Rollback);
            return Ok(Some(if is_back { End::TakenBack } else { End::InTime }));
        }
        // A manager that knows nothing of waiting answers at once.
        let rest = longest.min(config.real(TICK));
        let pause = self.child.config.of_child(rest.saturating_sub(asked.elapsed()));
        self.child.wait_with_calls(pause, calls).await;
        Ok(None)
    }
}
