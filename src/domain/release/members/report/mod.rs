//! `POST /result`: what a child reports of its stages, and what follows for it.
//!
//! A summary is read (`read`): which stage of which offer it is about. Then it ends the stage that the child has in hand
//! (`ended`), says how far it is, is about an undo (`undo`), about the agents of a manager (`below`), or comes too late
//! (`late`), or says what an operator of the agent did (`replaced`). What it proves of the version that runs is in `shows`.

mod agents_below;
mod ended;
mod failed_stage;
mod late;
mod read;
mod replaced;
mod rollback;
mod version_evidence;

pub(super) use read::find_slot;

use std::sync::Arc;

use super::call::Call;
use crate::release::{
    assignment::Step,
    change::Change,
    command::{Decision, Refusal, Reply},
    decide::draft::Walk,
    lifecycle, members,
    offer::{OfferKind, OfferName},
    pause::{Pause, PausedBy},
    state::State,
    summary::{Received, Summary},
};
use agents_below::{count, recount};
use ended::ended;
use failed_stage::keep;
use late::{Late, past, skipped};
use model::{Now, StageStatus};
use read::Report;
use replaced::{replaced, replaced_after_undo};
use rollback::undo;

pub(in crate::release) fn decide(
    state: &State,
    child: &str,
    offer: &str,
    reports: &[Arc<Received>],
    now: Now,
) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(why) => return why.into(),
    };
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else {
        let (child, offer) = (child.to_owned(), offer.to_owned());
        return Decision::refused(Refusal::NeverOffered { child, offer });
    };
    walk.reinstate();
    let kept_even_if_refused = walk.changes.len();
    let mut late = Late::new(now);
    for received in reports {
        let taken = match call.name.kind {
            OfferKind::Undo(_) if replaced_after_undo(&mut walk, &received.summary) => Ok(()),
            OfferKind::Undo(number) => undo(&mut walk, number, offer, &received.summary, now),
            OfferKind::First | OfferKind::Stage(_) | OfferKind::Rollout(_) => {
                Report::read(&walk, call.name, offer, received)
                    .and_then(|report| work(&mut walk, &report, kept_even_if_refused, &mut late, now))
            }
        };
        if taken.is_ok() {
            obstacle(&mut walk, child, (call.name, &received.summary), now);
        }
        if let Err(refusal) = taken {
            // All or none of what counts; what came too late is kept whatever else the call says.
            walk.changes.truncate(kept_even_if_refused);
            walk.changes.append(&mut late.changes);
            return Decision { changes: walk.changes, answer: Err(refusal.into()) };
        }
    }
    let answer = if late.is_refused {
        Err(Refusal::Late { offer: offer.to_owned() }.into())
    } else {
        Ok(Reply::Stored)
    };
    walk.changes.append(&mut late.changes);
    Decision { changes: walk.changes, answer }
}

/// Whether an agent that leads the whole release says of a stage that goes on that it met something that a person has to look at.
fn is_obstacle(walk: &Walk<'_>, summary: &Summary) -> bool {
    let goes_on = matches!(summary.status, StageStatus::InProgress | StageStatus::SuccessWaiting);
    goes_on && summary.why.is_some() && !summary.is_kept() && walk.assignment.is_in_place()
}

/// Pauses the release for what an agent met, with its words.
fn obstacle(walk: &mut Walk<'_>, child: &str, (name, summary): (OfferName, &Summary), now: Now) {
    let is_current = name == walk.assignment.offer_name() && !walk.assignment.status.is_over();
    let Some(why) = summary.why.as_ref().filter(|_| is_current && is_obstacle(walk, summary)) else { return };
    if walk.release.state.is_going() {
        let pause = Pause::new(PausedBy::Agent, format!("{child}: {}", why.text));
        let release = walk.release.key;
        walk.changes.push(Change::Lifecycle(lifecycle::Change::Paused { release, pause, now }));
    }
}

fn work(
    walk: &mut Walk<'_>,
    report: &Report<'_>,
    changes_before: usize,
    late: &mut Late,
    now: Now,
) -> Result<(), Refusal> {
    if let Some(number) = report.summary().recount {
        recount(walk, report, number);
        return Ok(());
    }
    if replaced(walk, report) {
        return Ok(());
    }
    let is_current = report.name == walk.assignment.offer_name();
    if !is_current || walk.assignment.status.is_over() {
        return past(walk, report, changes_before, late);
    }
    if !walk.assignment.fetched {
        return Err(report.not_started(walk.strategy()));
    }
    if let Some(mark) = walk.assignment.mark(report.slot) {
        return report.beside(mark.digest, walk.strategy());
    }
    if report.summary().status == StageStatus::InProgress {
        return under_way(walk, report);
    }
    if report.slot != walk.assignment.slot {
        return skipped(walk, report, changes_before, late);
    }
    if let Some(agents) = report.summary().agents {
        count(walk, agents);
    }
    if report.summary().is_kept() && report.waits() && walk.assignment.stepwise().is_none() {
        keep(walk, report, now)?;
    } else if report.waits() {
        wait(walk, report);
    } else {
        ended(walk, report, now);
    }
    Ok(())
}

/// What a child has measured so far of the stage that it has in hand. It refreshes its numbers and changes nothing else.
fn under_way(walk: &mut Walk<'_>, report: &Report<'_>) -> Result<(), Refusal> {
    let (assignment, slot) = (&walk.assignment, report.slot);
    if slot != assignment.slot {
        return Err(report.not_started(walk.strategy()));
    }
    // A roll-out measures nothing.
    if slot.stage_index().is_none() {
        return Ok(());
    }
    // Who is ready to end it stays so.
    let waits = assignment.stage_status >= StageStatus::SuccessWaiting;
    let status = if waits { StageStatus::SuccessWaiting } else { StageStatus::InProgress };
    let summary = Box::new(report.keep());
    let (release, child) = (walk.release.key, walk.child);
    walk.changes.push(Change::Members(members::Change::Numbers { release, child, slot, status, summary }));
    Ok(())
}

/// It waited already: its numbers are refreshed.
fn waits_on(walk: &mut Walk<'_>, report: &Report<'_>) {
    let (release, child, slot) = (walk.release.key, walk.child, report.slot);
    let (status, summary) = (StageStatus::SuccessWaiting, Box::new(report.keep()));
    walk.changes.push(Change::Members(members::Change::Numbers { release, child, slot, status, summary }));
}

fn wait(walk: &mut Walk<'_>, report: &Report<'_>) {
    let slot = report.slot;
    if walk.assignment.stage_status >= StageStatus::SuccessWaiting {
        return waits_on(walk, report);
    }
    walk.step_with(Step::Waiting { slot }, Some(report.keep()));
    if is_obstacle(walk, report.summary()) {
        return;
    }
    if walk.release.is_running() && walk.release.gates.may_end(slot) {
        walk.step(Step::Signalled);
    }
}
