//! Operators and developers: they submit what comes to their mind, and meddle with what is under way, mostly at the root.

use std::collections::BTreeMap;

use domain::children;
use domain::release::{
    command::Command,
    lifecycle, rollout, stages,
    state::{End, Release, ReleaseState},
};

use super::{
    call::{Caller, Request},
    plans, services,
    world::{Crew, Event, World},
};
use crate::releases::submission;

impl World {
    pub(super) fn operate(&mut self) {
        if self.is_calm {
            return;
        }
        let command = if self.submitted == 0 || (self.submitted < 4 && self.dice.chance(0.2)) {
            Some((0, self.submit()))
        } else if self.is_tree && self.dice.chance(0.2) {
            self.meddle_below()
        } else {
            self.meddle().map(|command| (0, command))
        };
        if let Some((manager, command)) = command {
            self.send(manager, Caller::Operator, 0, Request::Heart(Box::new(command)));
        }
    }

    fn submit(&mut self) -> Command {
        self.submitted += 1;
        let of_functions = self.serving_functions();
        let planned = if self.crew == Crew::Routers {
            let serving = self.serving();
            services::draw(&mut self.dice, self.submitted, self.places, &serving)
        } else if self.crew == Crew::Hybrid {
            let serving = self.serving();
            let (dice, number, places) = (&mut self.dice, self.submitted, self.places);
            match dice.below(4) {
                0 => services::draw(dice, number, places, &serving),
                1 => plans::draw(dice, number, places, &of_functions),
                _ => services::draw_hybrid(dice, number, places, &serving, &of_functions),
            }
        } else {
            plans::draw(&mut self.dice, self.submitted, self.places, &of_functions)
        };
        let checked = language::check(&planned.text);
        let strategy =
            checked.strategy.unwrap_or_else(|| panic!("{:#?}\n{}", checked.diagnostics, planned.text));
        let command = submission(strategy.with_contents(&planned.contents()), &planned.text);
        self.tell(|| planned.text.clone());
        self.overseer.planned.insert(planned.id.clone(), planned.clone());
        self.witnesses[0].planned.insert(planned.id.clone(), planned);
        // Whoever waits for approvals asks soon, and often.
        for _ in 0..4 {
            let at = self.at + 1_000 * self.dice.between(20, 200);
            self.plan(at, Event::Operate);
        }
        command
    }

    /// What serves after the releases that went well, by service.
    fn serving(&self) -> BTreeMap<&'static str, String> {
        let services = self.went_well().into_iter();
        let services = services.flat_map(|planned| planned.services.iter().map(move |of| (planned, of)));
        services.map(|(planned, of)| (of.name, self.overseer.winner(&planned.id, of))).collect()
    }

    /// The same by function: which release has brought it.
    fn serving_functions(&self) -> BTreeMap<&'static str, u64> {
        let of = |planned: &plans::Planned| planned.function.map(|(name, _)| (name, planned.number()));
        self.went_well().into_iter().filter_map(of).collect()
    }

    /// The releases that went well, in the order in which they ended.
    fn went_well(&self) -> Vec<&plans::Planned> {
        let mut ended: Vec<_> = self.managers[0]
            .releases()
            .filter(|release| {
                matches!(release.state, ReleaseState::Over { end: End::Done | End::DoneWithFailures, .. })
            })
            .filter_map(|release| {
                Some((release.ended?.served_ms, self.overseer.planned.get(release.id.as_str())?))
            })
            .collect();
        ended.sort_by_key(|(at, _)| *at);
        ended.into_iter().map(|(_, planned)| planned).collect()
    }

    fn meddle(&mut self) -> Option<Command> {
        let manager = &self.managers[0];
        let asking = manager
            .state
            .releases
            .values()
            .find(|r| matches!(r.state, ReleaseState::AwaitingApproval { .. }));
        if let Some(release) = asking.map(|release| release.id.as_str().to_owned())
            && self.dice.chance(0.7)
        {
            *self.witnesses[0].approvals.entry(release.clone()).or_default() += 1;
            *self.overseer.approvals.entry(release.clone()).or_default() += 1;
            return Some(Command::Rollout(rollout::Command::Approve { release }));
        }
        let ids: Vec<String> = self.overseer.planned.keys().cloned().collect();
        let release = ids[self.dice.below(ids.len())].clone();
        let paused = self.managers[0]
            .state
            .release_by_id(&release)
            .is_some_and(|release| matches!(release.state, ReleaseState::Paused { .. }));
        if paused && self.dice.chance(0.7) {
            self.witnesses[0].resumed.insert(release.clone());
            return Some(Command::Lifecycle(lifecycle::Command::Resume { release }));
        }
        // Who leads own agents does more, and who leads services most.
        let deeds = match self.crew {
            Crew::Routers | Crew::Hybrid => 20,
            Crew::Deployed | Crew::Mixed | Crew::Own | Crew::Fleet if self.owns.is_empty() => 12,
            Crew::Deployed | Crew::Mixed | Crew::Own | Crew::Fleet => 15,
        };
        match self.dice.below(deeds) {
            0 => Some(Command::Lifecycle(lifecycle::Command::Abort {
                release,
                note: Some("an operator said so".to_owned()),
                by: None,
            })),
            1 => Some(Command::Lifecycle(lifecycle::Command::Pause {
                release,
                reason: "an operator looks".to_owned(),
            })),
            2 | 3 => Some(Command::Lifecycle(lifecycle::Command::Retry { release })),
            4 => {
                self.witnesses[0].resumed.insert(release.clone());
                Some(Command::Lifecycle(lifecycle::Command::Resume { release }))
            }
            5 | 6 => {
                let stage = self.dice.pick(&["One", "Two", "Three"]).to_owned();
                self.witnesses[0].cut.insert((release.clone(), stage.clone()));
                self.overseer.cut.insert((release.clone(), stage.clone()));
                Some(Command::Stages(stages::Command::End { release, stage }))
            }
            7 => {
                let index = self.dice.below(self.agents.len().max(1));
                let agent = self.agents.get(index).filter(|agent| agent.parent == 0)?;
                let child = agent.ids.first()?.clone();
                Some(Command::Children(children::Command::Forget { child, even_if_it_owes: false }))
            }
            12 | 13 => {
                let stage = self.dice.pick(&["One", "Two"]).to_owned();
                let skipped = (release.clone(), stage.clone());
                self.witnesses[0].cut.insert(skipped.clone());
                self.overseer.cut.insert(skipped.clone());
                self.witnesses[0].skipped.insert(skipped.clone());
                self.overseer.skipped.insert(skipped);
                Some(Command::Stages(stages::Command::Skip { release, stage }))
            }
            14 => {
                self.witnesses[0].promoted.insert(release.clone());
                self.overseer.promoted.insert(release.clone());
                Some(Command::Rollout(match self.dice.below(2) {
                    0 => rollout::Command::PromoteToGate { release },
                    _ => rollout::Command::Promote { release },
                }))
            }
            15..18 => self.choose_winner(release),
            18 | 19 => Some(self.choose_shares(release)),
            _ => None,
        }
    }

    /// An operator wants another variation to win than the stages lead to, at once or in the end.
    fn choose_winner(&mut self, release: String) -> Option<Command> {
        let [service] = &self.overseer.planned.get(&release)?.services[..] else { return None };
        let new = service.variations.len() - 1;
        let variation = service.variations[1 + self.dice.below(new)].clone();
        if self.dice.chance(0.8) {
            return Some(Command::Rollout(rollout::Command::ChooseWinner { release, variation }));
        }
        self.witnesses[0].promoted.insert(release.clone());
        self.overseer.promoted.insert(release.clone());
        Some(Command::Rollout(rollout::Command::PromoteVariation { release, variation }))
    }

    /// An operator wants a variation to get more or less of the calls in a stage, which may be none of this release, or over.
    fn choose_shares(&mut self, release: String) -> Command {
        let stage = self.dice.pick(&plans::NAMES).to_owned();
        let new = self.dice.pick(&[0, 1, 99, 1_000, 3_333, 7_500, services::WHOLE]);
        let shares = [(stage, new)].into();
        Command::Rollout(rollout::Command::ChooseShares { release, shares })
    }

    /// An operator of a manager below.
    fn meddle_below(&mut self) -> Option<(usize, Command)> {
        let manager = 1 + self.dice.below(self.managers.len() - 1);
        let known: Vec<&Release> = self.managers[manager].state.releases.values().collect();
        let found = known.get(self.dice.below(known.len().max(1)))?;
        let release = found.id.as_str().to_owned();
        if matches!(found.state, ReleaseState::Paused { .. }) && self.dice.chance(0.8) {
            return Some((manager, Command::Lifecycle(lifecycle::Command::Resume { release })));
        }
        let command = match self.dice.below(4) {
            0 => Command::Lifecycle(lifecycle::Command::Abort {
                release,
                note: Some("an operator below said so".to_owned()),
                by: None,
            }),
            1 => Command::Lifecycle(lifecycle::Command::Pause {
                release,
                reason: "an operator below looks".to_owned(),
            }),
            2 => {
                let stage = self.dice.pick(&plans::NAMES).to_owned();
                // Whatever release it belongs to.
                for root in self.overseer.planned.keys() {
                    self.overseer.cut.insert((root.clone(), stage.clone()));
                }
                Command::Stages(stages::Command::End { release, stage })
            }
            _ => Command::Lifecycle(lifecycle::Command::Resume { release }),
        };
        Some((manager, command))
    }
}
