//! What children do alike that use more than the reference: they poll with what they can do, fetch what they are offered, begin and
//! end a stage, and send a result until it is answered.

use std::{borrow::Cow, time::Duration};

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    interim::Reporter,
    offer::{Function, Minima, Offer, OfferError, OfferStage, StageKind},
    summary::{full_summary, summary_of_none},
};
use model::{FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_VALUES, StageStatus};
use protocol::{Capabilities, ChildKind, Leads, PollRequest, StageSummary};

/// Between two questions for the end of a stage, and between two tries to send a result.
pub const TICK: Duration = Duration::from_secs(1);

/// How often a result is sent before it is given up.
const RESULT_TRIES: u32 = 60;

/// Most stages run of one offer: a graph that loops ends here.
pub const MAX_STAGES_RUN: usize = 256;

/// Polls once, and keeps the id on disk; the offer, if there is one.
pub async fn poll(child: &mut SimulatedChild<'_>, leads: Leads) -> Result<Option<String>, ProcessEnd> {
    let (id, area) = (child.id.clone(), child.machine.area.clone());
    let request = PollRequest {
        geographic_area: Some(&area),
        id: Some(id.into()),
        number_of_children: 0,
        name: Some(Cow::Owned(format!("simulated-{}", child.index))),
        kind: Some(ChildKind::Agent),
        capabilities: Some(capabilities(child, leads)),
        ..PollRequest::default()
    };
    let target = child.config.waiting("/poll");
    let Some((id, offer)) = child.poll(&target, &request).await? else { return Ok(None) };
    child.machine.saved_id = Some(id.clone());
    child.keep_id(id);
    Ok((!offer.is_empty()).then_some(offer))
}

fn capabilities(child: &SimulatedChild<'_>, leads: Leads) -> Capabilities {
    let runtimes = &child.config.runtimes;
    Capabilities {
        runtimes: (!runtimes.is_empty()).then(|| runtimes.clone()),
        labels: child.config.labels.clone(),
        features: [FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS].map(str::to_owned).into(),
        leads,
        ..Capabilities::default()
    }
}

/// The offer, with its functions unpacked; `None`: that failed, and may be tried again.
pub async fn fetch(
    child: &mut SimulatedChild<'_>,
    id: &str,
    read: fn(&str) -> Result<Offer, OfferError>,
) -> Result<Option<Offer>, ProcessEnd> {
    let target = format!("/release?childID={}&releaseID={id}", child.id);
    let Ok(yaml) = child.get_ok(&target).await? else { return Ok(None) };
    let Ok(offer) = read(&String::from_utf8_lossy(&yaml)) else { return Ok(None) };
    let target = format!("/release/functions/{}?childID={}", offer.id, child.id);
    let Ok(archive) = child.get_ok(&target).await? else { return Ok(None) };
    Ok(child.machine.unpack(&archive).is_ok().then_some(offer))
}

/// A stage that has begun: its proxy runs and its calls happen.
#[derive(Debug)]
pub struct Begun<'o> {
    pub function: &'o Function,
    pub kind: StageKind,
    pub minima: Minima,
    pub calls: StageCalls,
    pub reporter: Option<Reporter>,
}

/// Begins a stage; `None`: it can't be tested, which is reported.
pub async fn begin<'o>(
    child: &mut SimulatedChild<'_>,
    offer: &'o Offer,
    stage: &OfferStage,
) -> Result<Option<Begun<'o>>, ProcessEnd> {
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
    Ok(Some(Begun { function, kind, minima, calls, reporter }))
}

/// Reports how a stage ended, and which one is `next`; that one.
pub async fn end<'o>(
    child: &mut SimulatedChild<'_>,
    offer: &'o Offer,
    stage: &OfferStage,
    (calls, status): (&StageCalls, StageStatus),
    next: &str,
) -> Result<Option<&'o OfferStage>, ProcessEnd> {
    let summary = full_summary(stage, calls, status, child.reads);
    report(child, offer, summary, next).await?;
    Ok(offer.stages.iter().find(|stage| stage.name == next))
}

/// Says that a stage has all it needs and waits for the signal.
pub async fn announce(
    child: &mut SimulatedChild<'_>,
    offer: &Offer,
    stage: &OfferStage,
    calls: &StageCalls,
) -> Result<(), ProcessEnd> {
    let waiting = full_summary(stage, calls, StageStatus::SuccessWaiting, child.reads);
    report(child, offer, waiting, stage.on_success.as_written()).await
}

/// Sends a result until the manager says yes or no to it.
pub async fn report(
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

/// Whether a stage has the time and the calls that it needs.
pub fn is_met(minima: Minima, calls: &StageCalls) -> bool {
    calls.elapsed >= minima.duration && calls.calls() >= minima.calls
}
