//! Which part of a release is a child's: what it does not run, and whose group it is in.

use super::{Assignment, FunctionSet, StepIndex, Unit};
use language::{Action, Group, Strategy};

impl Assignment {
    /// The assignment of a child that does not run some functions, which makes no difference to one that is led whole.
    #[must_use]
    pub fn lacking(mut self, lacks: FunctionSet, strategy: &Strategy) -> Self {
        if let Some(steps) = self.stepwise_mut().filter(|_| !lacks.is_empty()) {
            steps.rare.change(|rare| rare.lacks = lacks);
            self.skip_what_it_lacks(strategy);
        }
        self
    }

    /// Of a hybrid: the part of a child that runs none of these, and so is one of the others' group.
    #[must_use]
    pub fn beginning(mut self, lacks: FunctionSet, strategy: &Strategy) -> Self {
        if let Some(first) = lacks.first().filter(|_| strategy.is_hybrid() && self.stepwise().is_none()) {
            self.begin_in(
                match strategy.group_of(first) {
                    Group::Agents => Group::Routers,
                    Group::Routers => Group::Agents,
                },
                strategy,
            );
        }
        self
    }

    /// Turns to the first stage of a group, where it has the whole strategy in hand.
    fn begin_in(&mut self, group: Group, strategy: &Strategy) {
        if self.stepwise().is_none() {
            self.slot = StepIndex::stage(strategy.first_stage_of(group));
        }
    }

    /// Whose its part of a release is.
    pub fn group(&self, strategy: &Strategy) -> Group {
        strategy.group_of(self.slot.function(strategy))
    }

    /// What it does not run: of a hybrid, nothing of the other group.
    pub fn lacks_in(&self, strategy: &Strategy) -> FunctionSet {
        if !strategy.is_hybrid() {
            return self.lacks();
        }
        let own = FunctionSet(strategy.subjects_of(self.group(strategy)));
        let all = (0..strategy.subjects_count()).fold(FunctionSet::EMPTY, FunctionSet::with);
        self.lacks().union(all.minus(own))
    }

    /// Before it has begun.
    pub(super) fn skip_what_it_lacks(&mut self, strategy: &Strategy) {
        let piece = self.piece();
        if self.stepwise().is_none() {
            return self.begin_in(self.group(strategy), strategy);
        }
        if self.lacks().is_empty() {
            self.slot = piece.slot();
            return;
        }
        let piece = self.fitting(piece, strategy).unwrap_or(piece);
        if let Some(steps) = self.stepwise_mut() {
            steps.piece = piece;
        }
        self.slot = piece.slot();
    }

    /// Leads it as it was planned anew, if that is otherwise than before.
    pub fn lead_as(&mut self, planned: &Self, strategy: &Strategy) {
        if self.stepwise().is_none() || planned.stepwise().is_none() {
            let rare = self.rare().clone();
            self.led = planned.led.clone();
            self.change_rare(|own| *own = rare);
            self.slot = planned.slot;
        } else if let Some(steps) = self.stepwise_mut().filter(|_| !planned.lacks().is_empty()) {
            steps.rare.change(|rare| rare.lacks = planned.lacks());
            self.skip_what_it_lacks(strategy);
        }
    }

    /// What it runs in the place of a piece: itself, or what follows where it does not run that function; `None`: nothing
    /// is left for it.
    pub fn fitting(&self, piece: Unit, strategy: &Strategy) -> Option<Unit> {
        let rollout = |from: usize| {
            let mut rest = from..strategy.subjects_count();
            rest.find(|function| !self.lacks().contains(*function))
                .map(|function| Unit::Rollout(function as u8))
        };
        match piece {
            Unit::Whole => Some(Unit::Whole),
            Unit::Rollout(function) => rollout(usize::from(function)),
            Unit::Stage(stage) => match strategy.without(self.lacks().0, Action::Stage(usize::from(stage))) {
                Action::Stage(stage) => Some(Unit::Stage(stage as u8)),
                Action::Rollout => rollout(0),
                Action::Rollback => None,
            },
        }
    }
}
