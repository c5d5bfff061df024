//! Who watches over a whole tree: what agents did at any level, judged by the text that was posted at the root.
//!
//! Each manager has a [`super::witness`] of its own besides, for what concerns it alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use domain::release::{
    change::Change,
    command::{Command, Form, Reply},
    members,
    offer::{OfferKind, OfferName},
    state::{End, Release, ReleaseState},
    summary::Summary,
};
use model::{Outcome, ReleaseKey, StageStatus};

use super::{
    agent::{Deed, What},
    call::{Request, Response},
    links::Line,
    manager::{Manager, Pending},
    plans::{NAMES, Planned},
    services::PlannedService,
    witness::{Violation, Witness, harm, is_last_of_untested, wants_untested},
};

/// Effects for the parent that a manager at rest may have.
const MOST_KEPT: usize = 3;

/// Where the release of a manager comes from.
#[derive(Debug, Clone)]
struct Origin {
    /// The release that was posted at the root.
    root: String,
    is_undo: bool,
    /// At the parent: its manager and its release.
    above: Option<(usize, ReleaseKey)>,
}

/// A child at its manager: an agent's process or a manager.
type Child = (usize, String);

/// What a child said of a stage, in which attempt.
#[derive(Debug, Clone, Copy)]
struct Said {
    attempt: u16,
    is_over: bool,
    calls: Option<u64>,
}

/// All that is judged with.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub managers: &'a [Manager],
    pub links: &'a [Option<Line>],
    pub witnesses: &'a [Witness],
}

#[derive(Debug, Default)]
pub struct Overseer {
    pub planned: BTreeMap<String, Planned>,
    pub approvals: BTreeMap<String, usize>,
    /// Stages that an operator ended anywhere: root release and stage.
    pub cut: BTreeSet<(String, String)>,
    /// Of these, the stages that are passed over by those who have not begun them.
    pub skipped: BTreeSet<(String, String)>,
    /// Root releases of which an operator opened all that was held back.
    pub promoted: BTreeSet<String>,
    /// Of root releases, the variation of the service that an operator chose and the root has stored.
    pub chosen: BTreeMap<String, usize>,
    /// The same of stages: what an operator chose for the one variation beside the stable one, by root release and stage.
    pub shared: BTreeSet<(String, String, u16)>,
    /// Which manager a child is.
    pub known_as: HashMap<Child, usize>,
    origins: HashMap<(usize, ReleaseKey), Origin>,
    parents: Vec<Option<usize>>,
    /// When an agent was ready to end a stage of a root release, or ended it.
    ready: HashMap<(Child, String, usize), u64>,
    completed: HashSet<(Child, String, usize)>,
    took: HashSet<(Child, String)>,
    /// Barriers that opened rightly.
    opened: BTreeSet<(String, usize)>,
    /// What was acknowledged of a stage: manager, release there, stage, child.
    said: HashMap<(usize, ReleaseKey, String), BTreeMap<String, Said>>,
    pub found: Option<Violation>,
}

impl Overseer {
    pub fn new(parents: Vec<Option<usize>>) -> Self {
        Self { parents, ..Self::default() }
    }

    pub fn wrong(&mut self, invariant: u8, text: String) {
        self.found.get_or_insert(Violation { invariant, text });
    }

    /// The variation of a service that serves alone when a root release has gone well.
    pub fn winner(&self, root: &str, service: &PlannedService) -> String {
        let winner = self.chosen.get(root).copied().unwrap_or_else(|| service.winner());
        service.variations[winner].clone()
    }

    fn origin(&mut self, managers: &[Manager], manager: usize, key: ReleaseKey) -> Option<Origin> {
        if let Some(origin) = self.origins.get(&(manager, key)) {
            return Some(origin.clone());
        }
        let release = managers[manager].release(key)?;
        let origin = match (&release.parent, self.parents[manager]) {
            (Some(offered), Some(parent)) => {
                let known = &managers[parent].state.known;
                let (above, name) = OfferName::candidates(&offered.offer)
                    .find_map(|(id, name)| Some((known.get(id)?.key, name)))?;
                let at_parent = self.origin(managers, parent, above)?;
                let is_undo = at_parent.is_undo || matches!(name.kind, OfferKind::Undo(_));
                Origin { is_undo, above: Some((parent, above)), ..at_parent }
            }
            _ => Origin { root: release.id.as_str().to_owned(), is_undo: false, above: None },
        };
        self.origins.insert((manager, key), origin.clone());
        Some(origin)
    }

    /// The release at the root that one of a manager carries out; none for one that takes it back.
    pub fn root_of(&mut self, managers: &[Manager], manager: usize, key: ReleaseKey) -> Option<String> {
        self.origin(managers, manager, key).filter(|origin| !origin.is_undo).map(|origin| origin.root)
    }

    /// What an answer acknowledges of results.
    pub fn answered(&mut self, manager: &Manager, at: usize, pending: &Pending) {
        let (Request::Heart(command), Response::Heart(answer)) = (&pending.request, &pending.response) else {
            return;
        };
        let (Command::Members(members::Command::Result { child, offer, reports }), Ok(Reply::Stored)) =
            (&**command, &**answer)
        else {
            return;
        };
        let known = &manager.state.known;
        // The order to undo may be a release of its own, with a stage of the same name.
        let Some((key, name)) = OfferName::candidates(offer)
            .find_map(|(id, name)| Some((known.get(id)?.key, name)))
            .filter(|(_, name)| !matches!(name.kind, OfferKind::Undo(_)))
        else {
            return;
        };
        for summary in reports.iter().map(|report| &report.summary) {
            // What is said anew of agents measures nothing.
            let Some(stage) = summary.stage_name.as_ref().filter(|_| summary.recount.is_none()) else {
                continue;
            };
            let said =
                Said { attempt: name.attempt, is_over: summary.status.is_over(), calls: summary.f2_calls };
            let of_stage = self.said.entry((at, key, stage.clone())).or_default();
            let before = of_stage.entry(child.clone()).or_insert(said);
            // What is over stays as it was said first.
            if (said.attempt, said.is_over) > (before.attempt, before.is_over)
                || (said.attempt == before.attempt && !before.is_over)
            {
                *before = said;
            }
        }
    }

    /// Invariant 8: what a manager reports is the sum over its children.
    pub fn reports(&mut self, managers: &[Manager], manager: usize, key: ReleaseKey, summary: &Summary) {
        let Some(stage) = summary.stage_name.clone() else { return };
        let empty = BTreeMap::new();
        let said = self.said.get(&(manager, key, stage.clone())).unwrap_or(&empty);
        // What is preliminary may be there or not: who waits may be told to end at once.
        let is_sure = |said: &&Said| said.is_over;
        let sum = |of: &mut dyn Iterator<Item = &Said>| of.map(|said| said.calls.unwrap_or_default()).sum();
        let least: u64 = sum(&mut said.values().filter(is_sure));
        let most: u64 = sum(&mut said.values());
        if summary.f2_calls.is_some_and(|calls| calls < least || calls > most) {
            let release = managers[manager].release(key).map(|release| release.id.as_str().to_owned());
            let text = format!(
                "manager {manager} reports {:?} calls in {stage} of {release:?}, its children {said:?}",
                summary.f2_calls
            );
            self.wrong(8, text);
        }
    }

    /// An agent did something.
    pub fn did(&mut self, view: View<'_>, manager: usize, deed: &Deed, place: usize, at: u64) {
        if deed.what == What::Refused {
            let is_known = view.managers[manager].state.children.key(&deed.child).is_some();
            if is_known && view.managers[manager].is_up {
                self.wrong(11, format!("{} was shown to {} and refused", deed.offer, deed.child));
            }
            return;
        }
        if let Some(harm) = harm(deed) {
            return self.wrong(12, harm);
        }
        let Some(release) = view.managers[manager].release(deed.release) else {
            return self.wrong(1, format!("{deed:?}: there is no such release"));
        };
        let Some(origin) = self.origin(view.managers, manager, deed.release) else {
            return self.wrong(1, format!("{deed:?}: {} comes from nowhere", release.id));
        };
        let planned = self.planned[&origin.root].clone();
        if origin.is_undo || matches!(deed.form, Form::Undo { .. } | Form::Withdrawn) {
            return;
        }
        let child = (manager, deed.child.clone());
        let stage = deed
            .stage
            .and_then(|stage| NAMES.iter().position(|name| *name == release.strategy.stages[stage].name));
        match deed.what {
            What::Took => self.took(view, deed, &child, place, &planned, stage, at),
            What::Ready | What::PassedOver => {
                if let Some(stage) = stage {
                    self.ready.entry((child, origin.root, stage)).or_insert(at);
                }
            }
            What::ToldToEnd => {
                let is_stage = matches!(deed.form, Form::Stage { .. } | Form::InPlace { .. });
                let Some(stage) = stage.filter(|_| is_stage) else { return };
                if !self.is_excused(view, &child, deed.release, NAMES[stage]) {
                    self.check_barrier(view, &child, &planned, stage + 1, at);
                }
            }
            What::Ended(status) => {
                let Some(stage) = stage else { return };
                self.ready.entry((child.clone(), origin.root.clone(), stage)).or_insert(at);
                if status == StageStatus::Completed {
                    self.completed.insert((child, origin.root, stage));
                }
            }
            What::Accepted => {
                if let Some(stage) = stage {
                    self.completed.insert((child, origin.root, stage));
                }
            }
            What::Began if matches!(deed.form, Form::InPlace { .. }) => {
                if let Some(stage) = stage.filter(|stage| *stage > 0) {
                    self.check_barrier(view, &child, &planned, stage, at);
                }
            }
            What::RolledOut if matches!(deed.form, Form::InPlace { .. }) => {
                self.check_rollout(view, deed, &child, &planned, at);
            }
            What::RolledOut => {
                if planned.led.is_some() && !matches!(deed.form, Form::Rollout { .. }) {
                    let text = format!("{} rolled out by {}, which is no roll-out", deed.child, deed.offer);
                    self.wrong(10, text);
                }
            }
            What::ToldEarly
            | What::WithoutService(_)
            | What::Exited
            | What::Began
            | What::RolledBack
            | What::Refused => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are what a deed is about")]
    fn took(
        &mut self,
        view: View<'_>,
        deed: &Deed,
        child: &Child,
        place: usize,
        planned: &Planned,
        stage: Option<usize>,
        at: u64,
    ) {
        if !self.took.insert((child.clone(), deed.offer.clone())) {
            self.wrong(4, format!("{child:?} runs {} twice", deed.offer));
        }
        if planned.target.is_some_and(|(first, last)| place < first || place > last) {
            self.wrong(4, format!("{child:?} runs {} outside its target", deed.offer));
        }
        match (deed.form, stage) {
            (Form::Stage { .. }, Some(stage)) if stage > 0 => {
                self.check_barrier(view, child, planned, stage, at);
            }
            (Form::Rollout { .. }, _) => self.check_rollout(view, deed, child, planned, at),
            _ => {}
        }
    }

    /// Invariants 3 and 10: who rolls out has gone through all stages.
    fn check_rollout(&mut self, view: View<'_>, deed: &Deed, child: &Child, planned: &Planned, at: u64) {
        self.check_barrier(view, child, planned, planned.stages, at);
        let has_run = |stage: usize| {
            let is_skipped = self.skipped.contains(&(planned.id.clone(), NAMES[stage].to_owned()));
            is_skipped || self.completed.contains(&(child.clone(), planned.id.clone(), stage))
        };
        let is_excused = view.managers[child.0].release(deed.release).is_some_and(|release| {
            is_last_of_untested(release, view.managers[child.0].state.children.key(&child.1))
        });
        if planned.is_straight && !is_excused && !(0..planned.stages).all(has_run) {
            self.wrong(10, format!("{child:?} rolls {} out untested", deed.offer));
        }
    }

    /// Whether somebody is told to end for another reason than that a barrier opened: an operator, want of calls, or
    /// because it is over for it or for a parent.
    fn is_excused(&mut self, view: View<'_>, child: &Child, key: ReleaseKey, stage: &str) -> bool {
        if view.witnesses[child.0].was_idle(key, &child.1) {
            return true;
        }
        let (mut child, mut key) = (child.clone(), key);
        loop {
            let Some(origin) = self.origin(view.managers, child.0, key) else { return true };
            let release = view.managers[child.0].release(key);
            let is_over = view.witnesses[child.0].was_over(key, &child.1)
                || release.is_none_or(|release| !release.is_under_way());
            if is_over || self.cut.contains(&(origin.root, stage.to_owned())) {
                return true;
            }
            let Some((parent, above)) = origin.above else { return false };
            let Some(id) = self.id_at(parent, child.0, view, above) else { return true };
            (child, key) = ((parent, id), above);
        }
    }

    /// What a manager is called at its parent, in a release there.
    fn id_at(&self, parent: usize, manager: usize, view: View<'_>, key: ReleaseKey) -> Option<String> {
        let release = view.managers[parent].release(key)?;
        let ids =
            release.assignments.keys().filter_map(|child| view.managers[parent].state.children.get(*child));
        ids.map(|record| record.id.as_str().to_owned())
            .find(|id| self.known_as.get(&(parent, id.clone())) == Some(&manager))
    }

    /// Invariant 3, the barrier before `stage`: everybody in the tree who is still in the release has come to the end of
    /// the stage before.
    fn check_barrier(&mut self, view: View<'_>, child: &Child, planned: &Planned, stage: usize, at: u64) {
        let Some(led) = planned.led.as_ref().filter(|_| planned.is_straight) else { return };
        let is_rollout = stage == planned.stages;
        let wants_approval = is_rollout && led.approval == Some("before_rollout");
        let is_global = led.order == "global_incremental";
        if !is_global && !wants_approval || self.opened.contains(&(planned.id.clone(), stage)) {
            return;
        }
        if self.promoted.contains(&planned.id) {
            return;
        }
        self.opened.insert((planned.id.clone(), stage));
        if self.cut.contains(&(planned.id.clone(), NAMES[stage - 1].to_owned())) {
            return;
        }
        if wants_approval && self.approvals.get(&planned.id).copied().unwrap_or_default() == 0 {
            return self.wrong(3, format!("{}: {child:?} rolls out, and nobody approved", planned.id));
        }
        if !is_global {
            return;
        }
        match self.come(view, 0, &planned.id, stage - 1) {
            Err(who) => {
                let text = format!(
                    "the barrier before {stage} of {} opened for {child:?}, and {who} has not come there",
                    planned.id
                );
                self.wrong(3, text);
            }
            Ok(last) if at < last + led.soak_ms => {
                self.wrong(3, format!("{}: stage {stage} did not wait for the soak", planned.id));
            }
            Ok(_) => {}
        }
    }

    /// When the last below a manager came to the end of a stage; else, who has not.
    fn come(&mut self, view: View<'_>, manager: usize, root: &str, stage: usize) -> Result<u64, String> {
        let releases = self.of_root(view.managers, manager, root, NAMES[stage]);
        if releases.is_empty() {
            return Err(format!("manager {manager}, which has not taken it,"));
        }
        let mut last = 0;
        for key in releases {
            let Some(release) = view.managers[manager].release(key) else { continue };
            for member in release.assignments.keys() {
                let Some(record) = view.managers[manager].state.children.get(*member) else { continue };
                let child = (manager, record.id.as_str().to_owned());
                let witness = &view.witnesses[manager];
                let here = release.strategy.stages.iter().position(|own| own.name == NAMES[stage]);
                let later = here.is_some_and(|here| witness.came_later(release, &child.1, here));
                if later || witness.was_over(key, &child.1) {
                    continue;
                }
                let came = match self.known_as.get(&child) {
                    Some(below) => self.come(view, *below, root, stage)?,
                    None => *self
                        .ready
                        .get(&(child.clone(), root.to_owned(), stage))
                        .ok_or_else(|| format!("{child:?}"))?,
                };
                last = last.max(came);
            }
        }
        Ok(last)
    }

    /// The releases of a manager that carry out a stage of one that was posted at the root.
    fn of_root(&mut self, managers: &[Manager], manager: usize, root: &str, stage: &str) -> Vec<ReleaseKey> {
        let has_stage = |release: &&Release| release.strategy.stages.iter().any(|s| s.name == stage);
        let keys: Vec<ReleaseKey> =
            managers[manager].releases().filter(has_stage).map(|release| release.key).collect();
        keys.into_iter()
            .filter(|key| {
                let origin = self.origin(managers, manager, *key);
                origin.is_some_and(|origin| origin.root == root && !origin.is_undo)
            })
            .collect()
    }

    /// A commit of any manager.
    pub fn committed(&mut self, managers: &[Manager], manager: usize, changes: &[Change]) {
        for key in changes.iter().filter_map(Change::release) {
            self.origin(managers, manager, key);
        }
    }

    /// Invariants 6 and 10 by what runs at the end on a machine.
    pub fn check_machine(&mut self, view: View<'_>, machine: &Machine<'_>) {
        let manager = machine.manager;
        let Some(origin) = self.origin(view.managers, manager, machine.release) else { return };
        let root = view.managers[0].state.known.get(origin.root.as_str()).map(|known| known.key);
        let Some(root) = root.and_then(|key| view.managers[0].release(key)) else { return };
        if view.witnesses[manager].is_excused(
            &view.managers[manager],
            machine.id,
            machine.now,
            machine.release,
        ) {
            return;
        }
        let what = |text: &str| {
            let Machine { id, now, function, .. } = machine;
            let (name, unconfirmed) = (root.state.name(), unconfirmed(root));
            format!(
                "{} is {name}, {unconfirmed} unconfirmed, and {id} of manager {manager}, now {now}, runs its \
                 {function}: {text}",
                root.id
            )
        };
        if is_taken_back(root) {
            return self.wrong(6, what("it was taken back"));
        }
        if !root.state.is_over() || root.strategy.rollout.is_none() {
            return;
        }
        let (mut child, mut key) = ((manager, machine.id.to_owned()), machine.release);
        loop {
            let at = &view.managers[child.0];
            let part = at.state.children.key(&child.1).and_then(|c| at.release(key)?.assignments.get(&c));
            let outcome = part.and_then(|part| part.outcome);
            let untested = outcome == Some(Outcome::Untested) && at.release(key).is_some_and(wants_untested);
            if outcome != Some(Outcome::Succeeded) && !untested {
                return self.wrong(10, what(&format!("{child:?} is {part:?}")));
            }
            let Some((parent, above)) = self.origin(view.managers, child.0, key).and_then(|o| o.above) else {
                return;
            };
            let Some(id) = self.id_at(parent, child.0, view, above) else { return };
            (child, key) = ((parent, id), above);
        }
    }

    /// At rest: what a parent knows of the agents below a manager is what is there; nobody remembers too much.
    pub fn check_rest(&mut self, view: View<'_>) {
        for (manager, link) in view.links.iter().enumerate() {
            let Some(line) = link else { continue };
            if let Some(text) = line.is_too_big() {
                self.wrong(9, format!("manager {manager}: {text}"));
            }
            // Its id there, and what came in the last moment.
            let kept = view.managers[manager].outbox().count();
            if kept > MOST_KEPT {
                self.wrong(9, format!("manager {manager} keeps {kept} effects for its parent"));
            }
            let below: u32 =
                view.managers[manager].state.children.iter().map(|(_, c)| c.counted_agents()).sum();
            let parent = &view.managers[line.parent].state.children;
            let newest = self
                .known_as
                .iter()
                .filter(|((at, _), is)| *at == line.parent && **is == manager)
                .filter_map(|((_, id), _)| parent.by_id(id))
                .max_by_key(|(_, record)| record.born.served_ms);
            if let Some((_, record)) = newest
                && record.counted_agents() != below
            {
                let text = format!(
                    "{} has {below} agents below it, and {} are known above",
                    record.id,
                    record.counted_agents()
                );
                self.wrong(8, text);
            }
        }
    }
}

/// A machine on which a new version runs.
#[derive(Debug)]
pub struct Machine<'a> {
    pub manager: usize,
    /// Who rolled out, and who runs there now.
    pub id: &'a str,
    pub now: &'a str,
    pub release: ReleaseKey,
    pub function: &'a str,
}

pub fn is_taken_back(release: &Release) -> bool {
    matches!(
        release.state,
        ReleaseState::Over { end: End::Aborted | End::RolledBack, .. } | ReleaseState::RollingBack { .. }
    )
}

fn unconfirmed(release: &Release) -> u32 {
    match release.state {
        ReleaseState::Over { unconfirmed, .. } => unconfirmed,
        _ => 0,
    }
}
