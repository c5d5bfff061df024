//! No wait is without a deadline. Which one a child is under follows from where it stands.

use super::{
    assignment::Assignment,
    clock::ReleaseMs,
    gate::Gates,
    settings::{Deadlines, Member, MemberDeadlines},
};
use language::{NoCalls, Strategy};
use model::{ChildStatus, StageStatus};

/// What a child failed to do in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedDeadline {
    /// To fetch what it was offered.
    Offer,
    /// To give a sign of life after a download, an end signal or a result.
    SetUp,
    /// To end a stage.
    Stage,
    /// To get the calls that its stage needs.
    Calls,
    /// To confirm that it runs the base version again.
    Undo,
}

/// A deadline that holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub at: ReleaseMs,
    pub missed: MissedDeadline,
    /// Only silence counts: a call within this time before `at` moves the deadline on.
    pub silence_ms: Option<u64>,
}

/// The deadlines a member is under, in no order. An undo is one beside whatever else the child does.
pub fn of(
    member: Member<'_>,
    deadlines: Deadlines<'_>,
    strategy: &Strategy,
    gates: &Gates,
) -> impl Iterator<Item = Deadline> + use<> {
    let deadlines = deadlines.of_member(member);
    let main = main(member.part, deadlines, strategy, gates);
    undo(member.part, deadlines).into_iter().chain(main.into_iter().flatten())
}

/// The first of them; `MAX` if there is none.
pub fn soonest(
    member: Member<'_>,
    deadlines: Deadlines<'_>,
    strategy: &Strategy,
    gates: &Gates,
) -> ReleaseMs {
    of(member, deadlines, strategy, gates).map(|deadline| deadline.at).min().unwrap_or(ReleaseMs::MAX)
}

fn undo(assignment: &Assignment, deadlines: MemberDeadlines) -> Option<Deadline> {
    let undo = assignment.pending_undo().filter(|undo| !undo.overdue)?;
    // However often it is lost and offered again.
    let at = undo.asked.saturating_add(deadlines.undo_ms);
    Some(Deadline {
        at,
        missed: MissedDeadline::Undo,
        silence_ms: deadlines.undo_silence_ms.filter(|_| undo.fetched),
    })
}

/// How long the stage that an agent is in may go without the calls it needs, from when it began for the first time; in
/// milliseconds, `None` where that has no end of its own.
pub fn without_calls(assignment: &Assignment, strategy: &Strategy) -> Option<u64> {
    let stage = assignment.slot.stage_index().and_then(|stage| strategy.stages.get(stage))?;
    match strategy.no_calls() {
        NoCalls::After(time) if !assignment.is_whole() => {
            Some((stage.min_duration + time).as_millis() as u64)
        }
        NoCalls::After(_) | NoCalls::Never => None,
    }
}

fn calls(assignment: &Assignment, strategy: &Strategy) -> Option<Deadline> {
    let runs = assignment.fetched && assignment.stage_status == StageStatus::InProgress;
    let longest = without_calls(assignment, strategy).filter(|_| runs)?;
    let at = assignment.stage_begun().saturating_add(longest);
    Some(Deadline { at, missed: MissedDeadline::Calls, silence_ms: None })
}

fn main(
    assignment: &Assignment,
    deadlines: MemberDeadlines,
    strategy: &Strategy,
    gates: &Gates,
) -> [Option<Deadline>; 3] {
    let waits_for_fetch = match assignment.status {
        ChildStatus::Todo => true,
        ChildStatus::Doing => !assignment.fetched,
        ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => return [None; 3],
    };
    if waits_for_fetch && gates.holds(assignment) {
        // It waits for the others, and each of them has a deadline.
        return [None; 3];
    }
    if waits_for_fetch {
        let at = assignment.since.saturating_add(deadlines.offer_ms);
        // Who waits for a place is not at fault as long as it calls.
        let silence_ms = gates.queues(assignment).then_some(deadlines.offer_ms);
        return [Some(Deadline { at, missed: MissedDeadline::Offer, silence_ms }), None, None];
    }
    let in_charge = strategy.rollout.is_some();
    // Where the manager is in charge it may withhold the signal for long: that is no fault of the child.
    let stage_since = if in_charge && assignment.stage_status == StageStatus::ShouldEnd {
        assignment.since
    } else {
        assignment.stage_since
    };
    let is_withheld = in_charge && assignment.stage_status == StageStatus::SuccessWaiting;
    let stage = Deadline {
        at: stage_since.saturating_add(deadlines.stage_ms),
        missed: MissedDeadline::Stage,
        silence_ms: None,
    };
    let silence = Deadline {
        at: assignment.since.saturating_add(deadlines.setup_ms),
        missed: MissedDeadline::SetUp,
        silence_ms: Some(deadlines.setup_ms),
    };
    [(!is_withheld).then_some(stage), Some(silence), calls(assignment, strategy)]
}
