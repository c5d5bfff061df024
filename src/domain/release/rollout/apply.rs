//! Folding a change of how far a release is open in.

use super::Change;
use crate::release::{
    assignment::ReleaseEvent,
    clock::ReleaseMs,
    deadline,
    gate::Reached,
    liveness_check::ASKED_FOR,
    settings::Member,
    state::{Release, ReleaseState, State},
};
use model::{Now, ReleaseKey};

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::WinnerChosen { release, variation, now } => {
            state.fold(*release, ReleaseEvent::WinnerChosen { variation: *variation }, *now);
        }
        Change::SharesChosen { release, stage, new, now } => {
            let mut is_first = true;
            state.with_release(*release, |release| {
                release.share(*stage, *new);
                is_first = !release.choose_again(*stage, *new, *now);
            });
            if is_first {
                state.fold(*release, ReleaseEvent::SharesChosen { stage: *stage, new: *new }, *now);
            }
        }
        Change::GateReached { release, gate, now } => state.with_release(*release, |release| {
            let at = release.at(*now);
            release.gates.stand.reached = Some(Reached { gate: *gate, at, approved: false });
            release.due_by(release.gate_due());
        }),
        Change::GateLeft { release } => state.with_release(*release, |release| {
            release.asking = None;
            release.gates.stand.reached = None;
            release.state = ReleaseState::Running;
        }),
        Change::ApprovalAsked { release, what, now } => state.with_release(*release, |release| {
            let since = release.at(*now);
            release.state = ReleaseState::AwaitingApproval { what: what.clone(), since };
            release.due_by(release.gate_due());
        }),
        Change::Approved { release, .. } => state.with_release(*release, |release| {
            if let Some(reached) = &mut release.gates.stand.reached {
                reached.approved = true;
            }
            release.state = ReleaseState::Running;
        }),
        Change::TurnoutAsked { release, now } => {
            state.with_release(*release, |release| release.ask_for_turnout(*now));
        }
        Change::WavesPlanned { release, moved, managers, left_out, .. } => {
            state.with_release(*release, |release| release.replan_waves(moved, managers, *left_out));
        }
        Change::WavesOpened { release, to, now, .. } => state.open_waves(*release, *to, *now),
        Change::LevelOpened { release, level, now } => {
            state.with_release(*release, |release| release.open_level(*level));
            state.fold(*release, ReleaseEvent::Opened { level: *level }, *now);
        }
    }
}

impl Release {
    fn ask_for_turnout(&mut self, now: Now) {
        let longest = ASKED_FOR.as_millis() as u64;
        self.asking = Some(now.served_ms + longest);
        if self.state != ReleaseState::Planned {
            self.due_by(self.at(now) + longest);
        }
    }

    fn open_level(&mut self, level: u8) {
        let stand = &mut self.gates.stand;
        stand.level = level;
        stand.reached = None;
        stand.waived = false;
        self.state = ReleaseState::Running;
        // The fold after this takes each child out of the counts as it was and puts it in as it is.
        self.recount();
    }
}

impl State {
    /// Costs as much as there are members in the waves that open.
    fn open_waves(&mut self, key: ReleaseKey, to: u32, now: Now) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let before = release.gates.clone();
        let at = release.at(now);
        let stand = &mut release.gates.stand;
        stand.waves = to + 1;
        stand.opened = at;
        stand.reached = None;
        stand.waived = false;
        release.asking = None;
        stand.level = release.gates.levels.entry(release.turns.is_of_routers(to));
        // The parent may open one while an operator here has paused it.
        if !matches!(release.state, ReleaseState::Paused { .. }) {
            release.state = ReleaseState::Running;
        }
        let deadlines = self.shared.settings.deadlines(&release.strategy, &self.shared.children);
        let mut due = ReleaseMs::MAX;
        for child in release.turns.between(before.stand.waves, to + 1) {
            let Some(assignment) = release.assignments.get_mut(child) else { continue };
            release.counts.remove(assignment, &before);
            assignment.since = at;
            release.counts.add(assignment, &release.gates);
            let member = Member { child: *child, part: assignment };
            due = due.min(deadline::soonest(member, deadlines, &release.strategy, &release.gates));
        }
        release.due_by(due);
        if release.counts.in_play > 0 && before.stand.level != release.gates.stand.level {
            release.recount();
        }
    }
}
