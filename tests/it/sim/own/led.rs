//! Services that own agents lead: what a table may give to whom, who moves when shares change, and what is left in the end.
//!
//! - A table gives the variations of a service what the stage in hand orders, or what an operator chose for it, no more and no less; before
//!   the first stage and after a roll-back all to the stable one, after a roll-out all to the winner, alone once the release is over.
//! - All routers draw the same users by the same shares, in every attempt at a release: salt and buckets are one for all.
//! - While shares only grow, nobody whom a variation has is given to another one.
//! - A release that is stored as taken back is one whose variations get nothing at any router that was not let off.
//! - In the end a router does what the store says; where an operator chose the winner, that one serves alone wherever the release went well.

use std::collections::BTreeMap;

use ::agent::state_machine::LedService;
use ::proxy::form::{ServiceForm, TableForm};
use domain::release::{
    change::Change,
    command::Form,
    lifecycle, rollout,
    state::{End, Release, ReleaseState},
};
use language::Stage;
use model::{Outcome, ReleaseKey};
use traffic::Bucket;

use super::{Own, proxy, watch::Scene};
use crate::sim::{
    agent::{Deed, What},
    domain::Flaw,
    overseer::is_taken_back,
    services::{WHOLE, brought_by},
    world::World,
};

/// What is left in the end is what the store says.
pub const ENDS: u8 = 17;
/// Nothing is stored as taken back before that was proven.
pub const PROVEN: u8 = 18;
/// Users stay where they are.
pub const STAYS: u8 = 19;
/// No share is another than the stage that is led says.
pub const ORDERED: u8 = 20;

/// Whom an operator chose serves alone in the end, everywhere.
pub const CHOSEN: u8 = 23;

/// Users that are looked at, at each router.
const USERS: u16 = 40;

type Runs = Vec<(u16, u16, u8)>;

/// What is seen at all routers together.
#[derive(Debug, Default)]
pub struct Led {
    /// By release and service.
    salts: BTreeMap<(String, String), String>,
    /// When a router gave all to the winner of a release, by the router's index and the release.
    went_over: BTreeMap<(usize, String), u64>,
    /// By release, service, stage and shares.
    runs: BTreeMap<(String, String, String, Vec<u16>), Runs>,
}

/// What is seen at one router.
#[derive(Debug, Default)]
pub struct Followed {
    /// By service: what its variations had, and whom each user got.
    users: BTreeMap<String, (BTreeMap<String, u16>, Vec<String>)>,
}

/// A service of this form has variations that run elsewhere.
pub fn is_led(service: &ServiceForm) -> bool {
    !service.ports.is_empty()
}

/// What each variation gets, in units of 0.01 %.
pub fn shares(service: &ServiceForm) -> Vec<u16> {
    if let Some(runs) = &service.runs {
        let mut shares = vec![0; service.variations.len()];
        for (from, to, of) in runs {
            shares[usize::from(*of)] += to - from;
        }
        return shares;
    }
    let shares = service.shares.clone();
    shares
        .unwrap_or_else(|| (0..service.variations.len()).map(|at| if at == 0 { WHOLE } else { 0 }).collect())
}

fn by_name(service: &ServiceForm) -> BTreeMap<String, u16> {
    let names = service.variations.iter().map(|variation| variation.name.clone());
    names.zip(shares(service)).collect()
}

/// The release that shares a service out; `None`: one variation serves alone.
fn release_of(service: &ServiceForm) -> Option<String> {
    let variations = service.variations.get(1..).unwrap_or_default();
    variations.iter().find_map(|variation| brought_by(&variation.name))
}

/// The stage that a split is called after: `OFFER/STAGE#RUN.BEGUN`.
pub(super) fn stage_of(split: &str) -> &str {
    let stage = split.rsplit_once('#').map_or(split, |(before, _)| before);
    stage.rsplit_once('/').map_or("", |(_, stage)| stage)
}

impl Led {
    /// A table is on its way to a proxy.
    pub fn note(&mut self, service: &ServiceForm) -> Result<(), String> {
        let Some(release) = release_of(service) else { return Ok(()) };
        let shares = shares(service);
        if shares.contains(&WHOLE) {
            // Nobody is drawn.
            return Ok(());
        }
        let of = (release.clone(), service.name.clone());
        let salt = self.salts.entry(of).or_insert_with(|| service.salt.clone());
        if *salt != service.salt {
            let (name, other) = (&service.name, &service.salt);
            return Err(format!(
                "keys of {name} in {release} are hashed with {salt:?}, and here with {other:?}"
            ));
        }
        let stage = stage_of(&service.split).to_owned();
        let runs = service.runs.clone().unwrap_or_default();
        let key = (release, service.name.clone(), stage, shares);
        let known = self.runs.entry(key.clone()).or_insert_with(|| runs.clone());
        if *known != runs {
            return Err(format!("{key:?} has the buckets {known:?}, and here {runs:?}"));
        }
        Ok(())
    }
}

/// What the table gives the variations of a service is what is ordered.
pub fn check_ordered(service: &ServiceForm, scene: &Scene<'_>) -> Result<(), String> {
    let is = by_name(service);
    let Some(ordered) = ordered(service, scene)? else {
        let is_alone = is.len() == 1 && is.values().all(|share| *share == WHOLE);
        return is_alone.then_some(()).ok_or_else(|| format!("{is:?}, and no release is in hand"));
    };
    let is_ordered = ordered.contains(&is);
    is_ordered.then_some(()).ok_or_else(|| format!("{is:?}, and the stage in hand orders {ordered:?}"))
}

/// What the variations of a service get in a stage by what its router was told, each of which the root has stored.
fn told(stage: &Stage, root: Option<&String>, scene: &Scene<'_>) -> Result<Vec<u16>, String> {
    let work = scene.state.work.as_ref();
    let Some(new) = work.and_then(|work| work.shares.get(&stage.name)) else {
        return Ok(stage.shares.clone());
    };
    let is_stored = root.is_some_and(|root| scene.shared.contains(&(root.clone(), stage.name.clone(), *new)));
    is_stored
        .then(|| vec![WHOLE - new, *new])
        .ok_or_else(|| format!("nobody chose {new} for {} of {root:?}", stage.name))
}

/// What may be in force of a stage that is over, or has failed and keeps its shares: it hears of no others any more.
fn once(stage: &Stage, root: Option<&String>, scene: &Scene<'_>) -> Vec<Vec<u16>> {
    let of = |(of, name, new): &(String, String, u16)| {
        (root == Some(of) && *name == stage.name).then(|| vec![WHOLE - new, *new])
    };
    scene.shared.iter().filter_map(of).chain([stage.shares.clone()]).collect()
}

/// One of these; `None`: nothing in hand concerns the service.
fn ordered(service: &ServiceForm, scene: &Scene<'_>) -> Result<Option<Vec<BTreeMap<String, u16>>>, String> {
    let Some(work) = &scene.state.work else { return Ok(None) };
    let Some(walk) = work.walk() else { return Ok(None) };
    let led = &scene.state.services[&service.name];
    if led.offer != work.offer {
        return Ok(None);
    }
    let handed = scene.handed.get(&work.offer).ok_or_else(|| format!("{} was not handed out", work.offer))?;
    let strategy = &handed.offer.strategy;
    let Some(which) = strategy.services.iter().position(|of| of.name() == service.name) else {
        return Ok(None);
    };
    let (subject, of) = (strategy.functions.len() + which, &strategy.services[which]);
    let names = || of.variations.iter().map(|variation| variation.name.to_string());
    let all_to = |which: usize| {
        vec![names().enumerate().map(|(at, name)| (name, if at == which { WHOLE } else { 0 })).collect()]
    };
    let until = |stage: usize| {
        let mut own = strategy.stages.iter().take(stage + 1).filter(|stage| stage.subject == subject);
        own.next_back()
    };
    let root = of.variations.get(1).and_then(|one| brought_by(one.name.as_str()));
    let winner = || {
        if let Some(chosen) = root.as_ref().and_then(|root| scene.chosen.get(root)) {
            return *chosen;
        }
        let last = until(strategy.stages.len()).map(|stage| stage.shares.clone()).unwrap_or_default();
        let best = last.iter().skip(1).max().copied();
        last.iter().skip(1).position(|share| Some(*share) == best).map_or(1, |at| at + 1)
    };
    let is_undo = matches!(handed.offer.form, Form::Undo { .. });
    let shares = match (&walk.testing, &walk.ending) {
        (Some(_), _) if is_undo => all_to(0),
        (Some(_), _) if matches!(handed.offer.form, Form::Rollout { .. }) => all_to(winner()),
        (Some(testing), _) => match until(testing.stage) {
            Some(stage) => {
                let is_tested = strategy.stages.get(testing.stage).is_some_and(|of| of.name == stage.name);
                let may_be = if is_tested && testing.kept.is_none() {
                    vec![told(stage, root.as_ref(), scene)?]
                } else {
                    once(stage, root.as_ref(), scene)
                };
                may_be.into_iter().map(|shares| names().zip(shares).collect()).collect()
            }
            None => all_to(0),
        },
        (None, Some(ending)) if ending.next == "rollout" => all_to(winner()),
        (None, _) => all_to(0),
    };
    Ok(Some(shares))
}

impl Followed {
    /// A table is in force: nobody moves who need not.
    pub fn look(&mut self, form: &TableForm) -> Result<(), String> {
        for service in form.services.iter().filter(|service| is_led(service)) {
            let (shares, whom) = (by_name(service), whom(service));
            let before = self.users.insert(service.name.clone(), (shares.clone(), whom.clone()));
            let Some((had, got)) = before else { continue };
            for (user, (got, gets)) in got.iter().zip(&whom).enumerate() {
                // Who is stable gives, and who shrinks; a variation that comes alone or goes is another release's.
                let is_same = had.keys().eq(shares.keys());
                let is_stable = service.variations.first().is_some_and(|stable| stable.name == *got);
                let shrinks = shares.get(got) < had.get(got);
                if is_same && !is_stable && !shrinks && got != gets {
                    let name = &service.name;
                    return Err(format!(
                        "user {user} of {name} moves from {got} to {gets}: {had:?} became {shares:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether the buckets of a table in force belong to whom the one says that was handed out under its number.
pub fn check_buckets(is: &TableForm, told: &TableForm) -> Result<(), String> {
    for service in is.services.iter().filter(|service| is_led(service)) {
        let told = told.services.iter().find(|told| told.name == service.name);
        if told.is_none_or(|told| told.runs != service.runs || by_name(told) != by_name(service)) {
            return Err(format!("{service:?} is in force, and {told:?} was handed out"));
        }
    }
    Ok(())
}

/// What an agent that starts anew makes of the services that it had, with a flaw.
pub(super) fn bend(services: &mut BTreeMap<String, LedService>, flaw: Flaw, is_at_work: bool) {
    for led in services.values_mut() {
        match flaw {
            Flaw::ForgetsWhoWon if !is_at_work => led.runs = vec![(0, WHOLE, 0)],
            Flaw::ShufflesBuckets => proxy::mirror(&mut led.runs),
            _ => {}
        }
    }
}

/// The text of an offer as it arrives, with a flaw.
pub(super) fn bend_text(text: String, flaw: Option<Flaw>, offer: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match flaw {
        Some(Flaw::SaltsByOffer) => {
            for line in &mut lines {
                if let Some((before, _)) = line.split_once("salt: \"") {
                    *line = format!("{before}salt: \"{offer}\"}}");
                }
            }
        }
        Some(Flaw::SwapsShares) => {
            let is_of_shares = |line: &&String| line.trim_start().starts_with("shares:");
            let first = lines.iter().position(|line| is_of_shares(&line));
            let last = lines.iter().rposition(|line| is_of_shares(&line));
            if let Some((first, last)) = first.zip(last) {
                lines.swap(first, last);
            }
        }
        _ => return text,
    }
    lines.join("\n") + "\n"
}

/// Whom each user gets.
fn whom(service: &ServiceForm) -> Vec<String> {
    let runs = service.runs.as_deref().unwrap_or_default();
    let one = |user: u16| {
        let bucket = Bucket::of_key(service.hash, service.salt.as_bytes(), format!("user-{user}").as_bytes());
        let run = runs.iter().find(|(from, to, _)| (*from..*to).contains(&bucket.index()));
        run.map_or_else(String::new, |(_, _, of)| service.variations[usize::from(*of)].name.clone())
    };
    (0..USERS).map(one).collect()
}

/// Variations that get something at a router, really.
pub(super) fn served(own: &Own) -> impl Iterator<Item = (String, String)> {
    let services = own.proxy.form().services.into_iter().filter(is_led);
    services.flat_map(|service| {
        let of = by_name(&service).into_iter().filter(|(_, share)| *share > 0);
        of.map(|(name, _)| (service.name.clone(), name)).collect::<Vec<_>>()
    })
}

impl World {
    /// A router has given all to the winner of a release.
    pub(super) fn note_went_over(&mut self, index: usize, deed: &Deed) {
        if deed.what != What::RolledOut || !self.owns[index].is_router {
            return;
        }
        let root = self.overseer.root_of(&self.managers, self.owns[index].parent, deed.release);
        if let Some(root) = root {
            self.led.went_over.insert((index, root), self.at);
        }
    }

    /// The root has stored which variation an operator chose.
    pub(in crate::sim) fn note_chosen(&mut self, manager: usize, changes: &[Change]) {
        let found = |key: &ReleaseKey| Some(self.managers[0].release(*key)?.id.to_string());
        for change in changes.iter().filter(|_| manager == 0) {
            match change {
                Change::Rollout(rollout::Change::WinnerChosen { release, variation, .. }) => {
                    let Some(id) = found(release) else { continue };
                    self.overseer.chosen.insert(id, usize::from(*variation));
                }
                Change::Rollout(rollout::Change::SharesChosen { release, stage, new, .. }) => {
                    let Some(id) = found(release) else { continue };
                    let stage =
                        &self.managers[0].release(*release).unwrap().strategy.stages[usize::from(*stage)];
                    let shared = (id, stage.name.clone(), *new);
                    self.overseer.shared.insert(shared);
                }
                // It is as it was when it was submitted.
                Change::Lifecycle(lifecycle::Change::Replanned { release, .. }) => {
                    let Some(id) = found(release) else { continue };
                    self.overseer.chosen.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Whatever is stored as taken back gets nothing any more at routers that are not in debt.
    pub(in crate::sim) fn check_proven(&mut self, manager: usize, changes: &[Change]) {
        for change in changes {
            let Change::Lifecycle(lifecycle::Change::Ended { release, end, .. }) = change else { continue };
            if !matches!(end, End::RolledBack | End::Aborted) {
                continue;
            }
            let Some(root) = self.overseer.root_of(&self.managers, manager, *release) else { continue };
            let Some(found) = self.managers[manager].release(*release) else { continue };
            let witness = &self.witnesses[manager];
            for (index, own) in self.owns.iter().enumerate().filter(|(_, own)| own.parent == manager) {
                let Some(id) = own.last_id() else { continue };
                let part =
                    self.managers[manager].state.children.key(id).and_then(|key| found.assignments.get(&key));
                let is_in_debt = part.is_none_or(|part| part.pending_undo().is_some());
                if is_in_debt || witness.is_excused(&self.managers[manager], id, id, *release) {
                    continue;
                }
                if let Some((service, name)) =
                    served(own).find(|(_, name)| brought_by(name).as_deref() == Some(&root))
                {
                    let text = format!(
                        "{root} is stored as {end:?}, and own agent {index} gives {service} to {name}: {part:?}"
                    );
                    self.overseer.wrong(PROVEN, text);
                    break;
                }
            }
        }
    }

    /// What routers do once all is at rest.
    pub(in crate::sim) fn judge_routers(&mut self) {
        for index in 0..self.owns.len() {
            if !self.owns[index].is_idle() {
                continue;
            }
            if let Err((invariant, why)) = self.judge_router(index) {
                self.overseer.wrong(invariant, format!("own agent {index}: {why}"));
            }
        }
    }

    fn judge_router(&mut self, index: usize) -> Result<(), (u8, String)> {
        let own = &self.owns[index];
        if !own.is_router {
            return Ok(());
        }
        let (Some(id), manager) = (own.id().map(str::to_owned), own.parent) else { return Ok(()) };
        let served: Vec<(String, String)> = served(own).collect();
        let Some(state) = own.state() else { return Ok(()) };
        for (name, led) in &state.services {
            let of: Vec<_> = served.iter().filter(|(service, _)| service == name).collect();
            let alone = led.serving().map(|at| led.service.variations[at].name.to_string());
            if led.is_tried || alone.is_none() || of.len() != 1 || alone.as_deref() != Some(&of[0].1) {
                let text = format!("{name} is {led:?}, nothing is in hand, and its proxy gives it to {of:?}");
                return Err((ENDS, text));
            }
        }
        let Some(child) = self.managers[manager].state.children.key(&id) else { return Ok(()) };
        let mut releases: Vec<Release> = self.managers[manager].releases().cloned().collect();
        releases.sort_by_key(|release| release.key);
        let mut last = BTreeMap::new();
        for release in releases {
            let Some(root) = self.overseer.root_of(&self.managers, manager, release.key) else { continue };
            let known = self.managers[0].state.known.get(root.as_str()).map(|known| known.key);
            let Some(at_root) = known.and_then(|key| self.managers[0].release(key)) else { continue };
            let Some(part) = release.assignments.get(&child) else { continue };
            if !matches!(at_root.state, ReleaseState::Over { .. }) {
                // What it has come to so far is not the end.
                for service in &self.overseer.planned[&root].services {
                    last.remove(service.name);
                }
            }
            let is_done = part.outcome == Some(Outcome::Succeeded)
                && matches!(at_root.state, ReleaseState::Over { .. })
                && !is_taken_back(at_root)
                && !is_taken_back(&release);
            if !is_done {
                continue;
            }
            let planned = &self.overseer.planned[&root];
            // A release that is tried again ends once more, and routers that are done take no part in that.
            let over = self.led.went_over.get(&(index, root.clone())).copied().unwrap_or_default();
            for service in &planned.services {
                let entry = last.entry(service.name).or_insert((0, String::new(), String::new()));
                if over >= entry.0 {
                    *entry = (over, root.clone(), self.overseer.winner(&root, service));
                }
            }
        }
        for (service, (_, release, winner)) in last {
            if !served.iter().any(|(of, name)| of == service && *name == winner) {
                let invariant = if self.overseer.chosen.contains_key(&release) { CHOSEN } else { ENDS };
                let text =
                    format!("{release} succeeded here with {winner}, and {service} is served by {served:?}");
                return Err((invariant, text));
            }
        }
        Ok(())
    }
}
