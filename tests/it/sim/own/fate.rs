//! What befalls the machine of an own agent: callers call, the agent is killed, its proxy dies, hands over or isn't reached, versions
//! die, the wall's clock jumps.

use domain::release::command::Reply;

use super::Happening;
use crate::sim::{call::Response, dice::Dice, plans::NAMES, services::SERVICES, world::World};

/// What keeps the chances of operators at agents apart from all others, and how often one acts at all.
const OPERATOR_DICE: u64 = 0x6f70_6572;
const UNDONE: f64 = 0.3;

/// How offers begin that nobody made.
const MADE_UP: &str = "nonsense-";

pub(super) fn is_made_up(offer: &str) -> bool {
    offer.starts_with(MADE_UP)
}

impl World {
    /// What befalls own agents in the storm.
    pub(in crate::sim) fn schedule_owns(&mut self) {
        let until = self.weather.until;
        for index in 0..self.owns.len() {
            let keep = self.dice.pick(&[0, 5_000, 60_000]);
            let drain = self.dice.pick(&[2_000, 30_000]);
            let every = self.dice.pick(&[250, 500, 1_000]);
            let own = &mut self.owns[index];
            (own.keep_base_ms, own.drain_ms, own.calls_every_ms) = (keep, drain, every);
            self.owns[index].calls = self.dice.pick(&[0, 2, 2, 4, 8]);
            if self.owns[index].is_router && self.dice.chance(0.15) {
                self.owns[index].refuses = Some(self.dice.pick(&NAMES));
            }
            if self.owns[index].is_router && self.dice.chance(0.1) {
                self.owns[index].has_no_port_for = Some(self.dice.pick(&SERVICES).0);
            }
            let late = self.dice.chance(0.2);
            let from = if late { self.dice.between(5_000, until) } else { self.dice.between(0, 4_000) };
            self.plan_own(from, index, Happening::Start);
            self.plan_own(from + 1, index, Happening::Calls);
            for _ in 0..self.dice.below(4) {
                let at = self.dice.between(8_000, until);
                self.plan_own(at, index, Happening::Die);
                // Now and then it takes the proxy along.
                if self.dice.chance(0.2) {
                    self.plan_own(at + 1, index, Happening::ProxyEnds { hands_over: false });
                }
            }
            for _ in 0..self.dice.below(3) {
                let at = self.dice.between(8_000, until);
                let hands_over = self.dice.chance(0.6);
                self.plan_own(at, index, Happening::ProxyEnds { hands_over });
            }
            for _ in 0..self.dice.below(3) {
                let at = self.dice.between(8_000, until);
                let until = at + self.dice.pick(&[300, 5_000, 40_000]);
                self.plan_own(at, index, Happening::ProxyIsDeaf { until });
            }
            for _ in 0..self.dice.below(3) {
                let at = self.dice.between(8_000, until);
                self.plan_own(at, index, Happening::VersionDies);
            }
            for _ in 0..self.dice.below(3) {
                let at = self.dice.between(1, until);
                self.plan_own(at, index, Happening::ClockJumps);
            }
            // Apart from all other chances, as those are.
            let own = &self.owns[index];
            let mut operator = Dice::new(self.seed ^ OPERATOR_DICE ^ own.place as u64);
            if !own.is_router && operator.chance(UNDONE) {
                for _ in 0..=operator.below(3) {
                    self.plan_own(operator.between(8_000, until), index, Happening::IsUndone);
                }
            }
        }
    }

    pub(super) fn callers_call(&mut self, index: usize) {
        let at = self.at;
        let own = &mut self.owns[index];
        let services = own.proxy.services().len();
        if own.proxy.is_up && services > 0 {
            for _ in 0..own.calls {
                let service = self.dice.below(services);
                let chosen = own.proxy.call(service, &own.runtime, at, &mut self.dice);
                if let Some(chosen) = chosen {
                    own.watched.check_call(&chosen);
                }
            }
        }
        own.proxy.end_calls(&own.runtime, at, &mut self.dice);
        for lost in std::mem::take(&mut own.proxy.lost) {
            if !lost.is_excused {
                let text = format!(
                    "own agent {index}: a call of {} is lost at {}: {}",
                    lost.service, lost.version, lost.why
                );
                self.overseer.wrong(12, text);
            }
        }
        self.own_found(index);
        let every = self.owns[index].calls_every_ms;
        let next = at + self.dice.between(every / 2, every * 3 / 2);
        self.plan_own(next, index, Happening::Calls);
    }

    pub(super) fn end_proxy(&mut self, index: usize, hands_over: bool) {
        if self.is_calm {
            return;
        }
        let own = &mut self.owns[index];
        if hands_over && own.proxy.is_up {
            own.proxy.begin_life();
            self.tell(|| format!("the proxy of own agent {index} hands over"));
        } else if own.proxy.is_up {
            own.proxy.crash();
            self.tell(|| format!("the proxy of own agent {index} dies"));
            let down = self.dice.pick(&[100, 1_000, 20_000]);
            self.plan_own(self.at + down, index, Happening::ProxyBegins);
        }
    }

    pub(super) fn deafen_proxy(&mut self, index: usize, until: u64) {
        if !self.is_calm {
            self.tell(|| format!("nobody reaches the proxy of own agent {index} until {until}"));
            self.owns[index].proxy.deaf_until = until;
        }
    }

    pub(super) fn undo_at(&mut self, index: usize) {
        let own = &mut self.owns[index];
        let now = own.now(self.at);
        if let Some(core) = own.core.as_mut().filter(|_| !self.is_calm)
            && let Ok(undone) = core.undo(None, Some("it looks odd"), now)
        {
            self.tell(|| format!("the operator of own agent {index} takes back {undone:?}"));
            self.own_turn(index);
        }
    }

    pub(super) fn end_version(&mut self, index: usize) {
        if self.is_calm {
            return;
        }
        let (which, back) = (self.dice.below(8), self.at + self.dice.between(100, 15_000));
        if let Some(version) = self.owns[index].runtime.crash(which, back) {
            self.tell(|| format!("{version} of own agent {index} dies"));
        }
    }

    /// What may become of the manager's answer: nonsense, a refusal by whoever stands in between, an offer that nobody made.
    pub(in crate::sim) fn garble_for_own(&mut self, response: Response) -> Response {
        if !self.dice.chance(self.weather.garbled) {
            return response;
        }
        match (response, self.dice.below(3)) {
            (Response::Lost, _) => Response::Lost,
            (Response::Heart(mut answer), 0) => {
                if let Ok(Reply::Polled { offer, .. }) = &mut *answer {
                    *offer = Some(format!("{MADE_UP}{}", self.dice.below(1_000)));
                }
                Response::Heart(answer)
            }
            (_, 1) => Response::Garbled(Some(self.dice.pick(&[400, 403, 404]))),
            _ => Response::Garbled(None),
        }
    }
}
