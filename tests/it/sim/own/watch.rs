//! What an own agent does, read off its state and its tables: for the witnesses, and for what must hold on its machine.
//!
//! - What [`shares`](super::shares) says of tables, calls and versions.
//! - A stage is reported as ended when what follows is in force, with the calls that were made under its shares.
//! - A result is kept until it is answered, and says the same however often it is sent.
//! - What was decided is saved before anything follows from it.

use std::collections::{BTreeMap, BTreeSet};

use ::agent::{measure::BASE, runtime::VersionId, state_machine::State};
use ::proxy::{control::form::TableNumber, form::TableForm};
use domain::release::command::Form;
use language::Subject;
use model::{ReleaseKey, StageStatus};
use protocol::StageSummary;

use super::{
    Handed, led,
    proxy::{Chosen, Proxy, Truth},
    runtime::Runtime,
    shares::{self, Shares},
};
use crate::sim::{
    agent::{Deed, What},
    witness::Violation,
};

/// No call is answered by a version without a share in a table that was handed out.
pub const SHARES: u8 = 15;
/// What an agent says is what was.
pub const TELLS: u8 = 16;

/// What of the state is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Glance {
    offer: Option<(String, u64)>,
    is_prepared: bool,
    /// The stage that is tested: its index, the how manyth it is, and whether it was announced.
    testing: Option<(usize, u32, bool)>,
    /// That one has failed, and keeps its shares.
    is_kept: bool,
    /// The stage that was decided, and how.
    ending: Option<(usize, u8)>,
    stables: BTreeMap<String, String>,
    /// Results that are owed, and whether they only say that a stage waits.
    owed: BTreeMap<u64, bool>,
}

impl Glance {
    /// `before`: a service that is decided in this very moment has still what it had.
    fn of(state: &State, before: &Self) -> Self {
        let work = state.work.as_ref();
        let walk = work.and_then(|work| work.walk());
        let testing = walk.and_then(|walk| walk.testing.as_ref());
        let begun = work.map_or(0, |work| work.begun);
        Self {
            offer: work.map(|work| (work.offer.clone(), work.run)),
            is_prepared: work.is_some_and(|work| work.plan().is_some()),
            testing: testing
                .map(|testing| (testing.stage, begun, testing.announced || testing.kept.is_some())),
            is_kept: testing.is_some_and(|testing| testing.kept.is_some()),
            ending: walk.and_then(|walk| walk.ending.as_ref()).map(|ending| (ending.stage, ending.status)),
            stables: stables(state, &before.stables),
            owed: state.owed.iter().map(|owed| (owed.number, owed.waits)).collect(),
        }
    }
}

/// What serves for good, by name.
fn stables(state: &State, before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let functions = state.functions.iter().map(|(name, of)| (name.clone(), of.stable.to_string()));
    let walk = state.work.as_ref().and_then(|work| work.walk());
    let is_settled = walk.is_none_or(|walk| walk.testing.is_none() && walk.taking_over.is_none());
    let services = state.services.iter().filter_map(|(name, led)| {
        let offer = state.work.as_ref().map(|work| &work.offer);
        let serving = if is_settled || offer != Some(&led.offer) {
            led.serving().map(|at| led.service.variations[at].name.to_string())
        } else {
            before.get(name).cloned()
        };
        Some((name.clone(), serving?))
    });
    functions.chain(services).collect()
}

/// A stage that was decided, as far as what is reported of it is checked.
#[derive(Debug, Clone)]
struct Decided {
    split: String,
    /// The name of the stable variation.
    stable: String,
    /// Calls of both sides that had ended by then.
    least: [u64; 2],
}

#[derive(Debug, Default)]
pub struct Watched {
    glance: Glance,
    took: BTreeSet<String>,
    begun: BTreeSet<(u64, u32)>,
    /// Walks of which a stage was begun, by offer.
    runs: BTreeMap<String, u64>,
    split: String,
    decided: Option<Decided>,
    answered: BTreeSet<u64>,
    rolled_out: BTreeMap<String, (String, ReleaseKey, String)>,
    /// What was sent under which number.
    sent: BTreeMap<u64, String>,
    shares: Shares,
    followed: led::Followed,
    pub(super) wrong: Option<Violation>,
}

/// What is looked at.
pub struct Scene<'a> {
    pub state: &'a State,
    pub proxy: &'a Proxy,
    pub runtime: &'a Runtime,
    pub handed: &'a BTreeMap<String, Handed>,
    /// The variations that operators chose, by release.
    pub chosen: &'a BTreeMap<String, usize>,
    /// The shares that they chose: by release, stage, and what the variation beside the stable one gets.
    pub shared: &'a BTreeSet<(String, String, u16)>,
    pub at: u64,
}

impl Watched {
    pub fn rolled_out(&self) -> impl Iterator<Item = (&str, ReleaseKey, &str)> {
        self.rolled_out.iter().map(|(function, (_, release, id))| (function.as_str(), *release, id.as_str()))
    }

    pub fn note_wrong(&mut self, invariant: u8, text: String) {
        self.wrong(invariant, text);
    }

    fn wrong(&mut self, invariant: u8, text: String) {
        self.wrong.get_or_insert(Violation { invariant, text });
    }

    /// A process begins with what was saved: what was not has never been.
    pub fn begin(&mut self, state: &State) {
        self.glance = Glance::of(state, &self.glance);
        if self.glance.ending.is_none() {
            self.decided = None;
        }
    }

    /// A result was answered, whatever it was answered with.
    pub fn answered(&mut self, number: u64) {
        self.answered.insert(number);
    }

    /// What the agent has done since it was looked at last.
    pub fn look(&mut self, scene: &Scene<'_>) -> Vec<Deed> {
        let now = Glance::of(scene.state, &self.glance);
        if now == self.glance {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.glance, now.clone());
        let mut deeds = Vec::new();
        let handed =
            now.offer.as_ref().or(before.offer.as_ref()).and_then(|(offer, _)| scene.handed.get(offer));
        if let (Some(handed), Some((offer, run))) = (handed, now.offer.as_ref().or(before.offer.as_ref())) {
            let reporter = Teller { offer, handed, child: scene.state.id.clone().unwrap_or_default() };
            self.tell_work(&reporter, *run, (&before, &now), scene, &mut deeds);
        }
        // With nothing in hand, an operator wants it so.
        self.rolled_out.retain(|name, (version, ..)| now.stables.get(name) == Some(version));
        self.check_owed(&before, &now, scene);
        deeds
    }

    fn tell_work(
        &mut self,
        reporter: &Teller<'_>,
        run: u64,
        (before, now): (&Glance, &Glance),
        scene: &Scene<'_>,
        deeds: &mut Vec<Deed>,
    ) {
        if now.is_prepared && self.took.insert(reporter.offer.to_owned()) {
            deeds.push(reporter.deed(None, What::Took));
        }
        // A stage is decided before the next one begins, and both may be seen at once.
        // One that is taken back before what follows is in force was decided, and counts as it did.
        if let Some((stage, status)) = now.ending
            && before.ending.map(|(stage, _)| stage) != Some(stage)
        {
            let stable = reporter.stable(stage);
            let least = truth(scene.proxy, &self.split, &stable).map(|side| side.ended);
            self.decided = Some(Decided { split: self.split.clone(), stable, least });
            let status = StageStatus::from_wire(status.into()).unwrap();
            let was_ready = matches!(before.testing, Some((of, _, true)) if of == stage);
            let is_passed_over =
                status == StageStatus::Completed && !was_ready && reporter.skips(stage, scene);
            let ending =
                scene.state.work.as_ref().and_then(|work| work.walk()).and_then(|walk| walk.ending.as_ref());
            let what = match ending {
                Some(ending) if ending.is_kept => What::Accepted,
                _ if is_passed_over => What::PassedOver,
                _ => What::Ended(status),
            };
            deeds.push(reporter.deed(Some(stage), what));
        }
        if let Some((stage, begun, announced)) = now.testing {
            if self.begun.insert((run, begun)) {
                let before = *self.runs.entry(reporter.offer.to_owned()).or_insert(run);
                if before != run {
                    // What it has begun it goes on with, and never begins anew.
                    deeds.push(reporter.deed(None, What::Took));
                }
                deeds.push(reporter.deed(Some(stage), What::Began));
            }
            let testing = scene.state.work.as_ref().and_then(|work| work.walk()?.testing.as_ref());
            self.split = testing.map_or_else(String::new, |testing| testing.counts.split().to_owned());
            let was_announced = matches!(before.testing, Some((_, of, true)) if of == begun);
            if announced && !was_announced {
                deeds.push(reporter.deed(Some(stage), What::Ready));
            }
        }
        let plan = scene.state.work.as_ref().and_then(|work| work.plan());
        for (name, stable) in &now.stables {
            if before.stables.get(name) == Some(stable) {
                continue;
            }
            let is_new = plan.is_some_and(|plan| {
                plan.versions.iter().any(|[base, new]| new.as_str() == stable && base != new)
            }) || reporter.is_new(name, stable);
            if is_new {
                let entry = (stable.clone(), reporter.handed.offer.release, reporter.child.clone());
                self.rolled_out.insert(name.clone(), entry);
                deeds.push(reporter.deed(None, What::RolledOut));
            } else if self.rolled_out.remove(name).is_some() {
                deeds.push(reporter.deed(None, What::RolledBack));
            }
        }
    }

    /// Results go when they are answered, and come when what they say is so.
    fn check_owed(&mut self, before: &Glance, now: &Glance, scene: &Scene<'_>) {
        for (number, waits) in &before.owed {
            if !now.owed.contains_key(number) && !waits && !self.answered.contains(number) {
                self.wrong(TELLS, format!("result {number} is gone, and nobody has answered it"));
            }
        }
        for owed in scene.state.owed.iter().filter(|owed| !before.owed.contains_key(&owed.number)) {
            let is_of_operator = owed.summary.why.as_ref().is_some_and(|why| why.cause == "operator");
            if owed.waits || is_of_operator || owed.summary.status == StageStatus::Error {
                continue;
            }
            let Some(handed) = scene.handed.get(&owed.offer) else { continue };
            self.check_in_force(handed, &owed.next, scene);
            self.check_services_in_force(&owed.offer, &owed.next, scene);
            self.check_counts(&owed.summary, scene.proxy);
        }
    }

    /// What follows an ended stage is in force before the stage is reported.
    fn check_in_force(&mut self, handed: &Handed, next: &str, scene: &Scene<'_>) {
        let Ok(fetched) = super::link::fetched(handed) else { return };
        let functions = &handed.offer.strategy.functions;
        for ([base, new], function) in fetched.versions.iter().flatten().zip(functions) {
            let Some((digests, share)) = shares::in_force(scene.proxy, &function.name) else { continue };
            let is_so = match next {
                "rollout" => digests[0] == new.as_str() && share == 0,
                "rollback" => digests[0] == base.as_str() && share == 0,
                _ => true,
            };
            if !is_so {
                let text = format!("{next} of {} is reported, and {digests:?} have {share}", function.name);
                self.wrong(SHARES, text);
            }
        }
    }

    /// The same of services that this offer leads.
    fn check_services_in_force(&mut self, offer: &str, next: &str, scene: &Scene<'_>) {
        let Some(handed) = scene.handed.get(offer) else { return };
        for service in &handed.offer.strategy.services {
            let is_its = scene.state.services.get(service.name()).is_some_and(|led| led.offer == offer);
            let shares = shares::shares_in_force(scene.proxy, service.name()).filter(|_| is_its);
            let Some(shares) = shares else { continue };
            let stable = service.variations[0].name.as_str();
            let of_stable = shares.get(stable).copied().unwrap_or_default();
            let is_so = match next {
                "rollout" => of_stable == 0 && shares.values().any(|share| *share == shares::WHOLE),
                "rollback" => of_stable == shares::WHOLE,
                _ => true,
            };
            if !is_so {
                let text = format!("{next} of {} is reported, and its shares are {shares:?}", service.name());
                self.wrong(SHARES, text);
            }
        }
    }

    /// A result leaves the machine: under its number it says the same for ever, whichever process sends it.
    pub fn check_sent(&mut self, number: u64, offer: &str, summary: &StageSummary, next: &str) {
        let text = format!("{offer} {next} {}", serde_json::to_string(summary).unwrap());
        let before = self.sent.entry(number).or_insert_with(|| text.clone());
        if *before != text {
            let text = format!("result {number} was {before}, and is {text}");
            self.wrong(TELLS, text);
        }
    }

    /// A table is on its way to the proxy.
    pub fn check_table(&mut self, table: &TableForm, scene: &Scene<'_>) {
        let rolled_out =
            self.rolled_out.iter().map(|(name, (version, ..))| (name.as_str(), version.as_str())).collect();
        if let Err((invariant, why)) = self.shares.hand_out(table, &rolled_out, scene) {
            self.wrong(invariant, why);
        }
    }

    /// What the agent found in force.
    pub fn read_back(&mut self, number: TableNumber) {
        self.shares.read_back(number);
    }

    pub fn check_call(&mut self, chosen: &Chosen) {
        if let Err(why) = self.shares.check_call(chosen) {
            self.wrong(SHARES, why);
        }
    }

    /// A table is in force, or still.
    pub fn follow(&mut self, proxy: &Proxy) {
        let form = proxy.form();
        if let Err(why) = self.shares.check_buckets(&form) {
            self.wrong(SHARES, why);
        }
        if let Err(why) = self.followed.look(&form) {
            self.wrong(led::STAYS, why);
        }
    }

    pub fn note_table(&mut self, proxy: &Proxy, runtime: &Runtime, at: u64) {
        self.shares.note_table(proxy, runtime, at);
    }

    /// A version is stopped. True: it has calls, for which it had its time.
    pub fn check_stop(&mut self, version: &VersionId, drain_ms: u64, proxy: &Proxy, at: u64) -> bool {
        let checked = self.shares.check_stop(version, drain_ms, proxy, at);
        checked.unwrap_or_else(|why| {
            self.wrong(SHARES, why);
            false
        })
    }

    /// What was decided and would be forgotten by whoever dies now.
    pub fn check_saved(&mut self, state: &State, disk: &State) {
        if let Some(what) = unsaved(state, disk) {
            self.wrong(TELLS, format!("{what} changed, and nobody was told to save it"));
        }
    }

    /// A result counts the calls under the shares of its stage, each once.
    fn check_counts(&mut self, summary: &StageSummary, proxy: &Proxy) {
        // The next stage may be decided before this one is told.
        let is_it =
            |decided: &mut Decided| summary.stage_name.as_deref() == Some(led::stage_of(&decided.split));
        let Some(Decided { split, stable, least }) = self.decided.take_if(is_it) else { return };
        let is_torn = proxy.torn.contains(&split);
        // Of more than two each is told by its name.
        let others = summary.variations.iter().skip(1).map(|variation| variation.calls);
        let others = if summary.variations.is_empty() { summary.f2_calls } else { Some(others.sum()) };
        let said = [summary.f1_calls, others].into_iter().zip(least);
        for ((said, least), truth) in said.zip(truth(proxy, &split, &stable)) {
            let Some(said) = said else { continue };
            if said > truth.ended || (said < least && !is_torn) {
                let text = format!("{said} calls are told of {split} beside {stable}: {least} to {truth:?}");
                self.wrong(TELLS, text);
            }
        }
    }
}

/// What happened under a split: of the stable variation, and of all others.
fn truth(proxy: &Proxy, split: &str, stable: &str) -> [Truth; 2] {
    let mut sides = [Truth::default(); 2];
    for ((_, variation), truth) in proxy.truth.iter().filter(|((of, _), _)| of == split) {
        sides[usize::from(variation != stable)].add(*truth);
    }
    sides
}

/// What differs from what is on disk, beside what is only counted.
fn unsaved(state: &State, disk: &State) -> Option<&'static str> {
    let work = |state: &State| {
        let work = state.work.as_ref();
        work.map(|work| (work.skipped.clone(), work.shares.clone(), work.begun))
    };
    let glance = |state: &State| Glance::of(state, &Glance::default());
    if glance(state) != glance(disk) || work(state) != work(disk) {
        Some("its work")
    } else if state.functions != disk.functions
        || state.adding != disk.adding
        || state.services != disk.services
    {
        Some("what it serves")
    } else if state.versions != disk.versions {
        Some("which versions it knows")
    } else if (&state.id, state.epoch, state.generation, state.count)
        != (&disk.id, disk.epoch, disk.generation, disk.count)
    {
        Some("a number")
    } else {
        None
    }
}

/// By what deeds are told.
struct Teller<'a> {
    offer: &'a str,
    handed: &'a Handed,
    child: String,
}

impl Teller<'_> {
    /// Whether it was told to pass over a stage.
    fn skips(&self, stage: usize, scene: &Scene<'_>) -> bool {
        let name = self.handed.offer.strategy.stages.get(stage).map(|stage| &stage.name);
        let work = scene.state.work.as_ref();
        name.zip(work).is_some_and(|(name, work)| work.skipped.contains(name))
    }

    /// What the stable variation of a stage is called.
    fn stable(&self, stage: usize) -> String {
        let strategy = &self.handed.offer.strategy;
        // What isn't walked through as it was written is about one subject alone.
        let subject = match self.handed.offer.form {
            Form::InPlace { .. } => strategy.stages.get(stage).map(|stage| stage.subject),
            Form::Undo { function } | Form::Rollout { function } => Some(usize::from(function)),
            _ => None,
        };
        match subject.and_then(|subject| strategy.subject(subject)) {
            Some(Subject::Service(service)) => service.variations[0].name.to_string(),
            Some(Subject::Function(_)) | None => BASE.to_owned(),
        }
    }

    /// Whether the offer brings this variation of a service.
    fn is_new(&self, service: &str, variation: &str) -> bool {
        let services = &self.handed.offer.strategy.services;
        let found = services.iter().find(|of| of.name() == service);
        found.is_some_and(|of| of.variations.iter().skip(1).any(|new| new.name.as_str() == variation))
    }

    /// `stage`: its index in the offer.
    fn deed(&self, stage: Option<usize>, what: What) -> Deed {
        deed(&self.child, self.offer, self.handed, stage, what)
    }
}

pub fn deed(child: &str, offer: &str, handed: &Handed, stage: Option<usize>, what: What) -> Deed {
    let form = handed.offer.form;
    let stage = match form {
        Form::InPlace { .. } => stage,
        Form::Stage { stage: only } | Form::ReportedStage { stage: only } => stage.map(|_| usize::from(only)),
        Form::Rollout { .. } | Form::Undo { .. } | Form::Withdrawn | Form::Full | Form::UndoOf { .. } => None,
    };
    Deed {
        child: child.to_owned(),
        offer: offer.to_owned(),
        release: handed.offer.release,
        form,
        stage,
        what,
    }
}
