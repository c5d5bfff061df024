//! Hybrid releases: functions that agents run and services that routers lead, changed by one strategy.
//!
//! The children of such a release are two groups. **Agents** have the functions and the stages of functions; **routers** have the
//! services and the stages of services. The agents go first: what routers send calls to is there, and proven, before the
//! first of them does.
//!
//! In the text the stages are one graph. It begins with a stage of a function, and where the agents' part of it ends, in
//! `rollout` or in the first stage of a service, the routers' part begins. A checked [`Strategy`] has the graph in two
//! parts that nothing joins, each with a beginning of its own: a step from a stage of a function to the first stage of a service
//! is kept as the roll-out that it is for an agent, since what comes after is not its own. So whoever walks along the actions of a
//! stage stays in its group, and nobody has to ask.
//!
//! Invariants of a checked strategy with functions and services:
//! - the first stage is of a function, and no action leads from a stage of one group to one of the other;
//! - each group has a stage;
//! - it has a `rollout` block, for somebody has to say when the routers begin.
//!
//! Counter-example: stages of functions behind those of services, or a stage of a function that leads to a share when it *fails*. Then
//! calls would go to what no agent has proven; both are refused.

use super::{
    diagnostic::quoted,
    findings::Findings,
    parse::{DraftService, DraftStage},
    strategy::{Action, Stage, Strategy},
};

/// The two kinds of children that take part in a release. Only a hybrid one has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// They run functions.
    Agents,
    /// They lead services.
    Routers,
}

impl Group {
    /// In the order in which they have their turn.
    pub const ALL: [Self; 2] = [Self::Agents, Self::Routers];

    /// The one that it is not.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Agents => Self::Routers,
            Self::Routers => Self::Agents,
        }
    }

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Routers => "routers",
        }
    }
}

impl Strategy {
    /// Whether functions and services change, so that agents and routers take part.
    #[must_use]
    pub const fn is_hybrid(&self) -> bool {
        !self.functions.is_empty() && !self.services.is_empty()
    }

    /// Whose a subject is.
    #[must_use]
    pub const fn group_of(&self, subject: usize) -> Group {
        if subject < self.functions.len() { Group::Agents } else { Group::Routers }
    }

    /// Whose a stage is; that of the first subject where there is no such stage.
    #[must_use]
    pub fn group_of_stage(&self, stage: usize) -> Group {
        self.group_of(self.stages.get(stage).map_or(0, |stage| stage.subject))
    }

    /// The subjects of a group, as a set of indices.
    #[must_use]
    pub fn subjects_of(&self, group: Group) -> u64 {
        let is_own = |at: &usize| self.group_of(*at) == group;
        (0..self.subjects_count()).filter(is_own).fold(0, |set, at| set | 1 << at)
    }

    /// The stage with which a group begins.
    #[must_use]
    pub fn first_stage_of(&self, group: Group) -> usize {
        (0..self.stages.len()).find(|at| self.group_of_stage(*at) == group).unwrap_or_default()
    }

    /// With which stages somebody begins: one, or in a hybrid one of each group.
    pub(super) fn beginnings(&self) -> Vec<usize> {
        if !self.is_hybrid() {
            return vec![0];
        }
        Group::ALL.into_iter().map(|group| self.first_stage_of(group)).collect()
    }

    /// What is a group's of a hybrid strategy: a strategy of functions or of services, with nothing of the other. Another strategy
    /// is as it was.
    #[must_use]
    pub fn of_group(&self, group: Group) -> Self {
        if !self.is_hybrid() {
            return self.clone();
        }
        let kept: Vec<usize> =
            (0..self.stages.len()).filter(|at| self.group_of_stage(*at) == group).collect();
        // No action leads out of a group.
        let place = |at: usize| kept.iter().position(|kept| *kept == at);
        let moved = |action: Action| match action {
            Action::Stage(next) => place(next).map_or(Action::Rollback, Action::Stage),
            Action::Rollout | Action::Rollback => action,
        };
        let (functions, services, first) = match group {
            Group::Agents => (self.functions.clone(), Vec::new(), 0),
            Group::Routers => (Vec::new(), self.services.clone(), self.functions.len()),
        };
        let stages = kept.iter().filter_map(|at| self.stages.get(*at)).map(|stage| Stage {
            subject: stage.subject.saturating_sub(first),
            on_success: moved(stage.on_success),
            on_failure: moved(stage.on_failure),
            ..stage.clone()
        });
        let rollout = self.rollout.clone().map(|rollout| rollout.of_stages(&kept));
        Self { functions, services, stages: stages.collect(), rollout, ..self.clone() }
    }
}

/// Checks how the two groups follow each other, and parts them. `subjects` and `edges` are of the stages, in their order; `first_service` is
/// the index of the first subject that is a service.
pub(super) fn part(
    stages: &[DraftStage],
    services: &[DraftService],
    subjects: &[Option<usize>],
    first_service: usize,
    edges: &mut [[Option<Action>; 2]],
    findings: &mut Findings<'_>,
) {
    let Some(service) = services.first().filter(|_| first_service > 0) else { return };
    if findings.is_offer() {
        findings.error(service.at, "contradiction", "an offer has functions or services, and not both");
        return;
    }
    let is_routers = |at: usize| subjects.get(at).copied().flatten().map(|subject| subject >= first_service);
    if !stages.is_empty() && subjects.iter().all(Option::is_some) {
        let places = (0..stages.len()).map(is_routers);
        if !places.clone().any(|is| is == Some(false)) {
            let message = "no stage tests a function, and routers begin only when the agents are done";
            findings.error(service.at, "missing-stage", message).fix(
                "write stages: of type A/B or WaitForSignal for the functions, before those of the services",
            );
            return;
        }
        if !places.clone().any(|is| is == Some(true)) {
            let message = "no stage shares out the calls of a service";
            findings
                .error(service.at, "missing-stage", message)
                .fix("write stages: of type Traffic, or name how the share grows under strategy:");
            return;
        }
    }
    if let (Some(true), Some(stage)) = (is_routers(0), stages.first()) {
        findings
            .error(stage.at, "order-of-groups", "agents go first, and the first stage is of a service")
            .fix("write the stages of functions before those of services");
        return;
    }
    let Some(begin) = (0..stages.len()).find(|at| is_routers(*at) == Some(true)) else { return };
    for (at, (stage, actions)) in stages.iter().zip(edges).enumerate() {
        let Some(of_routers) = is_routers(at) else { continue };
        let places = [&stage.on_success, &stage.on_failure];
        for (which, (action, place)) in actions.iter_mut().zip(places).enumerate() {
            let Some(Action::Stage(next)) = *action else { continue };
            let place = place.as_ref().map_or(stage.at, |name| name.at);
            let name = |at: usize| {
                let name = stages.get(at).and_then(|stage| stage.name.as_ref());
                quoted(name.map_or("", |name| name.value.as_str()))
            };
            match (of_routers, is_routers(next)) {
                (true, Some(false)) => {
                    let message = format!(
                        "stage {} of a service leads to stage {} of a function, and agents go first",
                        name(at),
                        name(next)
                    );
                    findings
                        .error(place, "order-of-groups", message)
                        .fix("go on to another stage of a service, or end in rollout or rollback");
                }
                (false, Some(true)) if which == 0 && next == begin => *action = Some(Action::Rollout),
                (false, Some(true)) => {
                    let message = match which {
                        0 => format!(
                            "stage {} leads to stage {}, and routers begin with the first stage of a service, {}",
                            name(at),
                            name(next),
                            name(begin)
                        ),
                        _ => format!(
                            "stage {} leads to stage {} of a service when it fails: calls would go to what no agent has proven",
                            name(at),
                            name(next)
                        ),
                    };
                    findings.error(place, "order-of-groups", message).fix(if which == 0 {
                        "write rollout"
                    } else {
                        "write rollback"
                    });
                }
                (true, Some(true)) | (false, Some(false)) | (_, None) => {}
            }
        }
    }
}
