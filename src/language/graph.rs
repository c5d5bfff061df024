//! The graph of stages: what follows what.

use std::time::Duration;

use super::{
    rollout::{NoCalls, Order, Rollout},
    strategy::{Action, Stage, Strategy},
};

impl Strategy {
    /// The stages from the first along `on_success`; of a hybrid, those of the agents.
    pub fn success_path(&self) -> Vec<usize> {
        self.success_path_from(0)
    }

    /// The stages from one along `on_success`.
    pub fn success_path_from(&self, first: usize) -> Vec<usize> {
        let mut path = vec![first];
        let mut at = first;
        // A valid graph has no loop; the bound keeps a hand-made one from running away.
        while let Some(Stage { on_success: Action::Stage(next), .. }) = self.stages.get(at)
            && path.len() < self.stages.len()
        {
            path.push(*next);
            at = *next;
        }
        path
    }

    /// The variation of a service, a subject, that serves alone once the stages have led to the roll-out: the one that has most beside the
    /// stable one in the last of its stages. `None`: several stages may be the last, and not all lead to the same.
    #[must_use]
    pub fn winner_of(&self, service: usize) -> Option<usize> {
        let may_be_last = |at: &usize| {
            let path = self.success_path_from(*at);
            let ends = path.last().and_then(|last| self.stages.get(*last));
            let is_followed = path
                .iter()
                .skip(1)
                .filter_map(|at| self.stages.get(*at))
                .any(|stage| stage.subject == service);
            let fails_well = self.next(*at, false) == Action::Rollout;
            fails_well || !is_followed && ends.is_some_and(|stage| stage.on_success == Action::Rollout)
        };
        let own = self.stages.iter().enumerate().filter(|(_, stage)| stage.subject == service);
        let mut last = own.filter(|(at, _)| may_be_last(at)).map(|(_, stage)| stage.most());
        let first = last.next().unwrap_or(1);
        last.all(|other| other == first).then_some(first)
    }

    /// Whether any way through the stages leads to the roll-out.
    #[must_use]
    pub fn may_roll_out(&self) -> bool {
        self.stages.iter().any(|stage| [stage.on_success, stage.on_failure].contains(&Action::Rollout))
    }

    /// How long it takes at least until everybody has passed the stages along `on_success`: one wave after the other, with what soaks in
    /// between. Calls, approvals and what children need to start their versions come on top.
    #[must_use]
    pub fn least_duration(&self) -> Duration {
        let path: Vec<usize> =
            self.beginnings().into_iter().flat_map(|first| self.success_path_from(first)).collect();
        let once: Duration = path.iter().filter_map(|at| Some(self.stages.get(*at)?.least_duration())).sum();
        let Some(Rollout { order, soak, .. }) = &self.rollout else { return once };
        let times = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match order {
            Order::Waves(waves) => {
                let between = soak.saturating_mul(times(waves.len().saturating_sub(1)));
                once.saturating_mul(times(waves.len())).saturating_add(between)
            }
            Order::GlobalIncremental => {
                once.saturating_add(soak.saturating_mul(times(path.len().saturating_sub(1))))
            }
            // How many locations there are depends on who takes part.
            Order::Parallel | Order::LocationSequential { .. } => once,
        }
    }

    /// For each stage, whether some way leads to it.
    pub fn reachable(&self) -> Vec<bool> {
        let mut reached = vec![false; self.stages.len()];
        let mut open = self.beginnings();
        while let Some(at) = open.pop() {
            let (Some(mark), Some(stage)) = (reached.get_mut(at), self.stages.get(at)) else { continue };
            if !std::mem::replace(mark, true) {
                for action in [stage.on_success, stage.on_failure] {
                    if let Action::Stage(next) = action {
                        open.push(next);
                    }
                }
            }
        }
        reached
    }

    /// What is run in the place of `action` by a child that does not run some functions (a set by index): stages of those
    /// count as passed. A roll-back: there is nothing left for it to run.
    pub fn without(&self, functions: u64, action: Action) -> Action {
        let mut action = action;
        // A path has no loop, so it is no longer than there are stages.
        for _ in 0..=self.stages.len() {
            match action {
                Action::Stage(at)
                    if self.stages.get(at).is_some_and(|s| functions & (1 << s.subject) != 0) =>
                {
                    action = self.next(at, true);
                }
                other => return other,
            }
        }
        Action::Rollback
    }

    /// When a stage ends that does not get the calls it needs.
    pub fn no_calls(&self) -> NoCalls {
        self.rollout.as_ref().map(|rollout| rollout.no_calls).unwrap_or_default()
    }

    /// What follows a stage.
    pub fn next(&self, stage: usize, success: bool) -> Action {
        match self.stages.get(stage) {
            Some(stage) if success => stage.on_success,
            Some(stage) => stage.on_failure,
            // No stage, nothing tested: the base version is what is safe.
            None => Action::Rollback,
        }
    }
}

/// The edges (stage, 0 for success or 1 for failure) that close a loop, in the order of the file.
pub(super) fn back_edges(edges: &[[Option<Action>; 2]]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Over,
    }
    fn visit(at: usize, edges: &[[Option<Action>; 2]], marks: &mut [Mark], back: &mut Vec<(usize, usize)>) {
        marks[at] = Mark::Open;
        for (which, action) in edges[at].iter().enumerate() {
            let Some(Action::Stage(next)) = *action else { continue };
            match marks[next] {
                Mark::New => visit(next, edges, marks, back),
                Mark::Open => back.push((at, which)),
                Mark::Over => {}
            }
        }
        marks[at] = Mark::Over;
    }
    // As deep as there are stages: 64.
    let mut marks = vec![Mark::New; edges.len()];
    let mut back = Vec::new();
    for start in 0..edges.len() {
        if marks[start] == Mark::New {
            visit(start, edges, &mut marks, &mut back);
        }
    }
    back.sort_unstable();
    back
}
