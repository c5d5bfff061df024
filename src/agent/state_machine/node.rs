//! What runs and what is in force: what was found out about it, and what is to be so.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Act, CountsReading, Leaving, LedService, Listed, Now, Phase, Place, ReadBack, StartedVersion, State,
    StateMachine, Trouble, TroubleKind,
    acts::{COUNT_EVERY_MS, COUNT_IDLE_EVERY_MS, LIST_EVERY_MS, LOOK_EVERY_MS},
    table::{self, TableInputs},
};
use crate::runtime::{Running, VersionId};
use proxy::{control::form::TableNumber, live::Target};

/// How long what a stage orders may be refused before the release is taken back here: a table of somebody else may be the reason.
const REFUSED_MS: u64 = 5_000;

/// How long a version that nobody here knows is left alone before it is ended.
const STRANGER_MS: u64 = 60_000;

impl StateMachine {
    /// Whether what was decided was read back. Where nothing was ever wanted, whatever was read back is in force for an offer of which
    /// there is nothing here.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        match &self.world.decided {
            Some(_) => self.world.in_force == Some(self.decided()) && !self.world.differs,
            None => self.is_walking() && self.wants_nothing() && self.world.in_force.is_some(),
        }
    }

    /// Nothing was ever wanted here, or that is forgotten: what serves by an earlier table goes on.
    fn wants_nothing(&self) -> bool {
        let State { functions, services, versions, withdrawn, .. } = &self.state;
        functions.is_empty() && services.is_empty() && versions.is_empty() && withdrawn.is_empty()
    }

    /// The number of the table that was decided last.
    pub(super) fn decided(&self) -> TableNumber {
        TableNumber { epoch: self.state.epoch, generation: self.state.generation }
    }

    /// All versions that are to run: those that serve, are tried or kept, and those of an offer that is prepared or walked through.
    pub(super) fn wanted_versions(&self) -> BTreeSet<VersionId> {
        let served = self.state.functions.values().flat_map(|function| function.versions().cloned());
        let plan = self.state.work.as_ref().and_then(|work| match &work.phase {
            Phase::Fetching => None,
            Phase::Preparing(plan) => Some(plan),
            // What one version alone serves is decided once no stage is left.
            Phase::Walking(walk) => walk.testing.is_some().then_some(&walk.plan),
        });
        let planned = plan.into_iter().flat_map(|plan| plan.all().cloned());
        let led = self.state.services.values().flat_map(|led| led.versions().into_iter().cloned());
        let added = self.state.adding.values().map(|adding| adding.version.clone());
        served.chain(led).chain(planned).chain(added).collect()
    }

    /// What runs may have changed: the runtimes are asked at once, and again where they are being asked.
    pub fn list_now(&mut self, now: Now) {
        self.world.list_again = self.world.list_at_ms <= now.ms;
        self.world.list_at_ms = self.world.list_at_ms.min(now.ms);
    }

    pub(super) fn listed(&mut self, listed: Result<Listed, Trouble>, now: Now) {
        let is_old = std::mem::take(&mut self.world.list_again);
        self.world.list_at_ms = if is_old { now.ms } else { now.ms + LIST_EVERY_MS };
        let Listed { found, away } = match listed {
            Ok(listed) => listed,
            Err(trouble) => {
                self.warn(format!("it can't be seen what runs: {}", trouble.text));
                return;
            }
        };
        self.note_away(away);
        let mut there = self.away_with_their_runtime();
        let before = std::mem::take(&mut self.world.strangers);
        for (runtime, versions) in &found {
            for one in versions {
                if self.state.versions.contains_key(&one.version) {
                    there.insert(one.version.clone());
                    if !self.is_elsewhere(&one.version, runtime, &found) {
                        self.note_place(&one.version, runtime, one.target.clone());
                    }
                } else {
                    self.note_stranger(&one.version, &before, now);
                }
            }
        }
        // One that is being started is there, but not healthy yet: it counts once that was answered.
        let kept = match self.world.running.take() {
            None => self.served_before(&there),
            Some(healthy) => healthy.intersection(&there).cloned().collect(),
        };
        self.world.running = Some(kept);
    }

    /// Says which runtimes don't answer any more, and which do again.
    fn note_away(&mut self, away: BTreeMap<String, String>) {
        let before = std::mem::replace(&mut self.world.away, away);
        let away = self.world.away.clone();
        for (runtime, why) in away.iter().filter(|(runtime, _)| !before.contains_key(*runtime)) {
            self.warn(format!(
                "the runtime {runtime} can't be reached, and is asked again; what it serves goes on: {why}"
            ));
        }
        for runtime in before.keys().filter(|runtime| !away.contains_key(*runtime)) {
            self.inform(format!("the runtime {runtime} is reached"));
        }
    }

    /// Versions whose runtime can't be asked: they are taken to be where they were.
    fn away_with_their_runtime(&mut self) -> BTreeSet<VersionId> {
        let is_away = |place: &Place| self.world.away.contains_key(&place.runtime);
        let versions = self.state.places.iter().filter(|(_, place)| is_away(place));
        let versions =
            versions.filter_map(|(version, place)| Some((version.clone(), place.target.parse().ok()?)));
        let versions: Vec<(VersionId, Target)> = versions.collect();
        for (version, target) in &versions {
            self.world.targets.entry(version.clone()).or_insert_with(|| target.clone());
        }
        versions.into_iter().map(|(version, _)| version).collect()
    }

    /// Whether a version that this runtime has is known to be at another one, which was not found to be without it.
    fn is_elsewhere(&self, version: &VersionId, runtime: &str, found: &[(String, Vec<Running>)]) -> bool {
        let Some(place) = self.state.places.get(version).filter(|place| place.runtime != runtime) else {
            return false;
        };
        let lists = |(name, versions): &(String, Vec<Running>)| {
            *name == place.runtime && versions.iter().any(|one| one.version == *version)
        };
        self.world.away.contains_key(&place.runtime) || found.iter().any(lists)
    }

    fn note_place(&mut self, version: &VersionId, runtime: &str, target: Target) {
        let place = Place { runtime: runtime.to_owned(), target: target.to_string() };
        self.world.targets.insert(version.clone(), target);
        if self.state.places.get(version) != Some(&place) {
            self.state.places.insert(version.clone(), place);
            self.dirty();
        }
    }

    fn note_stranger(&mut self, version: &VersionId, before: &BTreeMap<VersionId, u64>, now: Now) {
        let since = before.get(version).copied().unwrap_or(now.ms);
        self.world.strangers.insert(version.clone(), since);
        if now.ms.saturating_sub(since) >= STRANGER_MS && self.is_in_force() {
            self.world.drained.insert(version.clone());
        }
    }

    /// Versions that had a share before the agent was started anew: these were healthy.
    fn served_before(&self, listed: &BTreeSet<VersionId>) -> BTreeSet<VersionId> {
        let walks = self.is_walking();
        let served = self.state.functions.values().flat_map(|function| {
            let others = function.versions().skip(1).filter(|_| walks || function.candidate.is_none());
            std::iter::once(&function.stable).chain(others)
        });
        let led = self.state.services.values().flat_map(LedService::versions);
        served.chain(led).filter(|version| listed.contains(*version)).cloned().collect()
    }

    pub(super) fn started(&mut self, version: VersionId, started: Result<StartedVersion, Trouble>, now: Now) {
        let act = Act::Start(version.clone());
        match started {
            Ok(StartedVersion { target, runtime }) => {
                self.tries.went_well(&act);
                self.note_place(&version, &runtime, target);
                self.world.running.get_or_insert_default().insert(version);
            }
            Err(trouble) => {
                let function = self.state.versions.get(&version).map(|note| note.function.clone());
                let function = function.unwrap_or_default();
                self.warn(format!("a version of {function} could not be started: {}", trouble.text));
                self.tries.failed(act, now.ms);
                self.could_not_start(&version, &trouble.text, now);
                self.could_not_add(&version, &trouble.text);
            }
        }
    }

    pub(super) fn stopped(&mut self, version: VersionId, stopped: Result<(), Trouble>, now: Now) {
        match stopped {
            Ok(()) => {
                self.world.stopping.remove(&version);
                if !self.wanted_versions().contains(&version) {
                    self.state.versions.remove(&version);
                }
                self.state.places.remove(&version);
                self.state.failed.remove(&version);
                self.world.strangers.remove(&version);
                self.world.drained.remove(&version);
                self.world.targets.remove(&version);
                if let Some(running) = &mut self.world.running {
                    running.remove(&version);
                }
                self.dirty();
            }
            Err(trouble) => {
                self.warn(format!("a version could not be stopped: {}", trouble.text));
                self.tries.failed(Act::Stop(version), now.ms);
            }
        }
    }

    /// What is ended from now on doesn't run any more, whatever is wanted of it meanwhile.
    pub(super) fn note_stopping(&mut self, acts: &BTreeSet<Act>, now: Now) {
        for act in acts {
            let Act::Stop(version) = act else { continue };
            let is_fresh = self.tries.may(act, now.ms) && self.world.stopping.insert(version.clone());
            if let Some(running) = self.world.running.as_mut().filter(|_| is_fresh) {
                running.remove(version);
            }
        }
    }

    /// Whatever splits calls may have changed: it is looked at at once, and what was asked before doesn't count.
    pub fn look_now(&mut self, now: Now) {
        self.world.looking += 1;
        self.world.look_at_ms = now.ms;
    }

    pub(super) fn looked(&mut self, looked: Result<ReadBack, Trouble>, now: Now) {
        self.world.look_at_ms = now.ms + LOOK_EVERY_MS;
        match looked {
            Ok(back) => {
                let is_refused = self.tries.failures(&Act::Apply(self.state.generation)) > 0;
                if !is_refused && self.world.proxy_trouble.take().is_some() {
                    let name = self.settings.abilities.name;
                    self.inform(format!("{name} answers again"));
                }
                self.found(back, now);
            }
            Err(trouble) => self.no_proxy(trouble, now),
        }
    }

    /// Whatever splits calls doesn't answer, or refuses: nothing is known of its table until it is asked again, and that is soon.
    fn no_proxy(&mut self, trouble: Trouble, now: Now) {
        if self.world.proxy_trouble.as_ref() != Some(&trouble.text) {
            self.warn(format!("trouble with {}: {}", self.settings.abilities.name, trouble.text));
        }
        self.world.proxy_trouble = Some(trouble.text);
        self.world.in_force = None;
        self.world.taken = None;
        self.world.look_at_ms = now.ms + COUNT_EVERY_MS;
    }

    /// This table is in force.
    fn found(&mut self, ReadBack { number, differs, services }: ReadBack, now: Now) {
        let taken = self.world.taken.take();
        if taken == Some(number.generation) && !differs {
            self.world.refused_since_ms = None;
            self.tries.went_well(&Act::Apply(number.generation));
            // Nobody waits for the next look at the counts.
            self.world.count_at_ms = now.ms;
        } else if let Some(taken) = taken.filter(|taken| *taken == self.state.generation) {
            let TableNumber { epoch, generation } = number;
            let name = self.settings.abilities.name;
            self.warn(format!(
                "{name} took table {taken} and has {epoch}.{generation} in force; tried again"
            ));
            self.tries.failed(Act::Apply(taken), now.ms);
        }
        if is_newer(number, self.decided()) {
            // Somebody else changed it, or what this agent knew of it is lost: what is decided here is newer.
            self.state.epoch = number.epoch;
            self.state.generation = number.generation;
            if let Some(decided) = self.world.decided.take() {
                self.warn("somebody else has put a table in force; it is replaced");
                self.decide(decided);
            }
            // It may name what no table of this agent's does.
            self.world.leaving.clear();
            self.world.drained.clear();
            self.dirty();
        }
        self.world.in_force = Some(number);
        self.world.differs = differs;
        self.world.read_back = services;
        if self.is_in_force() {
            self.world.refused_since_ms = None;
            self.is_dirty |= !std::mem::take(&mut self.state.withdrawn).is_empty();
        }
    }

    /// A table was taken. That it is in force is what it says when it is asked afterwards, and nothing else.
    pub(super) fn applied(&mut self, generation: u64, applied: Result<(), Trouble>, now: Now) {
        let act = Act::Apply(generation);
        match applied {
            Ok(()) => {
                self.world.taken = Some(generation);
                // What was asked before that may tell of the table before.
                self.world.looking += 1;
                self.world.look_at_ms = now.ms;
            }
            Err(trouble) => {
                if trouble.kind == TroubleKind::Waits {
                    self.tries.waits(act, now.ms);
                } else {
                    self.tries.failed(act, now.ms);
                }
                let is_refused = trouble.kind == TroubleKind::Refused;
                let why = trouble.text.clone();
                self.no_proxy(trouble, now);
                self.world.look_at_ms = now.ms;
                if is_refused {
                    self.refused(generation, &why, now);
                }
            }
        }
    }

    /// A table was refused: a service that was never led is given up, and what is tried is taken back once it is refused for good.
    fn refused(&mut self, generation: u64, why: &str, now: Now) {
        let name = self.settings.abilities.name;
        if self.services_were_refused() {
            return self.give_up(&format!("{name} refuses the service: {why}"), now);
        }
        if self.is_refused_for_good(now) {
            return self.take_back_what_is_refused(why, now);
        }
        if let Some(decided) = self.world.decided.take() {
            // One of this number may be in force that says something else.
            self.decide(decided);
            self.tries.go_on_as(&Act::Apply(generation), Act::Apply(self.state.generation), now.ms);
        }
    }

    /// Whether all tables of what is tried were refused for so long that nobody else's table can be the reason.
    fn is_refused_for_good(&mut self, now: Now) -> bool {
        let walk = self.state.work.as_ref().and_then(|work| work.walk());
        if walk.is_none_or(|walk| walk.testing.is_none() && walk.taking_over.is_none()) {
            return false;
        }
        let since = *self.world.refused_since_ms.get_or_insert(now.ms);
        now.ms.saturating_sub(since) >= REFUSED_MS
    }

    /// Other targets can be reached: what is decided is told anew, by a number of its own.
    pub(super) fn outdated(&mut self, generation: u64, outdated: &Result<(), Trouble>, now: Now) {
        match (outdated, self.world.decided.take_if(|_| self.state.generation == generation)) {
            (Ok(()), Some(decided)) => self.decide(decided),
            (Err(_), Some(decided)) => {
                self.world.decided = Some(decided);
                self.tries.failed(Act::Watch(generation), now.ms);
            }
            (_, None) => {}
        }
    }

    /// Nobody is connected to a variation any more, or the deadline for that has passed.
    pub(super) fn emptied(
        &mut self,
        key: (String, String),
        emptied: &Result<Option<u64>, Trouble>,
        now: Now,
    ) {
        let (service, variation) = key;
        match emptied {
            Ok(left) => {
                if let Some(left @ 1..) = *left {
                    self.warn(format!(
                        "{left} connections to {variation} of {service} are left at the deadline for them"
                    ));
                }
                self.world.emptied.insert((service, variation));
            }
            Err(_) => self.tries.failed(Act::Empty { service, variation }, now.ms),
        }
    }

    /// What is to be in force follows from what is to be served.
    pub(super) fn decide_table(&mut self) {
        if self.world.running.is_none() || self.world.in_force.is_none() && self.world.decided.is_none() {
            return;
        }
        if self.world.decided.is_none() && !self.is_complete() {
            return;
        }
        let is_new = self.world.decided.is_none() && self.wants_nothing();
        let functions = table::functions(&self.state.functions, &self.world.targets);
        let decided = TableInputs { functions, services: self.led().collect() };
        if !is_new && self.world.decided.as_ref() != Some(&decided) {
            self.decide(decided);
        }
    }

    /// Whether all that serves runs, or was tried in vain: until then the table of before says more. A runtime that can't be asked may
    /// have what was never seen here.
    fn is_complete(&self) -> bool {
        let is_settled = |version: &VersionId| {
            let was_tried = || self.tries.failures(&Act::Start(version.clone())) > 0;
            self.world.targets.contains_key(version) || (self.world.away.is_empty() && was_tried())
        };
        let of_services = self.state.services.values().filter_map(|led| {
            let main = led.serving().filter(|_| !led.is_tried).unwrap_or(0);
            led.started.get(led.service.variations.get(main)?.name.as_str())
        });
        self.state.functions.values().map(|function| &function.stable).chain(of_services).all(is_settled)
    }

    fn decide(&mut self, decided: TableInputs) {
        self.state.generation += 1;
        self.world.decided = Some(decided);
        self.dirty();
    }

    /// Notes which versions are wanted no more, and that the deadline for the last calls of some has passed. It counts from when
    /// a table that doesn't name them was found in force: as long as the proxy isn't reached, they get calls.
    pub(super) fn note_leaving(&mut self, now: Now) {
        let wanted = self.wanted_versions();
        let (decided, in_force) = (self.decided(), self.world.in_force);
        if self.world.decided.is_none() {
            return;
        }
        let mut before = std::mem::take(&mut self.world.leaving);
        for version in self.state.versions.keys().filter(|version| !wanted.contains(*version)) {
            let fresh = || Leaving { from: decided, since_ms: None };
            let mut leaving = before.remove(version).unwrap_or_else(fresh);
            match in_force {
                Some(number) if is_newer(leaving.from, number) => {
                    // An earlier table is in force again, and may name it.
                    leaving.since_ms = None;
                    self.world.drained.remove(version);
                }
                Some(_) => leaving.since_ms = leaving.since_ms.or(Some(now.ms)),
                None => {}
            }
            self.world.leaving.insert(version.clone(), leaving);
        }
        self.world.drained.retain(|version| !wanted.contains(version));
        self.end_draining(now);
    }

    fn end_draining(&mut self, now: Now) {
        if !self.is_in_force() {
            return;
        }
        let is_late =
            |version: &VersionId, since: u64| now.ms.saturating_sub(since) >= self.drain_ms(version);
        let leaving = self.world.leaving.iter();
        let late = leaving
            .filter(|(version, leaving)| leaving.since_ms.is_some_and(|since| is_late(version, since)));
        let late: Vec<VersionId> = late.map(|(version, _)| version.clone()).collect();
        for version in late {
            if self.world.drained.insert(version.clone()) {
                let what = self.state.versions.get(&version).map_or("", |note| note.function.as_str());
                let text = format!("a version of {what} still had calls at its deadline, and is ended");
                self.warn(text);
            }
        }
    }

    pub(super) fn was_drained(&mut self, version: VersionId, drained: &Result<bool, Trouble>, now: Now) {
        match drained {
            Ok(true) => {
                self.world.drained.insert(version);
            }
            Ok(false) => self.tries.pause(Act::Drain(version), now.ms + COUNT_EVERY_MS),
            Err(_) => self.tries.failed(Act::Drain(version), now.ms),
        }
    }

    pub(super) fn counted(&mut self, number: u64, counted: Result<CountsReading, Trouble>, now: Now) {
        let counted = match counted {
            Ok(counted) => counted,
            Err(trouble) => {
                self.tries.failed(Act::Count(number), now.ms);
                self.no_proxy(trouble, now);
                return;
            }
        };
        let is_walking = self.is_walking();
        let every = if is_walking { COUNT_EVERY_MS } else { COUNT_IDLE_EVERY_MS };
        self.world.count_at_ms = now.ms + every;
        self.world.counting = number + 1;
        self.take_counts(number, &counted, now);
        if let CountsReading::Read(reading) = &counted
            && self.state.cursor != reading.next
        {
            self.state.cursor = reading.next;
            self.is_dirty |= is_walking;
        }
    }
}

fn is_newer(number: TableNumber, than: TableNumber) -> bool {
    (number.epoch, number.generation) > (than.epoch, than.generation)
}
