//! Folding a change of one child's part in.

use super::Change;
use crate::{
    children::{Deployment, Variant},
    release::{
        assignment::{Assignment, FunctionSet, Step},
        clock::ReleaseMs,
        deadline,
        lifecycle::is_in_place,
        manager::Planned,
        settings::Member,
        state::{End, Release, ReleaseState, State, Sweep},
    },
};
use model::{ChildKey, Now, ReleaseKey};

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Joined { release, child, instead_of, now, lacks } => {
            state.join(*release, *child, *instead_of, *lacks, *now);
        }
        Change::Stepped { release, child, step, at, .. } => state.step(*release, *child, step, *at),
        Change::Deployed { child, release, function, variant } => {
            state.deploy(*child, *release, *function, *variant);
        }
        Change::DeadlinesSeen { release, next, after } => {
            state.with_release(*release, |release| release.note_deadlines(*next, *after));
        }
        // Kept in the store alone.
        Change::Numbers { .. } | Change::LateKept { .. } => {}
    }
}

impl Release {
    fn note_deadlines(&mut self, next: ReleaseMs, after: Option<ChildKey>) {
        if let Some(after) = after {
            self.sweep = Some(Sweep { after, next });
        } else {
            (self.next_deadline, self.sweep) = (next, None);
        }
    }
}

impl State {
    fn join(
        &mut self,
        key: ReleaseKey,
        child: ChildKey,
        instead_of: Option<ChildKey>,
        lacks: FunctionSet,
        now: Now,
    ) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let alone = release.strategy.rollout.as_ref().is_some_and(|rollout| rollout.order.is_by_location());
        let old = instead_of.and_then(|old| release.assignments.get(&old));
        let own = old.map(|old| old.wave).filter(|wave| *wave < release.gates.stand.waves);
        let of_agents = release.gates.levels.leads_services(lacks);
        let wave = own.unwrap_or_else(|| {
            if of_agents && release.turns.of_routers().is_some() {
                release.turns.join_agents(child)
            } else {
                release.turns.join(&release.members, child, alone)
            }
        });
        // Those barriers that others are on their way to have begun without it, unless it comes for one of them.
        let is_late = instead_of.is_none() && wave < release.gates.stand.waves;
        let joined = if is_late { release.gates.stand.level.saturating_add(1) } else { 0 };
        let manager = self.shared.children.get(child).filter(|record| record.kind().is_manager());
        if let Some(record) = manager {
            let planned = Planned { agents: record.counted_agents(), ..Planned::default() };
            release.managers.insert(child, planned);
        }
        let strategy = std::sync::Arc::clone(&release.strategy);
        let is_in_place = is_in_place(&self.shared, &strategy, child, lacks);
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let mut newcomer = Assignment {
            wave,
            facts: release.facts.len() as u16,
            ..release.fresh_part(child, is_in_place, lacks, release.at(now))
        };
        newcomer.change_rare(|rare| rare.joined = Some(joined));
        release.joined += 1;
        release.counts.add(&newcomer, &release.gates);
        let deadlines = self.shared.settings.deadlines(&release.strategy, &self.shared.children);
        let soonest = deadline::soonest(
            Member { child, part: &newcomer },
            deadlines,
            &release.strategy,
            &release.gates,
        );
        release.due_by(soonest);
        release.assignments.insert(child, newcomer);
        self.shared.children.take_part(child, key);
    }

    fn step(&mut self, key: ReleaseKey, child: ChildKey, step: &Step, at: ReleaseMs) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        if let Step::StandsInFor { .. } = step
            && !release.assignments.contains_key(&child)
        {
            // A member goes on as one after the undo; anybody else has no other part in the release.
            let stand_in = Assignment::stand_in(at, release.facts.len() as u16);
            release.counts.add(&stand_in, &release.gates);
            release.assignments.insert(child, stand_in);
            self.shared.children.take_part(child, key);
        }
        let Some(assignment) = release.assignments.get_mut(&child) else { return };
        release.counts.remove(assignment, &release.gates);
        assignment.apply(step, &release.strategy, at);
        release.counts.add(assignment, &release.gates);
        if let Step::Kept { slot } | Step::KeptBelow { slot, .. } = step
            && slot.stage_index().is_some()
        {
            release.failed = release.failed.with(slot.0);
        }
        release.attempt = release.attempt.max(assignment.attempt);
        let deadlines = self.shared.settings.deadlines(&release.strategy, &self.shared.children);
        let soonest = deadline::soonest(
            Member { child, part: assignment },
            deadlines,
            &release.strategy,
            &release.gates,
        );
        release.due_by(soonest);
        if matches!(step, Step::UndoFailed { .. }) {
            release.failed_undo = Some(child);
        }
        // Who tries again is no fault any more.
        if *step == Step::Retried && release.first_fault == Some(child) {
            (release.ending, release.first_fault) = (None, None);
        }
        let unproven = release.unproven();
        let is_repaired = matches!(step, Step::Counted { .. })
            && release.counts.failures() == 0
            && !release.was_aborted_below();
        if let ReleaseState::Over { end, unconfirmed } = &mut release.state {
            *unconfirmed = unproven;
            // Those that ended badly below, or were not tested, were tried again there.
            // One that registers something does so in the commit of its end, so it is retried here.
            if matches!(end, End::DoneWithFailures | End::Untested) && is_repaired && release.adopts.is_none()
            {
                *end = if release.counts.are_untested() { End::Untested } else { End::Done };
                (release.ending, release.first_fault) = (None, None);
            }
        }
    }

    fn deploy(&mut self, child: ChildKey, release: ReleaseKey, function: usize, variant: Variant) {
        let Some(found) = self.shared.releases.get(&release) else { return };
        let Some(subject) = found.strategy.subject_key(function) else { return };
        self.books.deploy(child, subject, Deployment { release, variant });
        let tells = found.assignments.get(&child).is_some_and(Assignment::is_in_place);
        let content = found.strategy.functions.get(function).filter(|_| tells).and_then(|of| match variant {
            Variant::Base => of.base.content,
            Variant::New => of.new.content,
            Variant::Unknown => None,
        });
        self.shared.children.serve(child, subject, content);
    }
}
