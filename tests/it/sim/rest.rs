//! The end of a world: the network heals, everybody calls again, and what is left must come to rest and is judged.

use domain::release::state::ReleaseState;

use super::{
    agent::Live,
    overseer::{Machine, View},
    own::Own,
    world::{Event, Weather, World},
};

/// After the storm everybody calls again, and for so long, in milliseconds, things may go on.
const LONGEST_CALM_MS: u64 = 3_600_000;

/// Once all releases are at rest, undos have so long: one that failed rests for five minutes and a quarter more at most.
const AFTERMATH_MS: u64 = 8 * 60_000;

/// What is paused may hold agents for ever, and own agents are much to simulate: nobody waits for them longer.
const HELD_MS: u64 = 15 * 60_000;

/// Between two looks whether all is at rest.
const LOOK_MS: u64 = 20_000;

/// How long the driver of an own agent sleeps at least, in milliseconds.
const CALM_PACE_MS: u64 = 1_500;

impl World {
    pub(super) fn calm(&mut self) {
        self.tell(|| "the storm is over".to_owned());
        self.is_calm = true;
        self.was_garbled = self.weather.garbled > 0.0;
        self.weather = Weather { lost: 0.0, twice: 0.0, slow: 0.0, garbled: 0.0, until: self.at };
        self.queue.retain(|_, event| !matches!(event, Event::Boot { .. }));
        for manager in 0..self.managers.len() {
            if !self.managers[manager].is_up {
                self.boot(manager);
            }
        }
        // Much time may pass until all is at rest.
        self.own_pace_ms = self.own_pace_ms.max(CALM_PACE_MS);
        for own in &mut self.owns {
            own.calm();
        }
        for index in 0..self.agents.len() {
            self.agents[index].mishap = 0.0;
            if !self.agents[index].is_alive {
                let at = self.at + self.dice.between(1, 30_000);
                self.plan(at, Event::Start { index });
            }
        }
        self.queue.retain(|_, event| !matches!(event, Event::Die { .. }));
        self.plan(self.at + LOOK_MS, Event::Look);
    }

    pub(super) fn look(&mut self) {
        for index in 0..self.agents.len() {
            if self.agents[index].is_alive && self.agents[index].hangs() && self.dice.chance(0.2) {
                self.end_process(index);
            }
        }
        let releases = || self.managers.iter().flat_map(|manager| manager.state.releases.values());
        let paused = releases().any(|r| matches!(r.state, ReleaseState::Paused { .. }));
        let waiting = releases().find(|release| match &release.state {
            ReleaseState::Over { .. } => false,
            ReleaseState::Paused(pause) => pause.reason.is_empty(),
            // What is paused may hold a child between two offers, and what changes the same functions.
            _ => !paused,
        });
        match waiting {
            Some(release) if self.at > self.weather.until + LONGEST_CALM_MS => {
                let text = format!("{} is still {}: {:?}", release.id, release.state.name(), release.counts);
                self.witnesses[0].late(text);
            }
            Some(_) => {
                self.rest_since = None;
                self.plan(self.at + LOOK_MS, Event::Look);
            }
            None => {
                let since = *self.rest_since.get_or_insert(self.at);
                let own_is_busy = self.owns.iter().any(|own| !own.is_alive() || !own.is_idle());
                let busy = self.agents.iter().any(|agent| !agent.is_alive || !agent.is_idle())
                    || own_is_busy
                    || self.links.iter().flatten().any(|link| !link.is_idle());
                let longest = if paused && !self.owns.is_empty() {
                    since + HELD_MS
                } else {
                    self.weather.until + LONGEST_CALM_MS
                };
                if self.at < since + AFTERMATH_MS || (busy && self.at < longest) {
                    return self.plan(self.at + LOOK_MS, Event::Look);
                }
                // What is paused may hold an agent in a stage, and nothing else.
                if own_is_busy && !paused {
                    let busy = self.owns.iter().find(|own| !own.is_alive() || !own.is_idle());
                    let text = format!("an own agent is never at rest: {:?}", busy.map(Own::in_hand));
                    self.witnesses[0].late(text);
                }
                self.judge();
                self.queue.clear();
            }
        }
    }

    fn judge(&mut self) {
        for (witness, manager) in self.witnesses.iter_mut().zip(&self.managers) {
            witness.check_promises(manager);
        }
        let view = View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses };
        self.overseer.check_rest(view);
        self.judge_owns();
        self.judge_routers();
        // A release that is paused may hold an agent in a stage: what it owes to another waits so long.
        for agent in self.agents.iter().filter(|agent| agent.is_idle()) {
            for (function, live) in &agent.live {
                let Live::New(release) = live else { continue };
                let id = &agent.settled_as[function];
                // Where nothing tells machines apart nobody knows which one has come back.
                let is_alone = self.agents.iter().filter(|other| other.is_alike(agent)).count() == 1;
                if id != &agent.id && !is_alone {
                    continue;
                }
                if self.is_tree {
                    let (manager, now, release) = (agent.parent, &agent.id, *release);
                    self.overseer.check_machine(
                        View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses },
                        &Machine { manager, id, now, release, function },
                    );
                } else {
                    self.witnesses[0].check_machine(&self.managers[0], id, &agent.id, *release, function);
                }
            }
        }
    }

    /// What runs on the machines of own agents.
    fn judge_owns(&mut self) {
        for (index, own) in self.owns.iter().enumerate() {
            let Some(id) = own.id().filter(|_| own.is_idle()) else { continue };
            for (function, release, settled_as) in own.rolled_out() {
                let view = View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses };
                if self.is_tree {
                    let machine = Machine { manager: own.parent, id: settled_as, now: id, release, function };
                    self.overseer.check_machine(view, &machine);
                } else {
                    let (witness, manager) = (&mut self.witnesses[0], &self.managers[0]);
                    witness.check_machine(manager, settled_as, id, release, function);
                }
            }
            // What somebody between refused is not told again.
            let told = own.told_otherwise(&self.managers[own.parent]).filter(|_| !self.was_garbled);
            if let Some(text) = told {
                self.overseer.wrong(25, format!("own agent {index}: {text}"));
            }
            if let Some(left) = own.leftovers() {
                self.overseer.wrong(16, format!("own agent {index}: {left}"));
            }
        }
    }
}
