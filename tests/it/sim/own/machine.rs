//! What an own agent begins on its machine takes effect: at the runtime, and at the proxy.

use ::agent::{
    data_plane::table_form,
    runtime::VersionId,
    state_machine::{Act, CountsReading, Errand, Event, Trouble},
};
use call_metrics::Reading;
use proxy::form::{ServiceForm, TableForm};

use super::{Happening, Own, drive::LOCAL_MS, led, runtime::Conduct};
use crate::sim::{dice::Dice, domain::Flaw, services::WHOLE, world::World};

/// How long a stop takes at most.
const LONGEST_STOP_MS: u64 = 3_000;

/// In the storm: the chance that the proxy says yes to a table and goes on by the one before.
const SAYS_YES_ALONE: f64 = 0.01;

impl World {
    /// What is begun on the machine itself takes effect.
    pub(super) fn own_does(&mut self, index: usize, (process, flight): (u32, u64), act: Act, errand: Errand) {
        // Its targets are what they are.
        if matches!(act, Act::Watch(_)) {
            return;
        }
        let at = self.at;
        let (least, most) = LOCAL_MS;
        let mut answered_at = at + self.dice.between(least, most);
        let own = &mut self.owns[index];
        own.proxy.end_calls(&own.runtime, at, &mut self.dice);
        let event = match (act, errand) {
            (Act::List, _) => Event::Listed(Ok(own.runtime.list(at).into())),
            (Act::Start(version), _) => match self.own_starts(index, version) {
                Ok(event) => event,
                Err((ready, version)) => {
                    let (act, errand) = (Act::Start(version), Box::new(Errand::None));
                    return self.plan_own(ready, index, Happening::Does { process, flight, act, errand });
                }
            },
            (Act::Stop(version), _) => {
                let is_late = own.watched.check_stop(&version, own.drain_ms, &own.proxy, at);
                if is_late {
                    own.proxy.give_up(version.as_str());
                }
                own.runtime.stop(&version);
                answered_at += self.dice.between(0, LONGEST_STOP_MS);
                Event::Stopped { version, stopped: Ok(()) }
            }
            (act, errand) => self.own_asks_proxy(index, act, errand),
        };
        self.own_found(index);
        let event = Box::new(event);
        self.plan_own(answered_at, index, Happening::Came { process, flight, event });
    }

    /// A version is started, or waited for: `Err` gives until when.
    fn own_starts(&mut self, index: usize, version: VersionId) -> Result<Event, (u64, VersionId)> {
        let (at, is_blind) = (self.at, self.managers[0].flaw == Some(Flaw::StartsBlindly));
        let conduct = self.draw_conduct(index);
        let own = &mut self.owns[index];
        // Base versions are good.
        let is_new = !version.as_str().ends_with("0000");
        own.runtime.conduct(&version, || if is_new { conduct } else { Conduct::Good });
        let ready = own.runtime.begin(&version, at, &mut self.dice);
        if let Some(target) = own.runtime.target(&version).filter(|_| is_blind) {
            return Ok(Event::Started { version, started: Ok(target.into()) });
        }
        if ready > at {
            return Err((ready, version));
        }
        let started = own.runtime.started(&version).map(Into::into).map_err(Trouble::passing);
        Ok(Event::Started { version, started })
    }

    fn own_asks_proxy(&mut self, index: usize, act: Act, errand: Errand) -> Event {
        let (at, flaw) = (self.at, self.managers[0].flaw);
        let own = &mut self.owns[index];
        if !own.proxy.is_reached(at) {
            return act.failed(Trouble::passing("the proxy doesn't answer"));
        }
        match (act, errand) {
            (Act::Look(_), _) => {
                let mut back = own.proxy.read_back();
                if flaw == Some(Flaw::SeesWhatWasRefused) {
                    back.services.extend(own.has_no_port_for.map(str::to_owned));
                }
                Event::Looked(Ok(back))
            }
            (Act::Apply(generation), Errand::Table(table)) => {
                let form = table_form(&table);
                let applied = self.own_applies(index, &form).map_err(Trouble::refused);
                Event::Applied { generation, applied }
            }
            (Act::Drain(version), _) => {
                let name = version.as_str();
                let is_free = !own.proxy.names(name) && own.proxy.in_flight(name) == 0;
                Event::Drained { drained: Ok(is_free || flaw == Some(Flaw::StopsAtOnce)), version }
            }
            (Act::Ask { service, variation }, _) => Event::Asked { service, variation, asked: Ok(()) },
            (Act::Count(number), Errand::Cursor { cursor, .. }) => {
                let mut reading = own.proxy.counts(cursor);
                if flaw == Some(Flaw::CountsTwice) {
                    count_twice(&mut reading);
                }
                Event::Counted { number, counted: Ok(CountsReading::Read(Box::new(reading))) }
            }
            (act, errand) => panic!("{act:?} is not carried out with {errand:?}"),
        }
    }

    fn own_applies(&mut self, index: usize, form: &TableForm) -> Result<(), String> {
        let flaw = self.managers[0].flaw;
        let says_yes_alone = !self.is_calm && self.dice.chance(SAYS_YES_ALONE);
        let own = &mut self.owns[index];
        for service in form.services.iter().filter(|service| led::is_led(service)) {
            for (at_variation, variation) in service.variations.iter().enumerate() {
                let (mishap, dice) = (own.mishap, &mut self.dice);
                let draw =
                    || if at_variation > 0 && dice.chance(mishap) { draw_bad(dice) } else { Conduct::Good };
                own.runtime.note_elsewhere(&variation.version, self.at, draw);
            }
        }
        if let Some(refused) = own.refused(form) {
            return Err(format!("the proxy has no place for {refused}"));
        }
        let is_first = own.proxy.services().is_empty();
        let applied = match flaw {
            Some(Flaw::KeepsOldTable) if !is_first => {
                own.proxy.pretend(form);
                Ok(())
            }
            Some(Flaw::DistortsTable) => own.proxy.distort(form),
            _ if says_yes_alone => Ok(()),
            _ => own.proxy.apply(form),
        };
        own.watched.note_table(&own.proxy, &own.runtime, self.at);
        own.watched.follow(&own.proxy);
        self.check_shared(index);
        applied
    }

    fn draw_conduct(&mut self, index: usize) -> Conduct {
        if !self.dice.chance(self.owns[index].mishap) {
            return Conduct::Good;
        }
        draw_bad(&mut self.dice)
    }
}

fn draw_bad(dice: &mut Dice) -> Conduct {
    let turns = Conduct::Turns(dice.between(2_000, 60_000));
    dice.pick(&[Conduct::NeverHealthy, Conduct::Bad, Conduct::Bad, Conduct::Flaky, turns])
}

impl Own {
    /// The service of a table that its proxy can't take.
    fn refused<'t>(&self, form: &'t TableForm) -> Option<&'t str> {
        let refuses = |service: &&ServiceForm| {
            let is_shared = led::shares(service).iter().all(|share| *share < WHOLE);
            let has_no_port = led::is_led(service) && self.has_no_port_for == Some(&*service.name);
            has_no_port
                || is_shared && self.refuses.is_some_and(|stage| led::stage_of(&service.split) == stage)
        };
        form.services.iter().find(refuses).map(|service| service.name.as_str())
    }
}

fn count_twice(reading: &mut Reading) {
    for row in reading.open.iter_mut().flat_map(|interval| &mut interval.rows) {
        row.tally.calls *= 2;
        row.tally.succeeded *= 2;
    }
}
