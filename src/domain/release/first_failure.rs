//! The child that ended badly first, or tipped the scales: noted with its release, for whoever asks why.

use std::fmt::Write as _;

use super::{
    assignment::{Assignment, ManagementMode, Step},
    change::Change,
    ending::{Cause, Ending},
    lifecycle,
    manager::Agents,
    members,
    state::{Release, State},
    summary::Summary,
};
use model::{ChildKey, Exclusion, Outcome, ReleaseKey};

const ABORTED_BELOW: Outcome = Outcome::Excluded(Exclusion::AbortedBelow);

impl Release {
    /// Whether somebody below aborted the part of a manager: the others may have ended well, but that part didn't.
    pub(super) fn was_aborted_below(&self) -> bool {
        let part = |child| self.assignments.get(child).and_then(|assignment| assignment.outcome);
        self.managers.keys().any(|child| part(child) == Some(ABORTED_BELOW))
    }
}

/// A child that ended badly: which, how, where and with which numbers.
pub(super) struct Fault {
    child: ChildKey,
    id: String,
    verb: String,
    stage: Option<String>,
    numbers: Option<String>,
    /// What it, a manager, says of it.
    below: Option<Box<Ending>>,
}

impl Fault {
    /// The last of `changes` by which a child ended so, or by which a manager counts agents that did.
    pub fn last(
        state: &State,
        release: &Release,
        changes: &[&Change],
        is_counted: impl Fn(Outcome) -> bool,
    ) -> Option<Self> {
        let (child, verb) = changes.iter().rev().find_map(|change| match change {
            Change::Members(members::Change::Stepped {
                release: of,
                child,
                step: Step::Ended { outcome, .. },
                ..
            }) if *of == release.key && is_counted(*outcome) => Some((*child, verb(*outcome).to_owned())),
            Change::Members(members::Change::Stepped {
                release: of,
                child,
                step: Step::Counted { agents, .. },
                ..
            }) if *of == release.key && agents.bad() > 0 => Some((*child, below(*agents))),
            Change::Members(_)
            | Change::Children(_)
            | Change::Lifecycle(_)
            | Change::Rollout(_)
            | Change::Stages(_)
            | Change::Parent(_)
            | Change::Analysis(_)
            | Change::Traffic(_)
            | Change::Workflows(_) => None,
        })?;
        Some(Self::of(state, release, child, verb, changes))
    }

    /// Any child that ended badly, where none is known to be the first.
    pub fn any(state: &State, release: &Release) -> Option<Self> {
        let is_bad = |assignment: &Assignment| assignment.agents().bad() > 0;
        let (child, assignment) = release.assignments.iter().find(|(_, assignment)| is_bad(assignment))?;
        let verb = match (&assignment.led, assignment.outcome) {
            (ManagementMode::Stepwise(_) | ManagementMode::InPlace(_), Some(outcome)) => {
                verb(outcome).to_owned()
            }
            (ManagementMode::Stepwise(_) | ManagementMode::InPlace(_), None)
            | (ManagementMode::Whole(_), _) => below(assignment.agents()),
        };
        Some(Self::of(state, release, *child, verb, &[]))
    }

    fn of(state: &State, release: &Release, child: ChildKey, verb: String, changes: &[&Change]) -> Self {
        let id = state.children.get(child).map_or("a child", |record| record.id.as_str()).to_owned();
        let assignment = release.assignments.get(&child);
        let stage = assignment.and_then(|assignment| assignment.slot.stage_index());
        let stage = stage.and_then(|stage| Some(release.strategy.stages.get(stage)?.name.clone()));
        let reported = reported(release.key, child, changes);
        let numbers = reported.map(|(summary, why)| why.clone().unwrap_or_else(|| numbers(summary)));
        let below = reported.and_then(|(summary, _)| summary.why.clone());
        Self { child, id, verb, stage, numbers, below }
    }

    /// `agent-3 failed in stage Canary (errors 12.5 %, median 31.0 ms)`, and of one below a manager, what that one says.
    pub fn text(&self) -> String {
        if let Some(below) = &self.below {
            return format!("{}: {}", self.id, without_limit(&below.text));
        }
        let mut text = format!("{} {}", self.id, self.verb);
        let _ = match &self.stage {
            Some(stage) => write!(text, " in stage {stage}"),
            None => write!(text, " in the roll-out"),
        };
        if let Some(numbers) = &self.numbers {
            let _ = write!(text, " ({numbers})");
        }
        text
    }

    /// As the end of a release.
    pub fn ending(self, cause: Cause, text: String) -> Ending {
        let Self { id, stage, numbers, below, .. } = self;
        let Some(below) = below else {
            return Ending { child: Some(id), stage, numbers, ..Ending::new(cause, text) };
        };
        let Ending { cause: of_below, child, stage, numbers, by, note, .. } = *below;
        let cause = if of_below.is_telling() { of_below } else { cause };
        let child = child.map_or_else(|| id.clone(), |child| format!("{id}: {child}"));
        Ending { cause, text, child: Some(child), stage, numbers, by, note }
    }
}

/// What a manager below says of a failure, without the limit that it passed there: whoever passes it on adds their own.
fn without_limit(text: &str) -> &str {
    let is_limit = |said: &str| said.starts_with(|c: char| c.is_ascii_digit()) && said.contains(", max_");
    match text.rsplit_once(": ") {
        Some((fault, said)) if is_limit(said) => fault,
        _ => text,
    }
}

/// That children end badly, for the first time in a release that may yet end well; it is told of if nothing worse follows.
pub(super) fn noted(state: &State, release: &Release, changes: &[&Change]) -> Option<Change> {
    if release.ending.is_some() || !release.is_under_way() {
        return None;
    }
    let fault =
        Fault::last(state, release, changes, |outcome| outcome.is_failure() || outcome == ABORTED_BELOW)?;
    let (child, text) = (fault.child, fault.text());
    let ending = Box::new(fault.ending(Cause::Children, text));
    Some(Change::Lifecycle(lifecycle::Change::FaultNoted { release: release.key, child, ending }))
}

/// That some child ended badly, when a release ends and none is noted.
pub(super) fn noted_at_the_end(state: &State, release: &Release) -> Option<Change> {
    let fault = Fault::any(state, release)?;
    let (child, text) = (fault.child, fault.text());
    Some(Change::Lifecycle(lifecycle::Change::FaultNoted {
        release: release.key,
        child,
        ending: Box::new(fault.ending(Cause::Children, text)),
    }))
}

/// What a manager said of its agents: `reported of its 9 agents 3 failed, 1 timed out`.
fn below(agents: Agents) -> String {
    let Agents { failed, timed_out, unreachable, untested, .. } = agents;
    let all =
        [(failed, "failed"), (timed_out, "timed out"), (unreachable, "unreachable"), (untested, "untested")];
    let bad: Vec<String> =
        all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let agents = match agents.participants {
        1 => "agent".to_owned(),
        all => format!("{all} agents"),
    };
    format!("reported of its {agents} {}", bad.join(", "))
}

const fn verb(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::TimedOut => "was not heard of in time",
        Outcome::Lost => "lost its result",
        Outcome::Unreachable => "never fetched its offer",
        Outcome::Untested => "was left untested",
        Outcome::Failed | Outcome::Succeeded | Outcome::Undone | Outcome::Excluded(_) => "failed",
    }
}

/// What the child reported of the stage that ended badly.
fn reported<'c>(
    release: ReleaseKey,
    child: ChildKey,
    changes: &[&'c Change],
) -> Option<(&'c Summary, &'c Option<String>)> {
    changes.iter().rev().find_map(|change| {
        let Change::Members(members::Change::Stepped { release: of, child: by, step, summary, .. }) = change
        else {
            return None;
        };
        let Step::Reported { why, .. } = step else { return None };
        (*of == release && *by == child).then_some((&summary.as_deref()?.report.summary, why))
    })
}

/// Of the new version.
fn numbers(summary: &Summary) -> String {
    let (errors, median) = (summary.f2_err_rate * 100.0, summary.f2_times_summary.median);
    let median = if median < 0.0 { "no call".to_owned() } else { format!("median {median:.1} ms") };
    format!("errors {errors:.1} %, {median}")
}
