//! The child that ended badly first, or tipped the scales: noted with its release, for whoever asks why.

use std::fmt::Write as _;

use super::{
    assignment::{Assignment, ManagementMode, Step, StepIndex},
    change::Change,
    ending::{Cause, Ending},
    lifecycle,
    manager::Agents,
    members,
    state::{Release, State},
    summary::Summary,
};
use language::{Stage, Strategy};
use model::{ChildKey, Exclusion, Outcome, ReleaseKey, StageStatus};

const ABORTED_BELOW: Outcome = Outcome::Excluded(Exclusion::AbortedBelow);

impl Release {
    /// Whether somebody below aborted the part of a manager: the others may have ended well, but that part didn't.
    pub(super) fn was_aborted_below(&self) -> bool {
        let part = |child| self.assignments.get(child).and_then(|assignment| assignment.outcome);
        self.managers.keys().any(|child| part(child) == Some(ABORTED_BELOW))
    }
}

/// A child that ended badly: which, how, where, with which version and with which numbers.
pub(super) struct Fault {
    child: ChildKey,
    id: String,
    verb: String,
    place: Place,
    numbers: Option<String>,
    /// What it says of it itself: a manager of those below.
    said: Option<Box<Ending>>,
    is_manager: bool,
}

/// Where a version failed, in words.
pub(super) struct Place {
    stage: Option<String>,
    version: Option<String>,
}

impl Place {
    pub fn of(strategy: &Strategy, slot: StepIndex, reported: Option<&Summary>) -> Self {
        let stage = slot.stage_index().and_then(|stage| strategy.stages.get(stage));
        let broken = || reported?.broken_condition(stage?)?.variation;
        let subject = strategy.subject(slot.function(strategy));
        let only = || {
            // Of several, any may have failed.
            let [one] = stage.map_or_else(|| vec![1], Stage::tried)[..] else { return None };
            Some(subject?.version_at(one)?.to_owned())
        };
        let version = broken().or_else(only);
        Self { stage: stage.map(|stage| stage.name.clone()), version }
    }

    /// `stage Canary with fns/a_new`.
    pub fn text(&self, is_tried: bool) -> String {
        let mut text = match &self.stage {
            Some(stage) => format!("stage {stage}"),
            None => "the roll-out".to_owned(),
        };
        if let Some(version) = self.version.as_ref().filter(|_| is_tried) {
            let _ = write!(text, " with {version}");
        }
        text
    }

    /// What happened there.
    pub fn ending(self, ending: Ending) -> Ending {
        Ending { stage: self.stage, version: self.version, ..ending }
    }
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
        let reported = reported(release.key, child, changes);
        let summary = reported.map(|(summary, _)| summary);
        let place = match assignment {
            Some(assignment) => Place::of(&release.strategy, assignment.slot, summary),
            None => Place { stage: None, version: None },
        };
        let numbers = reported.map(|(summary, why)| why.map_or_else(|| numbers(summary), str::to_owned));
        let said = summary.and_then(|summary| summary.why.clone());
        let is_manager = assignment.is_some_and(Assignment::is_whole);
        Self { child, id, verb, place, numbers, said, is_manager }
    }

    /// `agent-3 failed in stage Canary with fns/a_new (errorRate 12.5 % (6 of 48 calls), allowed <2 %)`, and of one below a manager, what
    /// that one says.
    pub fn text(&self) -> String {
        if let Some(below) = self.said.as_ref().filter(|_| self.is_manager) {
            return format!("{}: {}", self.id, without_limit(&below.text));
        }
        let mut text = format!("{} {} in {}", self.id, self.verb, self.place.text(self.numbers.is_some()));
        if let Some(numbers) = &self.numbers {
            let _ = write!(text, " ({numbers})");
        }
        text
    }

    /// As the end of a release.
    pub fn ending(self, cause: Cause, text: String) -> Ending {
        let Self { id, place, numbers, said, is_manager, .. } = self;
        let Some(said) = said.map(|said| *said) else {
            return place.ending(Ending { child: Some(id), numbers, ..Ending::new(cause, text) });
        };
        let cause = if said.cause.is_telling() { said.cause } else { cause };
        if !is_manager {
            let Ending { by, note, .. } = said;
            return place.ending(Ending { child: Some(id), numbers, by, note, ..Ending::new(cause, text) });
        }
        let child = said.child.as_ref().map_or_else(|| id.clone(), |child| format!("{id}: {child}"));
        Ending { cause, text, child: Some(child), ..said }
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

/// What the child reported of the stage that ended badly, and why that is so.
fn reported<'c>(
    release: ReleaseKey,
    child: ChildKey,
    changes: &[&'c Change],
) -> Option<(&'c Summary, Option<&'c str>)> {
    changes.iter().rev().find_map(|change| {
        let Change::Members(change) = change else { return None };
        if change.release() != release || change.child() != Some(child) {
            return None;
        }
        match change {
            members::Change::Stepped { step: Step::Reported { why, .. }, summary, .. } => {
                Some((&summary.as_deref()?.report.summary, why.as_deref()))
            }
            // A manager that waits says it, too.
            members::Change::Stepped { summary, .. } => Some((&summary.as_deref()?.report.summary, None)),
            members::Change::Numbers { summary, .. } => Some((&summary.report.summary, None)),
            members::Change::Joined { .. }
            | members::Change::DeadlinesSeen { .. }
            | members::Change::LateKept { .. }
            | members::Change::Deployed { .. } => None,
        }
    })
}

/// Of the new version.
fn numbers(summary: &Summary) -> String {
    if summary.status == StageStatus::Error && summary.has_no_calls() {
        return "it reports an error of its own, and no call".to_owned();
    }
    let (errors, median) = (summary.f2_err_rate * 100.0, summary.f2_times_summary.median);
    let median = if median < 0.0 { "no call".to_owned() } else { format!("median {median:.1} ms") };
    format!("errors {errors:.1} %, {median}")
}
