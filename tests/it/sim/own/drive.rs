//! The driver of an own agent in virtual time: saves, begins what the core wants, brings back what came of it. And what befalls the
//! machine meanwhile.

use std::collections::BTreeSet;

use ::agent::state_machine::{Act, Errand, Event, StateMachine, TroubleKind};
use domain::release::command::{Form, Refusal, Reply};

use super::{Flight, Handed, Happening, fate, led, link, watch};
use crate::sim::{
    agent::{Deed, What},
    call::{Caller, Request, Response},
    domain::Flaw,
    liveness::Kind,
    overseer::View,
    witness::Violation,
    world::{self, World},
};

/// What an act of the machine's own takes, in milliseconds: on its way, and back.
pub(super) const LOCAL_MS: (u64, u64) = (1, 25);

/// The chance that it dies between what it decided and what it does about it, at each step.
const FATAL: f64 = 0.001;

/// With a flaw: the chance that from now on nothing that is decided goes to the disk, and when whoever does that dies.
const FORGETFUL: f64 = 0.05;
const DIES_MS: (u64, u64) = (30, 6_000);

impl World {
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
            Happening::ProxyIsDeaf { until } => self.deafen_proxy(index, until),
            Happening::VersionDies => self.end_version(index),
            Happening::IsUndone => self.undo_at(index),
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
        let flaw = self.managers[0].flaw;
        let own = &mut self.owns[index];
        own.start(flaw);
        if let Some(state) = own.core.as_ref().map(StateMachine::state) {
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
    pub(super) fn own_turn(&mut self, index: usize) {
        let at = self.at;
        for _ in 0..16 {
            let own = &mut self.owns[index];
            let now = own.now(at);
            let Some(core) = &mut own.core else { return };
            let is_dirty = core.take_dirty();
            if let Some(number) = core.in_force() {
                own.watched.read_back(number);
            }
            let said = core.take_said();
            for said in said {
                self.tell(|| format!("own agent {index} says {said:?}"));
            }
            if is_dirty {
                if self.may_die_now(index) {
                    return;
                }
                self.save_own(index);
                if self.look_at_own(index) || self.may_die_now(index) {
                    return;
                }
            } else if self.is_unsaved(index) {
                return;
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

    /// What was decided goes to the disk before anything follows from it; with a flaw, now and then nothing does until it dies soon after.
    fn save_own(&mut self, index: usize) {
        if self.managers[0].flaw == Some(Flaw::SavesLate) && !self.owns[index].is_forgetful {
            self.owns[index].is_forgetful = !self.is_calm && self.dice.chance(FORGETFUL);
            if self.owns[index].is_forgetful {
                let (least, most) = DIES_MS;
                let at = self.at + self.dice.between(least, most);
                self.plan_own(at, index, Happening::Die);
            }
        }
        if !self.owns[index].is_forgetful {
            self.owns[index].save();
        }
    }

    /// Whether something was decided that nobody was told to save.
    fn is_unsaved(&mut self, index: usize) -> bool {
        let own = &mut self.owns[index];
        if let (Some(core), Some(disk), None) = (&own.core, &own.disk, self.managers[0].flaw) {
            own.watched.check_saved(core.state(), disk);
        }
        self.own_found(index)
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
            chosen: &self.overseer.chosen,
            shared: &self.overseer.shared,
            at: self.at,
        };
        let deeds = own.watched.look(&scene);
        for deed in deeds {
            self.own_did(index, &deed);
        }
        self.own_found(index)
    }

    fn own_did(&mut self, index: usize, deed: &Deed) {
        let deed = &self.in_the_whole(deed);
        let (manager, place) = (self.owns[index].parent, self.owns[index].place);
        self.tell(|| {
            format!(
                "own agent {index} as {} with {}: {:?} {:?}",
                deed.child, deed.offer, deed.what, deed.stage
            )
        });
        let kind = if manager == 0 { Kind::Own } else { Kind::OwnBelow };
        self.note_turnout(manager, kind, deed);
        self.note_went_over(index, deed);
        self.check_routers_back(index, deed);
        if deed.what == What::Accepted {
            self.witnesses[manager].went_on(&self.managers[manager], deed);
        }
        if self.is_tree {
            let view = View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses };
            self.overseer.did(view, manager, deed, place, self.at);
        } else {
            self.witnesses[manager].did(&self.managers[manager], deed, place, self.at);
        }
    }

    /// Whether something is wrong on its machine.
    pub(super) fn own_found(&mut self, index: usize) -> bool {
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
                chosen: &self.overseer.chosen,
                shared: &self.overseer.shared,
                at,
            };
            let table = ::agent::data_plane::table_form(table);
            own.watched.check_table(&table, &scene);
            for service in table.services.iter().filter(|service| led::is_led(service)) {
                if let Err(why) = self.led.note(service) {
                    own.watched.note_wrong(led::STAYS, why);
                }
            }
        }
        if let (Act::Send(number), Errand::Result { offer, summary, next }) = (&act, &errand) {
            own.watched.check_sent(*number, offer, summary, next);
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
        self.own_found(index);
    }

    /// Something it began has come to an end.
    fn own_hears(&mut self, index: usize, process: u32, flight: u64, mut event: Event) {
        let flaw = self.managers[0].flaw;
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
            && answer.as_ref().err().is_none_or(|trouble| trouble.kind == TroubleKind::Refused)
        {
            own.watched.answered(*number);
        }
        if let (Event::Sent { answer: answer @ Err(_), .. }, Some(Flaw::TakesSilenceForAnswer)) =
            (&mut event, flaw)
        {
            *answer = Ok(None);
        }
        if let (Event::EndStage { answer: Ok(answer), .. }, Some(Flaw::ForgetsChoice)) = (&mut event, flaw) {
            answer.winner = None;
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
        let Some(state) = own.core.as_ref().map(StateMachine::state) else { return };
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
        self.check_refused(index, &act, &response);
        let own = &mut self.owns[index];
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

    /// What was shown to an agent it may have.
    fn check_refused(&mut self, index: usize, act: &Act, response: &Response) {
        let (Act::Fetch { offer, .. }, Response::Heart(answer)) = (act, response) else { return };
        if !matches!(**answer, Err(Refusal::NeverOffered { .. })) || fate::is_made_up(offer) {
            return;
        }
        let own = &self.owns[index];
        let is_known = |id: &str| self.managers[own.parent].state.children.key(id).is_some();
        if let Some(id) = own.id().filter(|id| is_known(id)) {
            self.overseer.wrong(11, format!("{offer} was shown to {id} and refused"));
        }
    }

    /// The text of an offer is there; now for its functions.
    fn own_is_handed(
        &mut self,
        index: usize,
        flight: u64,
        offer: &str,
        found: domain::release::command::Offer,
    ) {
        let text = led::bend_text(found.text(offer), self.managers[0].flaw, offer);
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
}
