//! What a child, or a release, waits for, in one line that a person understands.
//!
//! "Nothing happens" is what operators meet most, so every state has a line that says who has to act next, how long
//! that has lasted, and when the manager gives up.

use std::fmt::{self, Write as _};

use super::{
    analysis::brief,
    assignment::{Assignment, Undo},
    command::LastSeen,
    deadline::{self, MissedDeadline},
    gate::{ALL_OPEN, Gate},
    next_action::{NextAction, turn},
    offer::OfferName,
    pause::Pause,
    settings::Member,
    state::{Release, ReleaseState, Snapshot},
};
use model::{ChildKey, ChildStatus, Now, Outcome, StageStatus, tenant, traffic::RouterPhase};

/// A span of time in its two largest units: `45s`, `13m`, `1h 5m`, `2d 3h`.
#[derive(Debug, Clone, Copy)]
pub struct Span(pub u64);

/// So long after a download and its minimum duration, a stage that has not ended lacks calls, in milliseconds.
const SURELY_SET_UP_MS: u64 = 60_000;

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000;
        let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds}s"),
            (0, 0, 1..10) if !seconds.is_multiple_of(60) => write!(f, "{minutes}m {}s", seconds % 60),
            (0, 0, _) => write!(f, "{minutes}m"),
            (0, _, _) if minutes.is_multiple_of(60) => write!(f, "{hours}h"),
            (0, _, _) => write!(f, "{hours}h {}m", minutes % 60),
            _ if hours.is_multiple_of(24) => write!(f, "{days}d"),
            _ => write!(f, "{days}d {}h", hours % 24),
        }
    }
}

/// What a line about a child is made from.
#[derive(Debug, Clone, Copy)]
pub struct LineInputs<'a, S: ?Sized> {
    pub state: &'a Snapshot,
    pub seen: &'a S,
    pub now: Now,
    /// Serving time at which the manager began to answer: calls before are not known.
    pub since: u64,
}

impl<S: LastSeen + ?Sized> LineInputs<'_, S> {
    /// What a child in a release waits for, or how it ended.
    pub fn child(&self, release: &Release, key: ChildKey, assignment: &Assignment) -> String {
        let line = self.part(release, key, assignment);
        match self.router(release, key) {
            Some(router) => format!("{line}; {router}"),
            None => line,
        }
    }

    /// What stands in the way at the router of a child that has a part in a release of services.
    fn router(&self, release: &Release, key: ChildKey) -> Option<String> {
        let router = self.state.traffic.get(key).filter(|_| !release.strategy.services.is_empty())?;
        let trouble = router.trouble.as_deref();
        let said = || trouble.map_or_else(String::new, |trouble| format!(": {trouble}"));
        if !router.is_reached {
            return Some(format!("its router can't be read{}", said()));
        }
        match router.phase {
            RouterPhase::Paused => Some(format!("its router is left alone{}", said())),
            RouterPhase::Superseded => Some(format!("somebody else leads its router{}", said())),
            RouterPhase::Idle
            | RouterPhase::Waiting
            | RouterPhase::Telling
            | RouterPhase::InForce
            | RouterPhase::Accepted => trouble.map(|trouble| format!("its router: {trouble}")),
        }
    }

    fn part(&self, release: &Release, key: ChildKey, assignment: &Assignment) -> String {
        if let Some(undo) = assignment.pending_undo() {
            return self.undo(release, key, assignment, undo);
        }
        match assignment.status {
            ChildStatus::Todo => self.to_fetch(release, key, assignment),
            ChildStatus::Doing if !assignment.fetched => self.to_fetch(release, key, assignment),
            ChildStatus::Doing => self.in_hand(release, key, assignment),
            ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => self.ended(release, key, assignment),
        }
    }

    /// What waits for a child or what it has in hand, over all releases.
    pub fn doing(&self, key: ChildKey) -> String {
        let release = match turn(self.state, key) {
            NextAction::Offer { release, .. }
            | NextAction::Queued { release }
            | NextAction::Busy { release, .. } => Some(release),
            NextAction::Idle => None,
        };
        let found = release
            .and_then(|found| self.state.release(found))
            .and_then(|release| Some((release, release.assignments.get(&key)?)));
        match found {
            Some((release, assignment)) => {
                format!("release {}: {}", release.id, self.child(release, key, assignment))
            }
            None => self.held(key).unwrap_or_else(|| format!("nothing waits for it{}", self.called(key))),
        }
    }

    /// A child that is offered nothing although it has a part in a release that is not over.
    fn held(&self, key: ChildKey) -> Option<String> {
        let open = &self.state.children.get(key)?.open;
        open.iter().find_map(|found| {
            let release = self.state.release(*found)?;
            let assignment = release.assignments.get(&key).filter(|a| !a.status.is_over())?;
            Some(format!("release {}: {}", release.id, self.child(release, key, assignment)))
        })
    }

    fn to_fetch(&self, release: &Release, key: ChildKey, assignment: &Assignment) -> String {
        if let Some(Pause { reason, .. }) = release.state.pause() {
            return format!("the release is paused: {}", brief(reason));
        }
        if !release.gates.admits(assignment) {
            return format!("has its turn in {}", release.gate_name(Gate::Wave(assignment.wave)));
        }
        if release.gates.holds(assignment) {
            return format!("is held before {}: {}", stage_name(release, assignment), gate(release));
        }
        let behind = match turn(self.state, key) {
            NextAction::Offer { release: first, .. } | NextAction::Queued { release: first }
                if first == release.key =>
            {
                None
            }
            NextAction::Offer { release: other, .. }
            | NextAction::Queued { release: other }
            | NextAction::Busy { release: other, .. } => Some(other),
            NextAction::Idle => self.state.children.get(key).and_then(|child| {
                child.open.iter().copied().find(|open| {
                    let other = self.state.assignment(*open, key);
                    *open < release.key && other.is_some_and(|a| a.status == ChildStatus::Doing)
                })
            }),
        };
        if let Some(other) = behind.and_then(|other| self.state.release(other)) {
            let paused = if other.clock.paused_since.is_some() { ", which is paused" } else { "" };
            return format!(
                "waits behind {}{paused}",
                one_release(tenant::named(release.id.tenant(), &other.id))
            );
        }
        if let Some(most) = release.gates.levels.at_once.filter(|_| release.gates.queues(assignment)) {
            let mut line = format!("waits for a place among the {most} in progress{}", self.called(key));
            self.gives_up(&mut line, release, key, assignment);
            return line;
        }
        let what = match assignment.offer_name() {
            OfferName { attempt: 1, kind: super::offer::OfferKind::First } => String::new(),
            name => format!("its offer {} ", name.id(release.id.as_str())),
        };
        let what = if what.is_empty() { String::new() } else { format!("for {what}") };
        let since = self.ago(release, assignment.since);
        let mut line = format!("waits {what}to be fetched: offered {since} ago{}", self.called(key));
        self.gives_up(&mut line, release, key, assignment);
        line
    }

    fn in_hand(&self, release: &Release, key: ChildKey, assignment: &Assignment) -> String {
        let what = stage_name(release, assignment);
        let pause = release.state.pause();
        let paused = pause.map(|pause| format!("the release is paused: {}", brief(&pause.reason)));
        let mut line = match (assignment.stage_status, paused) {
            (_, Some(paused)) if assignment.is_undecided() => {
                format!("has failed {what}, which keeps its shares; {paused}")
            }
            (_, None) if assignment.is_undecided() => {
                format!("has failed {what}, which keeps its shares; waits for what is decided above")
            }
            (StageStatus::SuccessWaiting, Some(paused)) => {
                format!("is ready to end {what}; {paused}")
            }
            (StageStatus::SuccessWaiting, None) if !release.gates.may_end(assignment.slot) => {
                format!("is ready to end {what}, which waits: {}", gate(release))
            }
            (StageStatus::SuccessWaiting, None) => format!("is ready to end {what}; waits for the signal"),
            (StageStatus::ShouldEnd, _) => format!("runs {what}; was told to end it, its result is awaited"),
            (status, _) if status.is_over() => {
                format!("has ended {what} ({status}); its next call is awaited")
            }
            (_, Some(paused)) => format!("runs {what}; {paused}"),
            (_, None) => {
                let mut line = format!("runs {what} for {}", self.ago(release, assignment.stage_since));
                line.extend(self.without_calls(release, assignment));
                line
            }
        };
        line.push_str(self.called(key));
        self.gives_up(&mut line, release, key, assignment);
        line
    }

    /// What an agent lacks that could have ended its stage by now.
    fn without_calls(&self, release: &Release, assignment: &Assignment) -> Option<String> {
        let stage = assignment.slot.stage_index().and_then(|stage| release.strategy.stages.get(stage))?;
        let minimum = stage.min_duration.as_millis() as u64;
        let runs = release.at(self.now).saturating_sub(assignment.stage_since);
        if assignment.is_whole() || runs < minimum.saturating_add(SURELY_SET_UP_MS) {
            return None;
        }
        let ends =
            deadline::without_calls(assignment, &release.strategy).map_or_else(String::new, |longest| {
                let due = assignment.stage_begun().saturating_add(longest);
                format!(", ends untested in {}", Span(due.saturating_sub(release.at(self.now))))
            });
        Some(format!(" without the calls that it needs{ends}"))
    }

    fn undo(&self, release: &Release, key: ChildKey, assignment: &Assignment, undo: &Undo) -> String {
        let id = OfferName::undo(undo.number).id(release.id.as_str());
        let since = self.ago(release, undo.since);
        let mut line = if release.holds_undo(undo) && !undo.fetched {
            "is to go back when each router has proven that it is back".to_owned()
        } else if undo.fetched {
            format!("runs its undo {id} for {since}")
        } else if let Some(until) = undo.rests_until {
            let left = Span(until.saturating_sub(self.now.served_ms));
            format!("is offered its undo again as {id} in {left}")
        } else {
            format!("waits for its undo {id} to be fetched: offered {since} ago")
        };
        line.push_str(self.called(key));
        line.extend(failed_undo(undo).map(|failed| format!("; {failed}")));
        if undo.overdue {
            line.push_str(", overdue: the release waits for it no longer");
        } else {
            self.gives_up(&mut line, release, key, assignment);
        }
        line
    }

    fn ended(&self, release: &Release, key: ChildKey, assignment: &Assignment) -> String {
        let stage = stage_name(release, assignment);
        let mut line = match assignment.outcome {
            None => format!("ended in {stage}"),
            Some(Outcome::Succeeded) => "ended: succeeded".to_owned(),
            Some(Outcome::Failed) => format!("ended: failed in {stage}"),
            Some(Outcome::TimedOut) => format!("ended: not heard of in time in {stage}"),
            Some(Outcome::Unreachable) => "ended: never fetched what it was offered".to_owned(),
            Some(Outcome::Lost) => format!("ended: its result of {stage} was lost"),
            Some(Outcome::Undone) => "ended: runs the base version again".to_owned(),
            Some(Outcome::Untested) if !assignment.rolled_out.is_empty() => {
                "ended: rolled out untested, as the others had passed".to_owned()
            }
            Some(Outcome::Untested) => format!("ended: untested, {stage} did not get the calls it needs"),
            Some(Outcome::Excluded(why)) => format!("takes no part: {why}"),
        };
        let other = |line: &mut String, text: &str, other: Option<ChildKey>| {
            if let Some(other) = other.and_then(|other| self.state.children.get(other)) {
                let _ = write!(line, "; {text} {}", other.id);
            }
        };
        other(&mut line, "its place was taken by", assignment.rare().successor);
        other(&mut line, "it stands in for", assignment.rare().predecessor);
        if let ReleaseState::RollingBack { reason, .. } = &release.state
            && self.state.assignment(release.key, key).is_some()
            && assignment.outcome.is_none()
        {
            let _ = write!(line, " by the roll-back: {}", brief(reason));
        }
        line
    }

    /// Serving time of the last call, if there was one in this life.
    pub fn last_call(&self, key: ChildKey) -> Option<u64> {
        self.seen.last_call(key).filter(|at| *at > self.since)
    }

    /// When it called last stands beside this line wherever it is shown; that it never did in this life is said here.
    fn called(&self, key: ChildKey) -> &'static str {
        if self.last_call(key).is_some() { "" } else { ", no call since the manager started" }
    }

    /// How long ago an instant of the release's clock was. Its clock stands still while it is paused.
    fn ago(&self, release: &Release, since: u64) -> Span {
        Span(release.at(self.now).saturating_sub(since))
    }

    /// Adds when the manager gives up waiting.
    fn gives_up(&self, line: &mut String, release: &Release, key: ChildKey, assignment: &Assignment) {
        if release.clock.paused_since.is_some() {
            return;
        }
        let deadlines = self.state.settings.deadlines(&release.strategy, &self.state.children);
        let at = release.at(self.now);
        let due = deadline::of(
            Member { child: key, part: assignment },
            deadlines,
            &release.strategy,
            &release.gates,
        )
        // Of this it is said why, too.
        .filter(|deadline| deadline.missed != MissedDeadline::Calls)
        .map(|deadline| match (deadline.silence_ms, self.seen.last_call(key)) {
            // Silence counts from the last call on.
            (Some(silence), Some(called)) => {
                let quiet = self.now.served_ms.saturating_sub(called);
                let due = at.saturating_add(silence).saturating_sub(quiet);
                (due.max(deadline.at), deadline.missed)
            }
            _ => (deadline.at, deadline.missed),
        })
        .min_by_key(|(due, _)| *due);
        match due {
            Some((due, _)) if due <= at => line.push_str(", gives up now"),
            Some((due, missed)) => {
                let is_put_off_by_calls = match missed {
                    MissedDeadline::SetUp => true,
                    MissedDeadline::Offer
                    | MissedDeadline::Stage
                    | MissedDeadline::Calls
                    | MissedDeadline::Undo => release.gates.queues(assignment),
                };
                let unless = if is_put_off_by_calls { " unless it calls" } else { "" };
                let _ = write!(line, ", gives up in {}{unless}", Span(due - at));
            }
            None => {}
        }
    }
}

/// What only the parent can do.
pub(super) fn signal(release: &Release, gate: Gate) -> String {
    match gate {
        Gate::Wave(_) => format!("the parent has to open {}", release.gate_name(gate)),
        Gate::Level(_) => "the parent has to end the stage".to_owned(),
    }
}

/// How often a child failed its undo, and what it says of that.
fn failed_undo(undo: &Undo) -> Option<String> {
    let times = match undo.failures {
        0 => return None,
        1 => "once".to_owned(),
        u8::MAX => format!("{} times or more", u8::MAX),
        times => format!("{times} times"),
    };
    Some(match &undo.why {
        Some(why) => format!("it failed {times}: {}", brief(why)),
        None => format!("its result was lost {times}"),
    })
}

/// What the next gate waits for.
fn gate(release: &Release) -> String {
    let stand = &release.gates.stand;
    match (&release.state, stand.reached) {
        (ReleaseState::AwaitingApproval { what, .. }, _) => format!("somebody must approve of {what}"),
        (_, Some(reached)) if release.wants_signal(reached.gate) => signal(release, reached.gate),
        (_, Some(reached)) if release.awaits_verdict(reached.gate) => {
            "the verdict of the analysis is awaited".to_owned()
        }
        (_, Some(reached)) => {
            format!("{} soaks until then", release.gate_name(reached.gate))
        }
        _ => {
            let behind = release.counts.behind;
            let (children, have) = if behind == 1 { ("child", "has") } else { ("children", "have") };
            format!(
                "{behind} {children} {have} to come before {} begins",
                release.gate_name(Gate::Level(stand.level))
            )
        }
    }
}

fn stage_name(release: &Release, assignment: &Assignment) -> String {
    let stage = assignment.slot.stage_index().map(|index| release.strategy.stages.get(index));
    match stage {
        Some(Some(stage)) => format!("stage {}", stage.name),
        Some(None) => "its stage".to_owned(),
        None => {
            let subject = release.strategy.subject_key(assignment.current_function(&release.strategy));
            format!("the roll-out of {}", subject.unwrap_or("its function"))
        }
    }
}

/// Which gate comes next, and what it waits for; empty where nothing is led.
fn gates(release: &Release, now: Now) -> String {
    let stand = &release.gates.stand;
    let mut line = String::new();
    if release.turns.waves() > 1 {
        let _ = write!(line, "; {}", release.gate_name(Gate::Wave(stand.waves.saturating_sub(1))));
    }
    if let Some(reached) = stand.reached.filter(|reached| release.wants_signal(reached.gate)) {
        let _ = write!(line, "; every child is ready: {}", signal(release, reached.gate));
    } else if let Some(reached) = stand.reached.filter(|reached| release.awaits_verdict(reached.gate)) {
        let gate = release.gate_name(reached.gate);
        let _ = write!(line, "; every child is ready for {gate}: the verdict of the analysis is awaited");
    } else if let Some(reached) = stand.reached {
        let left = Span(release.gate_due().saturating_sub(release.at(now)));
        let _ = write!(line, "; soaks for another {left}, then {}", release.gate_name(reached.gate));
    } else if stand.level != ALL_OPEN && release.counts.behind > 0 {
        let (behind, next) = (release.counts.behind, release.gate_name(Gate::Level(stand.level)));
        let who = match behind {
            1 => "one that is behind has".to_owned(),
            _ => format!("{behind} that are behind have"),
        };
        let _ = write!(line, "; {next} begins when the {who} come");
    }
    if release.left_out > 0 {
        let agents = if release.left_out == 1 { "silent agent comes" } else { "silent agents come" };
        let _ = write!(line, "; {} {agents} last", release.left_out);
    }
    if release.awaits_last_verdict() && release.counts.awaited == 0 {
        line.push_str("; the verdict of its analysis is awaited");
    }
    line
}

/// Names a release of somebody else's, or several.
fn one_release(names: &str) -> String {
    if names == tenant::ANOTHERS { format!("{names} release") } else { format!("release {names}") }
}

/// The child that failed its undo last, if it has not gone back since, and what it says.
fn failed_rollback<'s>(state: &'s Snapshot, release: &Release) -> Option<(&'s str, String)> {
    let child = release.failed_undo?;
    let undo = release.assignments.get(&child)?.pending_undo()?;
    Some((state.children.get(child)?.id.as_str(), failed_undo(undo)?))
}

/// What a release waits for; `None` once it is over.
pub fn release(state: &Snapshot, release: &Release, now: Now) -> Option<String> {
    let counts = &release.counts;
    Some(match &release.state {
        ReleaseState::Planned if release.asking.is_some() => {
            "managers below are asked who can take part".to_owned()
        }
        ReleaseState::Planned if release.is_held_by_parent() => {
            "starts when the manager above goes on with it: it is paused there".to_owned()
        }
        ReleaseState::Planned if release.deferred => {
            "is submitted but not started: `choirmaster release resume` starts it".to_owned()
        }
        ReleaseState::Planned => {
            let mut earlier: Vec<&str> = state
                .goes_before(&release.strategy, release.key, now)
                .map(|other| tenant::named(release.id.tenant(), &other.id))
                .collect();
            // However many there are that are not to be seen.
            earlier.dedup();
            let left = release.starts_at().map_or(0, |start| start.saturating_sub(now.wall_ms));
            match (u64::try_from(left), earlier.is_empty()) {
                (Ok(left), true) => format!("starts in {}", Span(left)),
                (Ok(left), false) if left > 0 => {
                    format!("starts in {}, behind {}", Span(left), one_release(&earlier.join(", ")))
                }
                _ => {
                    format!(
                        "waits behind {}, which changes the same functions",
                        one_release(&earlier.join(", "))
                    )
                }
            }
        }
        ReleaseState::Running => {
            let ended = counts.done + counts.failed + counts.no;
            let all = release.assignments.len();
            let children = if all == 1 { "child has" } else { "children have" };
            let mut line = format!("{ended} of {all} {children} ended");
            for (count, one, many) in [
                (counts.todo, "has yet to begin", "have yet to begin"),
                (counts.doing, "at work", "at work"),
                (counts.undoing, "is to go back to the base version", "are to go back to the base version"),
            ] {
                if count > 0 {
                    let _ = write!(line, ", {count} {}", if count == 1 { one } else { many });
                }
            }
            line + &gates(release, now)
        }
        ReleaseState::AwaitingApproval { what, since } => {
            let due = release.gate_due().saturating_sub(release.at(now));
            let asked = Span(release.at(now).saturating_sub(*since));
            format!("waits for approval of {what}: asked {asked} ago, rolls back in {}", Span(due))
        }
        ReleaseState::Paused { .. } if release.is_held() => {
            "is paused by the manager above: it is resumed or aborted there".to_owned()
        }
        ReleaseState::Paused(Pause { reason, .. }) => format!("is paused ({reason}): resume or abort it"),
        ReleaseState::RollingBack { reason, .. } => {
            let children = if counts.awaited == 1 { "child has" } else { "children have" };
            let mut line = format!("rolls back ({reason}): {} {children} not confirmed it", counts.awaited);
            if let Some((child, failed)) = failed_rollback(state, release) {
                let _ = write!(line, "; {child} was offered it again: {failed}");
            }
            line
        }
        ReleaseState::Over { .. } => return None,
    })
}
