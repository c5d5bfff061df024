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
    modern::{MAX_STAGES_RUN, TICK, capabilities, name, report},
    offer::{Minima, NextAction, Offer, OfferStage, StageKind},
    report::Phase,
    summary::{conditions_hold, full_summary, summary_of_none},
};
use model::StageStatus;
use wire::{ChildKind, Leads, PollRequest, Then as Signal};

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
    let (id, area) = (child.id.clone(), child.machine.area.clone());
    let request = PollRequest {
        geographic_area: Some(&area),
        id: Some(id.into()),
        number_of_children: 0,
        name: Some(name(child)),
        kind: Some(ChildKind::Agent),
        capabilities: Some(capabilities(child, Leads::Whole)),
        ..PollRequest::default()
    };
    let target = child.config.waiting("/poll");
    let Some((id, offer)) = child.poll(&target, &request).await? else { return Ok(()) };
    child.machine.saved_id = Some(id.clone());
    child.keep_id(id);
    if offer.is_empty() {
        return Ok(());
    }
    let walk = Walk { offer, stage: None };
    child.machine.walk = Some(walk.clone());
    go_on(child, walk).await
}

/// Takes up what it has in hand, from its beginning or where it was.
async fn go_on(child: &mut SimulatedChild<'_>, walk: Walk) -> Result<(), ProcessEnd> {
    child.phase(Phase::Running);
    if let Some(offer) = fetch(child, &walk.offer).await? {
        run_offer(child, &offer, walk.stage.as_deref()).await?;
        child.machine.walk = None;
        child.offer_over();
    }
    Ok(())
}

/// The offer, with its functions unpacked; `None`: that failed, and is tried again.
async fn fetch(child: &mut SimulatedChild<'_>, id: &str) -> Result<Option<Offer>, ProcessEnd> {
    let target = format!("/release?childID={}&releaseID={id}", child.id);
    let Ok(yaml) = child.get_ok(&target).await? else { return Ok(None) };
    let Ok(offer) = Offer::read_whole(&String::from_utf8_lossy(&yaml)) else { return Ok(None) };
    let target = format!("/release/functions/{}?childID={}", offer.id, child.id);
    let Ok(archive) = child.get_ok(&target).await? else { return Ok(None) };
    Ok(child.machine.unpack(&archive).is_ok().then_some(offer))
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
            return report(child, offer, summary_of_none(stage), "").await;
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
    let next = if let NextAction::Stage(name) = action { name } else { "" };
    let summary = full_summary(stage, &calls, status, child.reads);
    report(child, offer, summary, next).await?;
    Ok(offer.stages.iter().find(|stage| stage.name == next))
}

fn is_met(minima: Minima, calls: &StageCalls) -> bool {
    calls.elapsed >= minima.duration && calls.calls() >= minima.calls
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
                let waiting = full_summary(self.stage, calls, StageStatus::SuccessWaiting, self.child.reads);
                report(self.child, self.offer, waiting, self.stage.on_success.as_written()).await?;
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
