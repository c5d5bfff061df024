//! Who may get calls on the machine of an own agent: which tables are handed out, where calls really go, and which versions are stopped.
//!
//! - A table gives a share to what an offer in hand orders, or to what serves, alone; and to nothing that was not healthy before.
//! - A number names one table for ever, whichever process of the agent hands it out.
//! - A call goes by a table that was handed out: the one that was read back last, or one on its way since. So no call is answered by a
//!   version that has no share in such a table.
//! - A version is stopped when no table names it and nobody holds it, or its deadline has passed since no table names it.

use std::collections::{BTreeMap, BTreeSet};

use ::agent::runtime::VersionId;
use ::proxy::{
    control::form::TableNumber,
    form::{ServiceForm, TableForm},
};
use domain::release::command::Form;

use super::{
    led,
    proxy::{Chosen, Proxy},
    runtime::Runtime,
    watch::{SHARES, Scene},
};

/// The place of the new version among the variations.
const TRIED: usize = 1;

/// All shares, in units of 0.01 %.
pub(super) const WHOLE: u16 = 10_000;

/// Epoch and generation.
type Number = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Versions that may serve alone, by function.
    bases: BTreeMap<String, BTreeSet<VersionId>>,
    /// Offers of which these were taken.
    read: BTreeSet<String>,
    /// All tables that were handed out, as they were written.
    numbers: BTreeMap<Number, String>,
    /// Those of them that may be in force.
    handed_out: BTreeMap<Number, TableForm>,
    /// Since when no table names a version.
    unnamed: BTreeMap<String, u64>,
}

impl Shares {
    /// A table is on its way to the proxy. `rolled_out`: what runs for good, by function.
    pub fn hand_out(
        &mut self,
        table: &TableForm,
        rolled_out: &BTreeMap<&str, &str>,
        scene: &Scene<'_>,
    ) -> Result<(), (u8, String)> {
        let number = (table.epoch, table.generation);
        let text = serde_json::to_string(table).unwrap();
        let before = self.numbers.entry(number).or_insert_with(|| text.clone());
        if *before != text {
            return Err((SHARES, format!("table {number:?} is {before}, and now {text}")));
        }
        self.handed_out.insert(number, table.clone());
        for service in &table.services {
            if led::is_led(service) {
                let ordered = led::check_ordered(service, scene);
                ordered
                    .map_err(|why| (led::ORDERED, format!("{} gets at {}: {why}", service.name, scene.at)))?;
                continue;
            }
            for (at, variation) in service.variations.iter().enumerate() {
                let share = share(service, at);
                if share == 0 {
                    continue;
                }
                let wrong = |why: &str| {
                    let text =
                        format!("{} of {} gets {share} at {}: {why}", variation.name, service.name, scene.at);
                    (SHARES, text)
                };
                if !scene.runtime.was_healthy(&variation.version) {
                    return Err(wrong("it is not healthy yet"));
                }
                let may_be = if at == 0 {
                    let of = rolled_out.get(service.name.as_str()).copied();
                    self.may_serve(service, &variation.version, of, scene)
                } else {
                    may_be_tried(service, share, scene)
                };
                may_be.map_err(|why| wrong(&why))?;
            }
        }
        Ok(())
    }

    /// A table is in force: it is what was handed out under its number.
    pub fn check_buckets(&self, form: &TableForm) -> Result<(), String> {
        let told = self.handed_out.get(&(form.epoch, form.generation));
        told.map_or(Ok(()), |told| led::check_buckets(form, told))
    }

    /// The proxy was asked, and has this table: earlier ones are over.
    pub fn read_back(&mut self, TableNumber { epoch, generation }: TableNumber) {
        self.handed_out.retain(|number, _| *number >= (epoch, generation));
    }

    /// Whether a version may be the one that answers whenever nothing is tried.
    fn may_serve(
        &mut self,
        service: &ServiceForm,
        version: &str,
        rolled_out: Option<&str>,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        for (offer, handed) in scene.handed {
            if !self.read.insert(offer.clone()) {
                continue;
            }
            let Ok(fetched) = super::link::fetched(handed) else { continue };
            let functions = &handed.offer.strategy.functions;
            for ([base, _], function) in fetched.versions.iter().flatten().zip(functions) {
                self.bases.entry(function.name.clone()).or_default().insert(base.clone());
            }
        }
        let is_base =
            self.bases.get(&service.name).is_some_and(|of| of.iter().any(|base| base.as_str() == version));
        if is_base || rolled_out == Some(version) {
            Ok(())
        } else {
            Err(format!("{version} is no base version, and was not rolled out"))
        }
    }

    /// A call has gone somewhere.
    pub fn check_call(&self, chosen: &Chosen) -> Result<(), String> {
        let is_by = |service: &ServiceForm| {
            let mut versions = service.variations.iter().map(|variation| &variation.version);
            let shares: Vec<u16> = (0..service.variations.len()).map(|at| share(service, at)).collect();
            service.name == chosen.service
                && versions.by_ref().eq(&chosen.versions)
                && shares == chosen.shares
                && shares[chosen.at] > 0
        };
        let is_handed_out = self.handed_out.values().flat_map(|table| &table.services).any(is_by);
        is_handed_out.then_some(()).ok_or_else(|| {
            let numbers: Vec<_> = self.handed_out.keys().collect();
            format!("a call goes by what none of the tables {numbers:?} says: {chosen:?}")
        })
    }

    /// Another table is in force.
    pub fn note_table(&mut self, proxy: &Proxy, runtime: &Runtime, at: u64) {
        self.unnamed.retain(|version, _| !proxy.names(version));
        for version in runtime.versions().filter(|version| !proxy.names(version.as_str())) {
            self.unnamed.entry(version.to_string()).or_insert(at);
        }
    }

    /// A version is stopped. Gives whether it has calls in flight, for which it had its time.
    pub fn check_stop(
        &self,
        version: &VersionId,
        drain_ms: u64,
        proxy: &Proxy,
        at: u64,
    ) -> Result<bool, String> {
        if proxy.is_up && proxy.names(version.as_str()) {
            return Err(format!("{version} is stopped, and the table names it"));
        }
        let held = proxy.in_flight(version.as_str());
        let since = self.unnamed.get(version.as_str());
        if held > 0 && since.is_none_or(|since| at < since + drain_ms) {
            return Err(format!(
                "{version} is stopped at {at}, free since {since:?}, and {held} calls hold it"
            ));
        }
        Ok(held > 0)
    }
}

fn share(service: &ServiceForm, at: usize) -> u16 {
    led::shares(service).get(at).copied().unwrap_or_default()
}

/// What the new version of a service really gets, and which versions it names.
pub(super) fn in_force<'a>(proxy: &'a Proxy, name: &str) -> Option<(Vec<&'a str>, u16)> {
    let service = proxy.services().iter().find(|service| service.name() == name)?;
    let digests = service.versions().iter().map(|version| version.digest()).collect();
    Some((digests, service.shares().get(TRIED).copied().unwrap_or_default()))
}

/// What each variation of a service really gets.
pub(super) fn shares_in_force(proxy: &Proxy, name: &str) -> Option<BTreeMap<String, u16>> {
    let service = proxy.services().iter().find(|service| service.name() == name)?;
    let names = service.versions().iter().map(|version| version.name().to_owned());
    Some(names.zip(service.shares().iter().copied()).collect())
}

/// Whether the stage in hand orders these shares.
fn may_be_tried(service: &ServiceForm, share: u16, scene: &Scene<'_>) -> Result<(), String> {
    let work = scene.state.work.as_ref().ok_or("nothing is in hand")?;
    let walk = work.walk().ok_or("no stage is in hand")?;
    let is_rolled_out = walk.ending.as_ref().is_some_and(|ending| ending.next == "rollout");
    // It has all calls before it serves alone, with the base version beside it for those that it fails.
    if walk.taking_over.is_some() && is_rolled_out && share == WHOLE {
        return Ok(());
    }
    let testing = walk.testing.as_ref().ok_or("no stage is tested")?;
    let handed = scene.handed.get(&work.offer).ok_or_else(|| format!("{} was not handed out", work.offer))?;
    match handed.offer.form {
        Form::InPlace { .. } => {}
        Form::Rollout { .. } => return Ok(()),
        other => return Err(format!("{}, which is {other:?}, orders no shares", work.offer)),
    }
    let stage = handed.offer.strategy.stages.get(testing.stage).ok_or("there is no such stage")?;
    let function = &handed.offer.strategy.functions[stage.subject].name;
    let ordered = u16::from(stage.new_traffic) * 100;
    if *function == service.name && ordered == share {
        Ok(())
    } else {
        Err(format!("{} of {} orders {ordered} for {function}", stage.name, work.offer))
    }
}
