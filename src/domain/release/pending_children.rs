//! Whom a wave or a stage waits for, and how long still: in one line, as [`super::waits`] says it of a child and of a whole release.
//!
//! Whoever walks over the children of a release anyway adds each to [`PendingChildren`]; what is said beside follows from the release alone.

use super::{
    analysis::brief,
    assignment::Assignment,
    clock::ReleaseMs,
    deadline::{self, Deadline, MissedDeadline},
    gate::Gate,
    settings::{Deadlines, Member},
    state::{Release, ReleaseState},
    waits::{Span, signal},
};
use model::{ChildKey, Now, StageStatus};

/// Children that have something to do, and when they are given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingChildren {
    /// Those that are at work, or are to begin.
    children: u32,
    /// Those that have come to a barrier, and wait for what opens it.
    ready: u32,
    first: Option<ReleaseMs>,
    last: Option<ReleaseMs>,
}

impl PendingChildren {
    /// Counts a child in, if it is waited for.
    pub fn add(&mut self, release: &Release, deadlines: Deadlines<'_>, key: ChildKey, part: &Assignment) {
        if !part.is_awaited() || !release.gates.admits(part) {
            return;
        }
        if part.pending_undo().is_none() && (is_held(release, part) || release.gates.holds(part)) {
            self.ready += 1;
            return;
        }
        self.children += 1;
        let all = deadline::of(Member { child: key, part }, deadlines, &release.strategy, &release.gates);
        // Of those that each call puts off nobody can say when they come, and who lacks calls ends untested and isn't given up.
        let counts =
            |deadline: &Deadline| deadline.silence_ms.is_none() && deadline.missed != MissedDeadline::Calls;
        let due = all.filter(counts).map(|deadline| deadline.at).min();
        if let Some(due) = due {
            self.first = Some(self.first.map_or(due, |first| first.min(due)));
            self.last = Some(self.last.map_or(due, |last| last.max(due)));
        }
    }

    /// `2 children are at work; the first is given up in 3m, the last in 5m, unless they come further`.
    fn line(self, release: &Release, now: Now) -> Option<String> {
        let mut parts = Vec::new();
        if self.children > 0 {
            let (children, are) = if self.children == 1 { ("child", "is") } else { ("children", "are") };
            parts.push(format!("{} {children} {are} waited for", self.children));
            parts.extend(self.given_up(release, now));
        }
        if self.ready > 0 {
            let (children, are) = if self.ready == 1 { ("child", "is") } else { ("children", "are") };
            parts.push(format!("{} {children} {are} ready: {}", self.ready, opens(release, now)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The clock of a release stands still while it is paused.
    fn given_up(self, release: &Release, now: Now) -> Option<String> {
        let (first, last) = self.first.zip(self.last).filter(|_| release.clock.paused_since.is_none())?;
        let left = |due: ReleaseMs| Span(due.saturating_sub(release.at(now)));
        Some(match (self.children, first == last) {
            (1, _) => format!("it is given up in {} unless it comes further", left(first)),
            (_, true) => format!("those that come no further are given up in {}", left(first)),
            (_, false) => format!(
                "of those that come no further the first is given up in {}, the last in {}",
                left(first),
                left(last)
            ),
        })
    }
}

/// Whether it is ready to end its stage, and may not yet.
fn is_held(release: &Release, part: &Assignment) -> bool {
    part.fetched && part.stage_status == StageStatus::SuccessWaiting && !release.gates.may_end(part.slot)
}

/// What a wave waits for, by its number from 0; `None`: for nothing any more.
pub fn wave(release: &Release, wave: u32, awaited: PendingChildren, now: Now) -> Option<String> {
    if wave < release.gates.stand.waves {
        return awaited.line(release, now);
    }
    if !release.state.is_under_way() {
        return None;
    }
    let gate = Gate::Wave(wave);
    Some(if reached(release) == Some(gate) {
        opens(release, now)
    } else if release.next_wave() == Some(wave) {
        come_first(release, release.counts.awaited_now, "end")
    } else {
        format!("its turn is after {}", release.gate_name(Gate::Wave(wave.saturating_sub(1))))
    })
}

/// What a stage waits for, by its place; `None`: for nothing, now or any more.
pub fn stage(release: &Release, stage: usize, awaited: PendingChildren, now: Now) -> Option<String> {
    let (levels, closed) = (&release.gates.levels, release.gates.stand.level);
    let level = levels.of_stage(stage);
    if level < closed || !release.state.is_under_way() {
        return awaited.line(release, now);
    }
    let gate = Gate::Level(closed);
    Some(if level > closed {
        format!("its turn is after {}", release.gate_name(gate))
    } else if reached(release) == Some(gate) {
        opens(release, now)
    } else {
        come_first(release, release.counts.behind, "come")
    })
}

/// The gate that nobody has to come to any more, as it was decided.
fn reached(release: &Release) -> Option<Gate> {
    release.gates.stand.reached.map(|reached| reached.gate)
}

fn come_first(release: &Release, children: u32, end: &str) -> String {
    if let Some(pause) = release.state.pause() {
        return format!("the release is paused: {}", brief(&pause.reason));
    }
    let who = if children == 1 { "child has" } else { "children have" };
    format!("{children} {who} to {end} before")
}

/// What the next gate waits for once everybody has come to it, and until when.
fn opens(release: &Release, now: Now) -> String {
    let left = || Span(release.gate_due().saturating_sub(release.at(now)));
    match (&release.state, release.gates.stand.reached) {
        (ReleaseState::AwaitingApproval { what, .. }, _) => {
            format!("somebody must approve of {what} within {}, or it is rolled back", left())
        }
        (ReleaseState::Paused(pause), _) => format!("the release is paused: {}", brief(&pause.reason)),
        (_, Some(reached)) if release.wants_signal(reached.gate) => signal(release, reached.gate),
        (_, Some(reached)) if release.awaits_verdict(reached.gate) => {
            "the verdict of the analysis is awaited".to_owned()
        }
        (ReleaseState::Running, Some(reached)) => {
            format!("soaks for another {}, then {} begins", left(), release.gate_name(reached.gate))
        }
        _ => come_first(release, release.counts.behind, "come"),
    }
}
