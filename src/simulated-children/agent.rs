//! A deployed agent, as it was measured. The numbers in the comments are the points of this list:
//!
//! 1. One thread: it polls every few seconds and is silent while a stage is set up and runs. `A/B` says nothing
//!    until its result. `WaitForSignal` asks `/end_stage` after 5 s, then every second; once its minima are met and
//!    its conditions hold it sends `SuccessWaiting` every second until one is answered 200; after the signal it
//!    judges itself. If the conditions fail it sends `Failure` without waiting for a signal.
//! 2. It decides by itself, and acts on `onSuccess` or `onFailure` before it reports.
//! 3. It ignores jumps: it runs the next listed stage, also after a roll-back (then every call fails), or exits.
//! 4. It exits on any error at `/release` and `/release/functions` and on YAML it can't read.
//! 5. Missing calls pass its conditions: -1 is below every limit, 0 errors of 0 calls is 0. It never reports errors
//!    of the base version. Results other than `SuccessWaiting` are never sent again.
//! 6. An `A/B` stage with zero calls never ends, whatever its minimum.
//! 7. Two functions in one offer cross-wire its proxies. Unknown stage types and durations in days do nothing.
//! 8. Its id is in memory only: after a restart it comes back as a new child with the same area, and uses the
//!    versions left behind. When the answer to its first poll is lost, the id in it becomes a ghost.
//! 9. It unpacks fns.zip where it stands (see `machine`): a folder that is missing fails silently. It fetches
//!    functions by the `id` inside the YAML, and puts ids into URLs unescaped.

use std::time::Duration;

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    machine::Role,
    offer::{Function, Minima, NextAction, Offer, OfferStage, StageKind},
    report::{Exit, Phase},
    summary::{conditions_hold, plain_summary},
};
use model::StageStatus;
use protocol::PollRequest;

/// Before the first question for the end of a stage.
const FIRST_QUESTION_AFTER: Duration = Duration::from_secs(5);

/// Between two looks at a running stage.
const TICK: Duration = Duration::from_secs(1);

/// Runs the agent until it exits or dies.
pub async fn run(mut child: SimulatedChild<'_>) -> ProcessEnd {
    // 8. A new process: no id yet.
    let mut loses_answer = child.machine.ids.is_empty()
        && child.machine.restarts == 0
        && child.chance(child.config.faults.lose_first_answer);
    loop {
        match poll_once(&mut child, &mut loses_answer).await {
            Ok(()) => child.pause(child.config.poll).await,
            Err(end) => return end,
        }
    }
}

async fn poll_once(child: &mut SimulatedChild<'_>, loses_answer: &mut bool) -> Result<(), ProcessEnd> {
    let (id, area) = (child.id.clone(), child.machine.area.clone());
    let request = PollRequest { geographic_area: Some(&area), id: Some(id.into()), ..PollRequest::default() };
    let answer = child.poll("/poll", &request).await?;
    if std::mem::take(loses_answer) {
        // 8. The manager has answered, the agent doesn't know: its next poll asks for an id again.
        return Ok(());
    }
    let Some((id, release)) = answer else { return Ok(()) };
    child.keep_id(id);
    if !release.is_empty() {
        child.phase(Phase::Running);
        run_offer(child, &release).await?;
        child.offer_over();
    }
    Ok(())
}

async fn run_offer(child: &mut SimulatedChild<'_>, release: &str) -> Result<(), ProcessEnd> {
    // 4. and 9. Any error is the end; ids stand in the URL as they are.
    let target = format!("/release?childID={}&releaseID={release}", child.id);
    let yaml = child.get_ok(&target).await?.map_err(|why| ProcessEnd::Exit(Exit::Release(why)))?;
    let offer = Offer::read(&String::from_utf8_lossy(&yaml))
        .map_err(|error| ProcessEnd::Exit(Exit::Yaml(error.to_string())))?;
    // 9. The id is that of the YAML, not that of the poll.
    let archive = child.get_ok(&format!("/release/functions/{}", offer.id)).await?;
    let functions = |why| ProcessEnd::Exit(Exit::Functions(why));
    child.machine.unpack(&archive.map_err(functions)?).map_err(functions)?;
    child.pause(child.config.setup).await;
    if !child.machine.set_up(&offer.functions) {
        // 9. No result; it just polls again.
        return Ok(());
    }
    let mut rolled_back = false;
    // 3. The order of the file, wherever onSuccess and onFailure point.
    for stage in &offer.stages {
        if rolled_back && child.chance(child.config.faults.exit_after_rollback) {
            return Err(ProcessEnd::Exit(Exit::AfterRollback));
        }
        rolled_back |= run_stage(child, &offer, stage).await?;
    }
    Ok(())
}

/// Runs a stage; true if it ended in a roll-back.
async fn run_stage(
    child: &mut SimulatedChild<'_>,
    offer: &Offer,
    stage: &OfferStage,
) -> Result<bool, ProcessEnd> {
    let Some(at) = offer.functions.iter().position(|function| function.name == stage.function) else {
        return Err(ProcessEnd::Exit(Exit::UnknownFunction(stage.function.clone())));
    };
    // 7. Neither is an error, and neither does anything.
    let (Some(kind), Some(minima)) = (stage.kind(), stage.minima()) else { return Ok(false) };
    let function = &offer.functions[at];
    // 7. With several functions the proxy's second arm leads to another one's new version.
    let cross_wired = &offer.functions[(at + 1) % offer.functions.len()];
    let mut calls = child.calls(stage, function, cross_wired);
    let are_gone = [Role::Base, Role::New].map(|role| child.machine.version(&function.name, role).is_none());
    child.machine.start_proxy(function);
    match kind {
        StageKind::AB => until_minima(child, minima, &mut calls).await,
        StageKind::WaitForSignal => until_signal(child, offer, stage, minima, &mut calls).await?,
    }
    if are_gone == [true; 2] {
        child.machine.fail(calls.elapsed);
    }
    // 2. It judges and acts, then it reports.
    let good = conditions_hold(stage, &calls);
    let (status, action) = if good {
        (StageStatus::Completed, &stage.on_success)
    } else {
        (StageStatus::Failure, &stage.on_failure)
    };
    carry_out(child, function, action).await;
    let next = if let NextAction::Stage(name) = action { name } else { "" };
    // 5. Whatever the answer is, it is not sent again.
    child.report(offer, plain_summary(stage, &calls, status), next).await?;
    Ok(*action == NextAction::Rollback)
}

/// 1. and 6. Silent until the minima are met, and a stage without any call never gets there.
async fn until_minima(child: &mut SimulatedChild<'_>, minima: Minima, calls: &mut StageCalls) {
    while calls.calls() == 0 || !is_met(minima, calls) {
        child.wait_with_calls(TICK, calls).await;
    }
}

/// 1. Until the signal comes or, minima met, the conditions fail.
async fn until_signal(
    child: &mut SimulatedChild<'_>,
    offer: &Offer,
    stage: &OfferStage,
    minima: Minima,
    calls: &mut StageCalls,
) -> Result<(), ProcessEnd> {
    let mut announced = false;
    child.wait_with_calls(FIRST_QUESTION_AFTER, calls).await;
    loop {
        if !announced && is_met(minima, calls) {
            if !conditions_hold(stage, calls) {
                return Ok(());
            }
            let waiting = plain_summary(stage, calls, StageStatus::SuccessWaiting);
            let answer = child.report(offer, waiting, stage.on_success.as_written()).await?;
            announced = answer == Some(hyper::StatusCode::OK);
        }
        if child.ask_end("/end_stage", offer, stage, &[]).await?.end_stage {
            return Ok(());
        }
        child.wait_with_calls(TICK, calls).await;
    }
}

fn is_met(minima: Minima, calls: &StageCalls) -> bool {
    calls.elapsed >= minima.duration && calls.calls() >= minima.calls
}

async fn carry_out(child: &mut SimulatedChild<'_>, function: &Function, action: &NextAction) {
    match action {
        NextAction::Rollout => child.settle(function, Role::New).await,
        NextAction::Rollback => child.settle(function, Role::Base).await,
        NextAction::Stage(_) => {}
    }
}
