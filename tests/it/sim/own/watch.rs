//! What an own agent does, read off its state and its tables: for the witnesses, and for what must hold on its machine.
//!
//! - No call is answered by a version that has no share in a table that was handed out; and a table gives a share to what an offer
//!   in hand orders, or to what serves, alone.
//! - A version that has a share was healthy before. It is stopped when no table names it and nobody holds it, or its deadline has passed.
//! - A stage is reported as ended when what follows is in force, with the calls that were made under its shares.
//! - A result is kept until it is answered.

use std::collections::{BTreeMap, BTreeSet};

use ::agent::{
    core::State,
    measure::{BASE, NEW},
    runtime::VersionId,
};
use ::proxy::form::{ServiceForm, TableForm};
use heart::release::command::Form;
use model::{ReleaseKey, StageStatus};
use wire::StageSummary;

use super::{
    Handed,
    proxy::{Proxy, Truth},
    runtime::Runtime,
};
use crate::sim::{
    agent::{Deed, What},
    witness::Violation,
};

/// No call is answered by a version without a share in a table that was handed out.
pub const SHARES: u8 = 15;
/// What an agent says is what was.
pub const TELLS: u8 = 16;

/// All shares, in units of 0.01 %.
const WHOLE: u16 = 10_000;

/// The place of the new version among the variations.
const TRIED: usize = 1;

/// What of the state is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Glance {
    offer: Option<(String, u64)>,
    is_prepared: bool,
    /// The stage that is tested: its index, the how manyth it is, and whether it was announced.
    testing: Option<(usize, u32, bool)>,
    /// The stage that was decided, and how.
    ending: Option<(usize, u8)>,
    stables: BTreeMap<String, VersionId>,
    /// Results that are owed, and whether they only say that a stage waits.
    owed: BTreeMap<u64, bool>,
}

impl Glance {
    fn of(state: &State) -> Self {
        let work = state.work.as_ref();
        let walk = work.and_then(|work| work.walk());
        let testing = walk.and_then(|walk| walk.testing.as_ref());
        let begun = work.map_or(0, |work| work.begun);
        Self {
            offer: work.map(|work| (work.offer.clone(), work.run)),
            is_prepared: work.is_some_and(|work| work.plan().is_some()),
            testing: testing.map(|testing| (testing.stage, begun, testing.announced)),
            ending: walk.and_then(|walk| walk.ending.as_ref()).map(|ending| (ending.stage, ending.status)),
            stables: state.functions.iter().map(|(name, of)| (name.clone(), of.stable.clone())).collect(),
            owed: state.owed.iter().map(|owed| (owed.number, owed.waits)).collect(),
        }
    }
}

/// A stage that was decided, as far as what is reported of it is checked.
#[derive(Debug, Clone)]
struct Decided {
    split: String,
    /// Calls of both versions that had ended by then.
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
    rolled_out: BTreeMap<String, (VersionId, ReleaseKey, String)>,
    /// Versions that may serve alone, by function.
    bases: BTreeMap<String, BTreeSet<VersionId>>,
    /// Since when no table names a version.
    unnamed: BTreeMap<String, u64>,
    /// Versions that were stopped at their deadline, with calls in flight.
    late: BTreeSet<String>,
    pub wrong: Option<Violation>,
}

/// What is looked at.
pub struct Scene<'a> {
    pub state: &'a State,
    pub proxy: &'a Proxy,
    pub runtime: &'a Runtime,
    pub handed: &'a BTreeMap<String, Handed>,
    pub at: u64,
}

impl Watched {
    pub fn rolled_out(&self) -> impl Iterator<Item = (&str, ReleaseKey, &str)> {
        self.rolled_out.iter().map(|(function, (_, release, id))| (function.as_str(), *release, id.as_str()))
    }

    fn wrong(&mut self, invariant: u8, text: String) {
        self.wrong.get_or_insert(Violation { invariant, text });
    }

    /// Whether calls of a version may be cut: its deadline had passed.
    pub fn is_late(&self, version: &str) -> bool {
        self.late.contains(version)
    }

    /// A process begins with what was saved: what was not has never been.
    pub fn begin(&mut self, state: &State) {
        self.glance = Glance::of(state);
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
        let now = Glance::of(scene.state);
        if now == self.glance {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.glance, now.clone());
        let mut deeds = Vec::new();
        let handed =
            now.offer.as_ref().or(before.offer.as_ref()).and_then(|(offer, _)| scene.handed.get(offer));
        if let (Some(handed), Some((offer, run))) = (handed, now.offer.as_ref().or(before.offer.as_ref())) {
            let teller = Teller { offer, handed, child: scene.state.id.clone().unwrap_or_default() };
            self.tell_work(&teller, *run, (&before, &now), scene, &mut deeds);
        }
        self.check_owed(&before, &now, scene);
        deeds
    }

    fn tell_work(
        &mut self,
        teller: &Teller<'_>,
        run: u64,
        (before, now): (&Glance, &Glance),
        scene: &Scene<'_>,
        deeds: &mut Vec<Deed>,
    ) {
        if now.is_prepared && self.took.insert(teller.offer.to_owned()) {
            deeds.push(teller.deed(None, What::Took));
        }
        // A stage is decided before the next one begins, and both may be seen at once.
        if let Some((stage, status)) = now.ending
            && before.ending != now.ending
        {
            let of = |variation: &str| truth(scene.proxy, &self.split, variation).ended;
            self.decided = Some(Decided { split: self.split.clone(), least: [of(BASE), of(NEW)] });
            let status = StageStatus::from_wire(status.into()).unwrap();
            deeds.push(teller.deed(Some(stage), What::Ended(status)));
        }
        if let Some((stage, begun, announced)) = now.testing {
            if self.begun.insert((run, begun)) {
                let before = *self.runs.entry(teller.offer.to_owned()).or_insert(run);
                if before != run {
                    // What it has begun it goes on with, and never begins anew.
                    deeds.push(teller.deed(None, What::Took));
                }
                deeds.push(teller.deed(Some(stage), What::Began));
            }
            let candidates =
                scene.state.functions.values().filter_map(|function| function.candidate.as_ref());
            self.split = candidates.map(|candidate| candidate.split.clone()).next().unwrap_or_default();
            let was_announced = matches!(before.testing, Some((_, of, true)) if of == begun);
            if announced && !was_announced {
                deeds.push(teller.deed(Some(stage), What::Ready));
            }
        }
        let plan = scene.state.work.as_ref().and_then(|work| work.plan());
        for (name, stable) in &now.stables {
            if before.stables.get(name) == Some(stable) {
                continue;
            }
            let is_new =
                plan.is_some_and(|plan| plan.versions.iter().any(|[base, new]| new == stable && base != new));
            if is_new {
                let entry = (stable.clone(), teller.handed.offer.release, teller.child.clone());
                self.rolled_out.insert(name.clone(), entry);
                deeds.push(teller.deed(None, What::RolledOut));
            } else if self.rolled_out.remove(name).is_some() {
                deeds.push(teller.deed(None, What::RolledBack));
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
            if owed.waits || owed.summary.status == StageStatus::Error {
                continue;
            }
            let Some(handed) = scene.handed.get(&owed.offer) else { continue };
            self.check_in_force(handed, &owed.next, scene);
            self.check_counts(&owed.summary, scene.proxy);
            self.decided = None;
        }
    }

    /// What follows an ended stage is in force before the stage is reported.
    fn check_in_force(&mut self, handed: &Handed, next: &str, scene: &Scene<'_>) {
        let Ok(fetched) = super::link::fetched(handed) else { return };
        for ([base, new], function) in fetched.versions.iter().flatten().zip(&handed.offer.strategy.functions)
        {
            let services = scene.proxy.services();
            let Some(service) = services.iter().find(|service| service.name() == function.name) else {
                continue;
            };
            let digests: Vec<&str> = service.versions().iter().map(|version| version.digest()).collect();
            let share = service.shares().get(TRIED).copied().unwrap_or_default();
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

    /// A result counts the calls under the shares of its stage, each once.
    fn check_counts(&mut self, summary: &StageSummary, proxy: &Proxy) {
        let Some(Decided { split, least }) = self.decided.clone() else { return };
        let is_torn = proxy.torn.contains(&split);
        let said = [(BASE, summary.f1_calls, least[0]), (NEW, summary.f2_calls, least[1])];
        for (variation, said, least) in said {
            let Some(said) = said else { continue };
            let truth = truth(proxy, &split, variation);
            if said > truth.ended || (said < least && !is_torn) {
                let text = format!("{said} calls of {variation} are told of {split}: {least} to {truth:?}");
                self.wrong(TELLS, text);
            }
        }
    }

    /// A table is on its way to the proxy.
    pub fn check_table(&mut self, table: &TableForm, scene: &Scene<'_>) {
        for service in &table.services {
            for (at, variation) in service.variations.iter().enumerate() {
                let shares = service.shares.as_ref();
                let share = shares.map_or(10_000, |shares| shares.get(at).copied().unwrap_or_default());
                if share == 0 {
                    continue;
                }
                if !scene.runtime.was_healthy(&variation.version) {
                    let text =
                        format!("{} of {} gets {share} before it is healthy", variation.name, service.name);
                    self.wrong(SHARES, text);
                }
                let why = if at == 0 {
                    self.may_serve(service, &variation.version, scene)
                } else {
                    may_be_tried(service, share, scene)
                };
                if let Err(why) = why {
                    let Scene { at, .. } = scene;
                    let text = format!("{} of {} gets {share} at {at}: {why}", variation.name, service.name);
                    self.wrong(SHARES, text);
                }
            }
        }
    }

    /// Whether a version may be the one that answers whenever nothing is tried.
    fn may_serve(&mut self, service: &ServiceForm, version: &str, scene: &Scene<'_>) -> Result<(), String> {
        for handed in scene.handed.values() {
            let Ok(fetched) = super::link::fetched(handed) else { continue };
            for ([base, _], function) in
                fetched.versions.iter().flatten().zip(&handed.offer.strategy.functions)
            {
                self.bases.entry(function.name.clone()).or_default().insert(base.clone());
            }
        }
        let is_base =
            self.bases.get(&service.name).is_some_and(|of| of.iter().any(|base| base.as_str() == version));
        let rolled_out = self.rolled_out.get(&service.name).is_some_and(|(of, ..)| of.as_str() == version);
        if is_base || rolled_out {
            Ok(())
        } else {
            Err(format!("{version} is no base version, and was not rolled out"))
        }
    }

    /// A table is in force.
    pub fn note_table(&mut self, proxy: &Proxy, runtime: &Runtime, at: u64) {
        self.unnamed.retain(|version, _| !proxy.names(version));
        for version in runtime.versions().filter(|version| !proxy.names(version.as_str())) {
            self.unnamed.entry(version.to_string()).or_insert(at);
        }
    }

    /// A version is about to be stopped.
    pub fn check_stop(&mut self, version: &VersionId, drain_ms: u64, scene: &Scene<'_>) {
        let held = scene.proxy.in_flight(version.as_str());
        if scene.proxy.is_up && scene.proxy.names(version.as_str()) {
            self.wrong(SHARES, format!("{version} is stopped, and the table names it"));
        }
        let since = self.unnamed.get(version.as_str()).copied().unwrap_or_default();
        // The deadline counts from the decision, which comes a little before the table that carries it out.
        if held > 0 && scene.at + 1_000 < since + drain_ms {
            self.wrong(SHARES, format!("{version} is stopped, and {held} calls hold it"));
        } else if held > 0 {
            self.late.insert(version.to_string());
        }
    }
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
    let function = &handed.offer.strategy.functions[stage.function].name;
    let ordered = u16::from(stage.new_traffic) * 100;
    if *function == service.name && ordered == share {
        Ok(())
    } else {
        Err(format!("{} of {} orders {ordered} for {function}", stage.name, work.offer))
    }
}

fn truth(proxy: &Proxy, split: &str, variation: &str) -> Truth {
    proxy.truth.get(&(split.to_owned(), variation.to_owned())).copied().unwrap_or_default()
}

/// By what deeds are told.
struct Teller<'a> {
    offer: &'a str,
    handed: &'a Handed,
    child: String,
}

impl Teller<'_> {
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
        Form::Whole
        | Form::StageByItself { .. }
        | Form::Rollout { .. }
        | Form::Undo { .. }
        | Form::Withdrawn
        | Form::Full
        | Form::UndoOf { .. } => None,
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
