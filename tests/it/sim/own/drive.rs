//! The driver of an own agent in virtual time: saves, begins what the core wants, brings back what came of it. And what befalls the
//! machine meanwhile.

use std::collections::BTreeSet;

use ::agent::core::{Act, Core, Errand, Event, Trouble};
use heart::release::command::{Form, Reply};

use super::{Flight, Handed, Happening, link, runtime::Conduct, watch};
use crate::sim::{
    agent::What,
    call::{Caller, Request, Response},
    heart::Flaw,
    overseer::View,
    witness::Violation,
    world::{self, World},
};

/// What an act of the machine's own takes, in milliseconds: on its way, and back.
const LOCAL_MS: (u64, u64) = (1, 25);

/// The chance that it dies between what it decided and what it does about it, at each step.
const FATAL: f64 = 0.001;

/// How long a stop takes at most.
const LONGEST_STOP_MS: u64 = 3_000;

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
                self.plan_own(at, index, Happening::VersionDies);
            }
            for _ in 0..self.dice.below(3) {
                let at = self.dice.between(1, until);
                self.plan_own(at, index, Happening::ClockJumps);
            }
        }
    }

    pub(in crate::sim) fn plan_own(&mut self, at: u64, index: usize, what: Happening) {
        self.plan(at, world::Event::Own { index, what: Box::new(what) });
    }

    pub(in crate::sim) fn own_happens(&mut self, index: usize, what: Happening) {
        match what {
            Happening::Start => self.start_own(index),
            Happening::Die => self.kill_own(index),
            Happening::Wake { process, nap } => {
                let own = &mut self.owns[index];
                if own.process == process && own.nap == nap {
                    let now = own.now(self.at);
                    if let Some(core) = &mut own.core {
                        core.pass(now);
                        self.own_turn(index);
                    }
                }
            }
            Happening::Does { process, flight, act, errand } => {
                let is_there = self.owns[index].process == process && self.owns[index].is_alive();
                // What was sent may arrive although the sender is gone.
                if is_there || self.dice.chance(0.5) {
                    self.own_does(index, (process, flight), act, *errand);
                }
            }
            Happening::Came { process, flight, event } => self.own_hears(index, process, flight, *event),
            Happening::Answered { process, flight, response } => {
                self.own_is_answered(index, process, flight, response);
            }
            Happening::Calls => self.callers_call(index),
            Happening::ProxyEnds { hands_over } => self.end_proxy(index, hands_over),
            Happening::ProxyBegins => {
                if !self.owns[index].proxy.is_up {
                    self.tell(|| format!("the proxy of own agent {index} is back"));
                    self.owns[index].proxy.begin_life();
                }
            }
            Happening::VersionDies => self.end_version(index),
            Happening::ClockJumps => {
                let off = self.dice.pick(&[-86_400_000, -5_000, 5_000, 3_600_000]);
                self.owns[index].wall_off_ms += off;
            }
        }
    }

    fn start_own(&mut self, index: usize) {
        if self.owns[index].is_alive() {
            return;
        }
        self.tell(|| format!("own agent {index} starts"));
        let own = &mut self.owns[index];
        own.start();
        if let Some(state) = own.core.as_ref().map(Core::state) {
            own.watched.begin(state);
        }
        self.own_turn(index);
    }

    pub(in crate::sim) fn kill_own(&mut self, index: usize) {
        if self.is_calm || !self.owns[index].is_alive() {
            return;
        }
        self.tell(|| format!("own agent {index} is killed"));
        self.owns[index].die();
        let down = self.dice.pick(&[100, 2_000, 20_000, 120_000]);
        // No sooner than what was on its way has arrived.
        let down = self.dice.between(60, down);
        self.plan_own(self.at + down, index, Happening::Start);
    }

    /// Saves, looks at what was done, begins what is wanted and goes to sleep.
    fn own_turn(&mut self, index: usize) {
        let at = self.at;
        for _ in 0..16 {
            let own = &mut self.owns[index];
            let now = own.now(at);
            let Some(core) = &mut own.core else { return };
            let is_dirty = core.take_dirty();
            let said = core.take_said();
            for said in said {
                self.tell(|| format!("own agent {index} says {said:?}"));
            }
            if is_dirty {
                if self.may_die_now(index) {
                    return;
                }
                self.owns[index].save();
                if self.look_at_own(index) || self.may_die_now(index) {
                    return;
                }
            }
            let own = &mut self.owns[index];
            let Some(core) = &own.core else { return };
            let acts: BTreeSet<Act> = core.acts(now).into_iter().collect();
            own.flights.retain(|act, _| acts.contains(act) || matches!(act, Act::Stop(_)));
            let flights = &own.flights;
            let may_begin = |act: &Act| match act {
                // A version that is being ended is not started meanwhile.
                Act::Start(version) if flights.contains_key(&Act::Stop(version.clone())) => false,
                act => !flights.contains_key(act),
            };
            let fresh: Vec<Act> = acts.into_iter().filter(may_begin).collect();
            if fresh.is_empty() {
                break;
            }
            for act in fresh {
                self.begin_act(index, act);
            }
        }
        let pace = self.own_pace_ms;
        let own = &mut self.owns[index];
        let now = own.now(at);
        let Some(core) = &own.core else { return };
        let nap = core.wakes_in_ms(now).max(pace);
        own.nap += 1;
        let (process, nap_number) = (own.process, own.nap);
        self.plan_own(at + nap, index, Happening::Wake { process, nap: nap_number });
    }

    fn may_die_now(&mut self, index: usize) -> bool {
        let dies = !self.is_calm && self.dice.chance(FATAL);
        if dies {
            self.kill_own(index);
        }
        dies
    }

    /// Tells the witnesses what an agent did. True: something is wrong.
    fn look_at_own(&mut self, index: usize) -> bool {
        let own = &mut self.owns[index];
        let Some(core) = &own.core else { return false };
        let scene = watch::Scene {
            state: core.state(),
            proxy: &own.proxy,
            runtime: &own.runtime,
            handed: &own.handed,
            at: self.at,
        };
        let deeds = own.watched.look(&scene);
        for deed in deeds {
            self.own_did(index, &deed);
        }
        self.own_found(index)
    }

    fn own_did(&mut self, index: usize, deed: &crate::sim::agent::Deed) {
        let (manager, place) = (self.owns[index].parent, self.owns[index].place);
        self.tell(|| {
            format!(
                "own agent {index} as {} with {}: {:?} {:?}",
                deed.child, deed.offer, deed.what, deed.stage
            )
        });
        if self.is_tree {
            let view = View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses };
            self.overseer.did(view, manager, deed, place, self.at);
        } else {
            self.witnesses[manager].did(&self.managers[manager], deed, place, self.at);
        }
    }

    /// Whether something is wrong on its machine.
    fn own_found(&mut self, index: usize) -> bool {
        let Some(Violation { invariant, text }) = self.owns[index].watched.wrong.take() else { return false };
        self.overseer.wrong(invariant, format!("own agent {index}: {text}"));
        true
    }

    fn begin_act(&mut self, index: usize, act: Act) {
        self.calls += 1;
        let (flight, at) = (self.calls, self.at);
        let own = &mut self.owns[index];
        let Some(core) = &own.core else { return };
        let errand = core.errand(&act);
        if let Errand::Table(table) = &errand {
            let scene = watch::Scene {
                state: core.state(),
                proxy: &own.proxy,
                runtime: &own.runtime,
                handed: &own.handed,
                at,
            };
            own.watched.check_table(table, &scene);
        }
        let request = link::request(own, &act, &errand);
        own.flights.insert(act.clone(), Flight { number: flight, began: at });
        let (parent, process) = (own.parent, own.process);
        if let Some(request) = request {
            self.send(parent, Caller::Whole { index, process }, flight, request);
        } else {
            let (least, most) = LOCAL_MS;
            let at = at + self.dice.between(least, most);
            let errand = Box::new(errand);
            self.plan_own(at, index, Happening::Does { process, flight, act, errand });
        }
    }

    /// What is begun on the machine itself takes effect.
    fn own_does(&mut self, index: usize, (process, flight): (u32, u64), act: Act, errand: Errand) {
        let (at, flaw) = (self.at, self.managers[0].flaw);
        let (least, most) = LOCAL_MS;
        let mut answered_at = at + self.dice.between(least, most);
        let conduct = self.draw_conduct(index);
        let own = &mut self.owns[index];
        own.proxy.end_calls(&own.runtime, at, &mut self.dice);
        let no_proxy = || Trouble::passing("the proxy doesn't answer");
        let is_up = own.proxy.is_up;
        let event = match (act, errand) {
            (Act::List, _) => Event::Listed(Ok(own.runtime.list(at).into())),
            (Act::Look, _) => Event::Looked(if is_up { Ok(own.proxy.number()) } else { Err(no_proxy()) }),
            (Act::Start(version), _) => {
                // Base versions are good.
                let is_new = !version.as_str().ends_with("0000");
                own.runtime.conduct(&version, || if is_new { conduct } else { Conduct::Good });
                let ready = own.runtime.begin(&version, at, &mut self.dice);
                if ready > at {
                    let act = Act::Start(version);
                    let errand = Box::new(Errand::None);
                    return self.plan_own(ready, index, Happening::Does { process, flight, act, errand });
                }
                let started = own.runtime.started(&version).map(Into::into).map_err(Trouble::passing);
                Event::Started { version, started }
            }
            (Act::Apply(generation), Errand::Table(form)) => {
                let applied = if is_up {
                    let applied = own.proxy.apply(&form).map_err(Trouble::refused);
                    own.watched.note_table(&own.proxy, &own.runtime, at);
                    applied
                } else {
                    Err(no_proxy())
                };
                Event::Applied { generation, applied }
            }
            (Act::Drain(version), _) => {
                let name = version.as_str();
                let is_free = !own.proxy.names(name) && own.proxy.in_flight(name) == 0;
                let drained =
                    if is_up { Ok(is_free || flaw == Some(Flaw::StopsAtOnce)) } else { Err(no_proxy()) };
                Event::Drained { version, drained }
            }
            (Act::Stop(version), _) => {
                if let Some(core) = &own.core {
                    let scene = watch::Scene {
                        state: core.state(),
                        proxy: &own.proxy,
                        runtime: &own.runtime,
                        handed: &own.handed,
                        at,
                    };
                    own.watched.check_stop(&version, own.drain_ms, &scene);
                }
                own.runtime.stop(&version);
                answered_at += self.dice.between(0, LONGEST_STOP_MS);
                Event::Stopped { version, stopped: Ok(()) }
            }
            (Act::Count(number), Errand::Cursor(cursor)) => {
                let counted = if is_up { Ok(Box::new(own.proxy.counts(cursor))) } else { Err(no_proxy()) };
                Event::Counted { number, counted }
            }
            (act, errand) => panic!("{act:?} is not carried out with {errand:?}"),
        };
        self.own_found(index);
        let event = Box::new(event);
        self.plan_own(answered_at, index, Happening::Came { process, flight, event });
    }

    fn draw_conduct(&mut self, index: usize) -> Conduct {
        if !self.dice.chance(self.owns[index].mishap) {
            return Conduct::Good;
        }
        let turns = Conduct::Turns(self.dice.between(2_000, 60_000));
        self.dice.pick(&[Conduct::NeverHealthy, Conduct::Bad, Conduct::Bad, Conduct::Flaky, turns])
    }

    /// Something it began has come to an end.
    fn own_hears(&mut self, index: usize, process: u32, flight: u64, event: Event) {
        let own = &mut self.owns[index];
        if own.process != process || !own.is_alive() {
            return;
        }
        let found = own.flights.iter().find(|(_, of)| of.number == flight).map(|(act, _)| act.clone());
        // What it has given up concerns it no more.
        let Some(act) = found else { return };
        own.flights.remove(&act);
        let now = own.now(self.at);
        if let (Act::Send(number), Event::Sent { answer, .. }) = (&act, &event)
            && answer.as_ref().err().is_none_or(|trouble| trouble.text != "no answer")
        {
            own.watched.answered(*number);
        }
        self.note_signal(index, &event);
        let own = &mut self.owns[index];
        if let Some(core) = &mut own.core {
            core.handle(event, now);
        }
        self.own_turn(index);
    }

    /// It is told to end the stage that it is in.
    fn note_signal(&mut self, index: usize, event: &Event) {
        let Event::EndStage { offer, stage, answer: Ok(answer), .. } = event else { return };
        let own = &self.owns[index];
        let Some(state) = own.core.as_ref().map(Core::state) else { return };
        let Some(work) = state.work.as_ref().filter(|work| work.offer == *offer) else { return };
        let Some(testing) = work.walk().and_then(|walk| walk.testing.as_ref()) else { return };
        let Some(handed) = own.handed.get(offer) else { return };
        let is_it = handed.offer.strategy.stages.get(testing.stage).is_some_and(|of| of.name == *stage);
        if !answer.end_stage || answer.then.is_some() || !is_it {
            return;
        }
        let what = if testing.announced { What::ToldToEnd } else { What::ToldEarly };
        let id = state.id.clone().unwrap_or_default();
        let deed = watch::deed(&id, offer, handed, Some(testing.stage), what);
        self.own_did(index, &deed);
    }

    fn own_is_answered(&mut self, index: usize, process: u32, flight: u64, response: Response) {
        let own = &mut self.owns[index];
        if own.process != process || !own.is_alive() {
            return;
        }
        let found = own.flights.iter().find(|(_, of)| of.number == flight);
        let Some((act, began)) = found.map(|(act, of)| (act.clone(), of.began)) else { return };
        let took_ms = self.at - began;
        let time_ms = self.managers[own.parent].now(self.at).wall_ms;
        let event = match (&act, response) {
            (Act::Fetch { offer, .. }, Response::Heart(answer)) if matches!(*answer, Ok(Reply::Offer(_))) => {
                let Ok(Reply::Offer(found)) = *answer else { return };
                let offer = offer.clone();
                return self.own_is_handed(index, flight, &offer, found);
            }
            (Act::Fetch { offer, run }, Response::Functions) => {
                let Some(handed) = own.fetching.remove(&flight) else { return };
                let (offer, run) = (offer.clone(), *run);
                Some(Event::Fetched { offer, run, fetched: link::fetched(&handed) })
            }
            (_, response) => link::event(&act, response, took_ms, time_ms),
        };
        if let Some(mut event) = event {
            if let Event::Reported { sent_ms, .. } = &mut event {
                *sent_ms = own.now(began).ms;
            }
            self.own_hears(index, process, flight, event);
        }
    }

    /// The text of an offer is there; now for its functions.
    fn own_is_handed(
        &mut self,
        index: usize,
        flight: u64,
        offer: &str,
        found: heart::release::command::Offer,
    ) {
        let text = found.text(offer);
        self.tell(|| format!("own agent {index} is handed {offer}\n{text}"));
        let is_withdrawn = found.form == Form::Withdrawn;
        let handed = Handed { offer: found, text };
        let own = &mut self.owns[index];
        let (parent, process) = (own.parent, own.process);
        if is_withdrawn {
            let run = own.flights.iter().find_map(|(act, of)| match act {
                Act::Fetch { run, .. } if of.number == flight => Some(*run),
                _ => None,
            });
            let Some(run) = run else { return };
            let (offer, fetched) = (offer.to_owned(), link::fetched(&handed));
            return self.own_hears(index, process, flight, Event::Fetched { offer, run, fetched });
        }
        own.handed.insert(offer.to_owned(), handed.clone());
        own.fetching.insert(flight, handed);
        self.send(parent, Caller::Whole { index, process }, flight, Request::Functions);
    }

    // What befalls the machine.

    fn callers_call(&mut self, index: usize) {
        let at = self.at;
        let own = &mut self.owns[index];
        let services = own.proxy.services().len();
        if own.proxy.is_up && services > 0 {
            for _ in 0..own.calls {
                let service = self.dice.below(services);
                own.proxy.call(service, &own.runtime, at, &mut self.dice);
            }
        }
        own.proxy.end_calls(&own.runtime, at, &mut self.dice);
        for lost in std::mem::take(&mut own.proxy.lost) {
            if !lost.was_dead && !own.watched.is_late(&lost.version) {
                let text = format!(
                    "own agent {index}: a call of {} is lost at {}: {}",
                    lost.service, lost.version, lost.why
                );
                self.overseer.wrong(12, text);
            }
        }
        let every = self.owns[index].calls_every_ms;
        let next = at + self.dice.between(every / 2, every * 3 / 2);
        self.plan_own(next, index, Happening::Calls);
    }

    fn end_proxy(&mut self, index: usize, hands_over: bool) {
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

    fn end_version(&mut self, index: usize) {
        if self.is_calm {
            return;
        }
        let (which, back) = (self.dice.below(8), self.at + self.dice.between(100, 15_000));
        if let Some(version) = self.owns[index].runtime.crash(which, back) {
            self.tell(|| format!("{version} of own agent {index} dies"));
        }
    }
}
