//! What is to be done: read off the state and what is known of the world.

use super::{
    Act, Errand, Now, StateMachine,
    state::{Phase, VersionNote, Work},
    table::Table,
};
use crate::runtime::VersionId;
use model::StageStatus;
use proxy::control::form::TableNumber;

/// How often is counted while a stage goes on: well within the second in which a breach has to show.
pub(super) const COUNT_EVERY_MS: u64 = 200;

/// While nothing needs the counts they are read so often, so that the proxy can let them go.
pub(super) const COUNT_IDLE_EVERY_MS: u64 = 30_000;

/// How often it is looked at what runs, and at which table is in force.
pub(super) const LIST_EVERY_MS: u64 = 5_000;
pub(super) const LOOK_EVERY_MS: u64 = 2_000;

/// The longest pause between two looks at what is to be done.
const WAKE_EVERY_MS: u64 = 1_000;

impl StateMachine {
    /// What is to be in flight now. What is in flight and not in here is to be given up.
    #[must_use]
    pub fn acts(&self, now: Now) -> Vec<Act> {
        let taken = self.world.taken.map(Act::Apply);
        let may = |act: &Act| self.tries.may(act, now.ms) && taken.as_ref() != Some(act);
        self.wanted(now).into_iter().filter(may).collect()
    }

    /// How long nothing is to be done unless something happens, in milliseconds.
    #[must_use]
    pub fn wakes_in_ms(&self, now: Now) -> u64 {
        let longest = if self.is_walking() { COUNT_EVERY_MS / 2 } else { WAKE_EVERY_MS };
        let again = self.tries.next_ms(now.ms).map_or(longest, |at| at - now.ms);
        again.clamp(1, longest)
    }

    /// The same as [`Self::acts`], with what pauses before it is tried again, and the table that is to be read back first.
    pub(super) fn wanted(&self, now: Now) -> Vec<Act> {
        let mut acts = Vec::new();
        self.looks(now, &mut acts);
        self.calls(now, &mut acts);
        self.changes(&mut acts);
        acts
    }

    /// With what an act is carried out.
    #[must_use]
    pub fn errand(&self, act: &Act) -> Errand {
        match act {
            Act::Poll | Act::EndStage { .. } if !self.link.reached => Errand::AtOnce,
            Act::List
            | Act::Look(_)
            | Act::Join
            | Act::Poll
            | Act::EndStage { .. }
            | Act::Fetch { .. }
            | Act::Empty { .. }
            | Act::Ask { .. }
            | Act::Watch(_) => Errand::None,
            Act::Count(_) => Errand::Cursor { cursor: self.state.cursor, needs_all: self.is_walking() },
            Act::Start(version) => {
                self.state.versions.get(version).cloned().map_or(Errand::None, Errand::Version)
            }
            Act::Drain(version) => match self.state.versions.get(version) {
                Some(VersionNote { variation: Some(note), .. }) => Errand::Left {
                    service: note.service.clone(),
                    names: note.names.clone(),
                    target: self.state.places.get(version).map(|place| place.target.clone()),
                },
                Some(note) => Errand::Version(note.clone()),
                None => Errand::None,
            },
            Act::Stop(version) => {
                let failed = self.state.failed.get(version).cloned().map(Box::new);
                Errand::At(self.runtime_of(version).map(str::to_owned), failed)
            }
            Act::Apply(generation) => {
                let number = TableNumber { generation: *generation, ..self.decided() };
                let hashes = self.settings.abilities.hashes;
                let served =
                    self.world.decided.as_ref().map(|decided| decided.served(hashes)).unwrap_or_default();
                Errand::Table(Box::new(Table { number, served }))
            }
            Act::Send(number) => {
                let owed = self.state.owed.iter().find(|owed| owed.number == *number);
                owed.map_or(Errand::None, |owed| Errand::Result {
                    offer: owed.offer.clone(),
                    summary: Box::new(owed.summary.clone()),
                    next: owed.next.clone(),
                })
            }
            Act::Report { .. } => self.report_so_far().unwrap_or(Errand::None),
        }
    }

    fn report_so_far(&self) -> Option<Errand> {
        let work = self.state.work.as_ref()?;
        let testing = self.testing()?;
        let stage = &self.offer.as_ref()?.stages.get(testing.stage)?.stage;
        let summary = testing.counts.summary(stage, StageStatus::InProgress, self.reads);
        let summary = testing.with_obstacle(summary);
        Some(Errand::Result { offer: work.offer.clone(), summary: Box::new(summary), next: String::new() })
    }

    /// What is looked at.
    fn looks(&self, now: Now, acts: &mut Vec<Act>) {
        if self.world.list_at_ms <= now.ms {
            acts.push(Act::List);
        }
        if self.world.look_at_ms <= now.ms {
            acts.push(Act::Look(self.world.looking));
        }
        if self.is_in_force() && self.world.count_at_ms <= now.ms {
            acts.push(Act::Count(self.world.counting));
        }
    }

    /// What the manager is asked and told.
    fn calls(&self, now: Now, acts: &mut Vec<Act>) {
        if self.settings.joins {
            acts.push(Act::Join);
            return;
        }
        if let Some(owed) = self.state.owed.front() {
            acts.push(Act::Send(owed.number));
        }
        // A poll that was sent before a result was answered could bring what that result has ended.
        if self.state.owed.is_empty() || self.state.work.is_some() {
            acts.push(self.long_call());
        }
        let Some(work) = &self.state.work else { return };
        if matches!(work.phase, Phase::Fetching) {
            acts.push(Act::Fetch { offer: work.offer.clone(), run: work.run });
        }
        if let Some(report) = self.due_report(work, now) {
            acts.push(report);
        }
    }

    /// The one call that is always open. Who asks for the end of a stage says that the one before has ended: so its result goes first.
    pub(super) fn long_call(&self) -> Act {
        let stage_in_hand = || {
            let work = self.state.work.as_ref()?;
            if self.state.owed.iter().any(|owed| owed.offer == work.offer && !owed.waits) {
                return None;
            }
            let walk = work.walk()?;
            let stage = match &walk.ending {
                None => walk.testing.as_ref()?.stage,
                // As long as what follows it is not in force, the manager may want all back.
                Some(ending) => self.is_between().then_some(ending.stage)?,
            };
            let stage = self.offer.as_ref()?.stages.get(stage)?;
            Some(Act::EndStage {
                offer: work.offer.clone(),
                stage: stage.stage.name.clone(),
                skipped: work.skipped.iter().cloned().collect(),
                shares: work.shares.clone(),
            })
        };
        stage_in_hand().unwrap_or(Act::Poll)
    }

    fn due_report(&self, work: &Work, now: Now) -> Option<Act> {
        let testing = self.testing()?;
        let is_wanted = self.offer.as_ref()?.stages.get(testing.stage)?.interim.is_some();
        let is_time = is_wanted && self.report_at_ms <= now.ms && self.is_in_force();
        let is_due = (is_time || testing.untold().is_some()) && self.state.owed.is_empty();
        is_due.then_some(Act::Report { run: work.run, stage: testing.stage })
    }

    /// What changes what runs and what is in force.
    fn changes(&self, acts: &mut Vec<Act>) {
        let Some(running) = &self.world.running else { return };
        let wanted = self.wanted_versions();
        let stopping = &self.world.stopping;
        acts.extend(stopping.iter().cloned().map(Act::Stop));
        let is_there = |version: &VersionId| running.contains(version) || stopping.contains(version);
        acts.extend(wanted.iter().filter(|version| !is_there(version)).cloned().map(Act::Start));
        if self.world.decided.is_some() && self.world.in_force.is_some() && !self.is_in_force() {
            acts.push(Act::Apply(self.state.generation));
        }
        if !self.is_in_force() {
            return;
        }
        if !self.state.services.is_empty() {
            acts.push(Act::Watch(self.state.generation));
        }
        let left = self.state.versions.keys();
        let left = left.filter(|version| !wanted.contains(*version) && !stopping.contains(*version));
        acts.extend(left.map(|version| self.leaving(version)));
        if self.waits_for_last_calls() && self.settings.abilities.empties_within_ms.is_some() {
            let open = self.without_share().into_iter().filter(|one| !self.world.emptied.contains(one));
            acts.extend(open.map(|(service, variation)| Act::Empty { service, variation }));
        }
        let asked = self.to_be_asked().into_iter();
        acts.extend(asked.map(|(service, variation)| Act::Ask { service, variation }));
        let ready = self.world.strangers.keys().filter(|version| self.world.drained.contains(*version));
        acts.extend(ready.cloned().map(Act::Stop));
    }

    /// A version that is wanted no more.
    fn leaving(&self, version: &VersionId) -> Act {
        if self.world.drained.contains(version) {
            Act::Stop(version.clone())
        } else {
            Act::Drain(version.clone())
        }
    }

    /// The runtime that has a version, or had it when it answered last.
    #[must_use]
    pub fn runtime_of(&self, version: &VersionId) -> Option<&str> {
        self.state.places.get(version).map(|place| &*place.runtime)
    }

    /// What a version is needed for.
    #[must_use]
    pub fn note(&self, version: &VersionId) -> Option<&VersionNote> {
        self.state.versions.get(version)
    }
}
