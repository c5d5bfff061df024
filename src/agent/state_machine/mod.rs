//! The agent's state machine: what it has in hand, what is to be done about it, and what follows from what came. No IO, no clock, no
//! chance of its own: whoever drives it gives the time and carries out what it wants.
//!
//! It is a machine of two halves. [`State`] is what must not be forgotten; each event changes it by the rules of this module.
//! What is to be done is *read off* the state and what is known of the world ([`StateMachine::acts`]), never kept as a list of its own: so an
//! agent that was killed at any instant goes on from what is on disk and what it finds running.
//!
//! Invariants, which tests and the simulation assert:
//!
//! 1. A version gets a share only while it runs, was healthy and is warm; it is stopped only when no table in force names it and it is
//!    drained, or the deadline for that has passed.
//! 2. Between two stages the base version doesn't get a new version's share: shares change in place. So they do where the manager chooses
//!    others for a stage that goes on.
//! 3. A stage is reported as ended only once what follows from it is in force. In force is what was read back: that a table was taken
//!    is no proof.
//! 4. A result is kept until the manager has answered it. Results go in the order in which they came about.
//! 5. What a stage counted is from calls under the shares of that stage alone.
//! 6. The first breach of a limit ends the stage at once, whether or not the manager answers: what its strategy orders for a failure is
//!    put in force, which takes the new version's share away unless it says otherwise.
//! 7. Where the offer wants it (`keeps_failed`), a stage that fails and would be taken back keeps its shares instead, also over a
//!    restart, until the manager says to go on or to take it back; see `failed_stage`.

mod act;
mod acts;
mod failed_stage;
mod failed_versions;
mod health;
mod link;
mod managed_service;
mod node;
mod obstacle;
mod operators;
mod retries;
mod served;
mod services;
mod stages;
mod started;
mod state;
pub mod table;
mod take_over;

use std::collections::{BTreeMap, BTreeSet};

use language::offer::Offer;
use model::ManagerClock;
use proxy::{control::form::TableNumber, live::Target};
use traffic::HashFunction;

pub use self::{
    act::{
        Act, CountsReading, Errand, Event, Fetched, Listed, PollResponse, ReadBack, StartedVersion, Trouble,
        TroubleKind,
    },
    health::TargetsSeen,
    managed_service::{LedService, ManagedService},
    operators::{Refusal, Undone},
    state::{
        Adding, Candidate, Ending, FORMAT, FailedVersion, Function, Kept, PendingResult, Phase, Place, Plan,
        Routing, Started, State, Testing, VariationNote, VersionNote, Walk, Work,
    },
};
use self::{retries::Tries, table::TableInputs};
use crate::{control::form::Stops, measure::Reads, runtime::VersionId};

/// How the agent goes about it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a version that was replaced runs on.
    pub keep_base_ms: u64,
    /// After how long a version is ended that still has calls in flight.
    pub drain_ms: u64,
    /// There is a join token to be shown, and no token of one's own.
    pub joins: bool,
    /// What chance begins with.
    pub seed: u64,
    pub abilities: Abilities,
}

/// What can be done by whatever splits the calls beside this agent, as far as it makes a difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// What it is called in sentences.
    pub name: &'static str,
    /// What it can hash the keys of services' calls with, the usual function first.
    pub hashes: &'static [HashFunction],
    /// Its counts say how many calls a variation carries out. Otherwise it is asked to empty variations, and answers within so many
    /// milliseconds.
    pub empties_within_ms: Option<u64>,
    /// After so many milliseconds what ended is in its counts.
    pub counts_after_ms: u64,
}

/// The time, as whoever drives the agent sees it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Of a clock that never jumps, from any start, in milliseconds.
    pub ms: u64,
    /// Of the wall's clock, since 1970, in milliseconds: only to place what the proxy says of its intervals.
    pub wall_ms: i64,
}

/// What happened that somebody should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Info(String),
    Warning(String),
    Error(String),
}

/// See the module.
#[derive(Debug)]
pub struct StateMachine {
    state: State,
    settings: Settings,
    /// What the offer in hand says.
    offer: Option<Offer>,
    world: World,
    tries: Tries,
    /// The manager's time.
    clock: ManagerClock,
    reads: Reads,
    /// Offers that came to nothing, and until when they are not taken up again.
    shunned: BTreeMap<String, u64>,
    /// When the stage in hand is reported next while it goes on.
    report_at_ms: u64,
    /// Since when versions that were replaced are kept.
    kept_since: BTreeMap<String, u64>,
    /// The state differs from what was saved.
    is_dirty: bool,
    said: Vec<Notice>,
    link: LinkHealth,
    stops: Stops,
    /// Versions that were added and could not be started, and why.
    not_added: BTreeMap<VersionId, String>,
}

/// What is known of what runs and what is in force.
#[derive(Debug, Default)]
struct World {
    /// What the runtimes run, once they were asked.
    running: Option<BTreeSet<VersionId>>,
    /// Where versions listen, or listened last.
    targets: BTreeMap<VersionId, Target>,
    /// Runtimes that didn't answer when they were asked last, and why.
    away: BTreeMap<String, String>,
    /// Runtimes know of these, and this agent doesn't.
    strangers: BTreeMap<VersionId, u64>,
    /// What was read back last.
    in_force: Option<TableNumber>,
    /// What is in force isn't what the table of that number says.
    differs: bool,
    /// Services that were read back last, by name.
    read_back: BTreeSet<String>,
    /// The table that was taken and not read back yet.
    taken: Option<u64>,
    /// What is to be in force, as it was decided in this life.
    decided: Option<TableInputs>,
    /// Since when tables are refused.
    refused_since_ms: Option<u64>,
    /// Versions that are wanted no more.
    leaving: BTreeMap<VersionId, Leaving>,
    drained: BTreeSet<VersionId>,
    /// Versions that are being ended: they serve nothing any more, and are not started before they are gone.
    stopping: BTreeSet<VersionId>,
    /// What is known of the targets of variations, each by both names.
    of_targets: BTreeMap<(String, String), TargetsSeen>,
    /// Since when nothing but what isn't known of targets keeps a stage from its end.
    unknown_since_ms: Option<u64>,
    /// Those that take over and have answered, since they were asked for it.
    answering: BTreeSet<(String, String)>,
    /// When the manager had answered that it knows of a stage that has failed and keeps its shares, on the driver's clock.
    kept_told_ms: u64,
    /// When something was met that a person has to look at, on the driver's clock.
    met_ms: u64,
    /// The number of the next look at the counts.
    counting: u64,
    count_at_ms: u64,
    list_at_ms: u64,
    /// What runs may have changed since it was asked.
    list_again: bool,
    /// The number of the next look at the table.
    looking: u64,
    look_at_ms: u64,
    /// Since when it is asked whether those that take over answer.
    taking_over_since_ms: Option<u64>,
    /// Since when what follows an ended stage is in force.
    ending_since_ms: Option<u64>,
    /// Calls that variations beside the stable ones carried out when the counts were read last, although they have no share any more.
    left_in_flight: u64,
    /// The first look at the counts that was begun after that.
    first_after: u64,
    /// The first look at the counts that shows all of an ended stage.
    last_count: Option<u64>,
    /// Variations of services, each by both names, that nobody is connected to since an ended stage took their shares away.
    emptied: BTreeSet<(String, String)>,
    /// When time was taken last.
    ticked_ms: Option<u64>,
    proxy_trouble: Option<String>,
}

/// A version that is wanted no more.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    /// Neither the table of this number names it, nor a later one.
    from: TableNumber,
    /// Since when such a table is in force, as far as was seen, on the driver's clock.
    since_ms: Option<u64>,
}

/// How the manager is reached.
#[derive(Debug, Clone, Default)]
pub struct LinkHealth {
    pub reached: bool,
    /// When that changed last, on the driver's clock.
    pub since_ms: u64,
    pub trouble: Option<String>,
}

impl StateMachine {
    /// An agent that goes on from this state.
    #[must_use]
    pub fn new(state: State, settings: Settings) -> Self {
        let text = state.work.as_ref().and_then(|work| work.plan()).map(|plan| plan.text.clone());
        let offer = text.and_then(|text| language::offer::read(&text).ok());
        let seed = settings.seed;
        let mut core = Self {
            state,
            settings,
            offer,
            world: World::default(),
            tries: Tries::new(seed),
            clock: ManagerClock::default(),
            reads: Reads::default(),
            shunned: BTreeMap::new(),
            report_at_ms: 0,
            kept_since: BTreeMap::new(),
            is_dirty: false,
            said: Vec::new(),
            link: LinkHealth::default(),
            stops: Stops::default(),
            not_added: BTreeMap::new(),
        };
        let is_lost = |work: &Work| work.plan().is_some() && core.offer.is_none();
        if core.state.work.as_ref().is_some_and(is_lost) {
            // An earlier program read it and this one doesn't.
            core.warn("the offer in hand can't be read any more, and is fetched again");
            core.fetch_again();
        }
        core.share_as_chosen();
        core
    }

    /// What is known and must not be forgotten.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the state is to be saved before anything further is begun. Who asks has saved it.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// What happened since this was asked last.
    pub fn take_said(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.said)
    }

    /// How the manager is reached.
    #[must_use]
    pub fn link(&self) -> &LinkHealth {
        &self.link
    }

    /// What stands in the way of the table that is to be in force, if anything does.
    #[must_use]
    pub fn proxy_trouble(&self) -> Option<&str> {
        self.world.proxy_trouble.as_deref()
    }

    /// Where a version listens.
    #[must_use]
    pub fn target(&self, version: &VersionId) -> Option<&Target> {
        self.world.targets.get(version)
    }

    /// The table that was read back last.
    #[must_use]
    pub fn in_force(&self) -> Option<TableNumber> {
        self.world.in_force
    }

    /// The table that was decided last, in this life or before.
    #[must_use]
    pub fn decided_last(&self) -> TableNumber {
        self.decided()
    }

    /// The table that is to be in force, once that was decided in this life.
    #[must_use]
    pub fn decided_number(&self) -> Option<TableNumber> {
        self.world.decided.is_some().then(|| self.decided())
    }

    /// How often new versions were taken back since the agent was started.
    #[must_use]
    pub fn stops(&self) -> Stops {
        self.stops
    }

    /// When the first result that is owed is sent again, if that waits.
    #[must_use]
    pub fn next_send_ms(&self) -> Option<u64> {
        self.tries.not_before_ms(&Act::Send(self.state.owed.front()?.number))
    }

    /// What a stage of the offer in hand is called.
    #[must_use]
    pub fn stage_name(&self, stage: usize) -> Option<&str> {
        Some(&self.offer.as_ref()?.stages.get(stage)?.stage.name)
    }

    /// Whether a version is needed for anything, or still to be ended.
    #[must_use]
    pub fn is_known(&self, version: &VersionId) -> bool {
        self.state.versions.contains_key(version)
    }

    /// Takes in what came of an act.
    pub fn handle(&mut self, event: Event, now: Now) {
        self.tick(now);
        match event {
            Event::Listed(listed) => self.listed(listed, now),
            Event::Looked(looked) => self.looked(looked, now),
            Event::Joined(joined) => self.joined(joined, now),
            Event::Polled { took_ms, answer } => self.polled(answer, took_ms, now),
            Event::EndStage { offer, stage, skipped, shares, took_ms, answer } => {
                let act = Act::EndStage { offer, stage, skipped, shares };
                self.told_of_end(act, answer, took_ms, now);
            }
            Event::Sent { number, answer } => self.sent(number, answer, now),
            Event::Reported { run, stage, sent_ms, answer } => {
                self.reported(Act::Report { run, stage }, sent_ms, answer, now);
            }
            Event::Fetched { offer, run, fetched } => self.fetched(offer, run, fetched, now),
            Event::Started { version, started } => self.started(version, started, now),
            Event::Applied { generation, applied } => self.applied(generation, applied, now),
            Event::Drained { version, drained } => self.was_drained(version, &drained, now),
            Event::Outdated { generation, outdated } => self.outdated(generation, &outdated, now),
            Event::Emptied { service, variation, emptied } => {
                self.emptied((service, variation), &emptied, now);
            }
            Event::Asked { service, variation, asked } => self.asked((service, variation), &asked, now),
            Event::Stopped { version, stopped } => self.stopped(version, stopped, now),
            Event::Counted { number, counted } => self.counted(number, counted, now),
        }
        self.settle(now);
    }

    /// Lets time pass.
    pub fn pass(&mut self, now: Now) {
        self.tick(now);
        self.settle(now);
    }

    fn tick(&mut self, now: Now) {
        let passed = now.ms.saturating_sub(self.world.ticked_ms.unwrap_or(now.ms));
        self.world.ticked_ms = Some(now.ms);
        if self.is_in_force()
            && let Some(testing) = self.testing_mut()
        {
            testing.elapsed_ms += passed;
        }
    }

    /// All that follows.
    fn settle(&mut self, now: Now) {
        self.end_keeping(now);
        self.serve_added();
        self.go_on(now);
        self.decide_table();
        self.note_leaving(now);
        let acts: BTreeSet<Act> = self.wanted(now).into_iter().collect();
        self.note_stopping(&acts, now);
        // A table that was refused pauses also while it is looked at what is in force.
        let apply = Act::Apply(self.state.generation);
        self.tries.forget(|act| acts.contains(act) || *act == apply);
        self.shunned.retain(|_, until| *until > now.ms);
    }

    /// Stages of the offer in hand are walked through.
    fn is_walking(&self) -> bool {
        self.state.work.as_ref().is_some_and(|work| work.walk().is_some())
    }

    fn testing(&self) -> Option<&Testing> {
        self.state.work.as_ref()?.walk()?.testing.as_ref()
    }

    fn testing_mut(&mut self) -> Option<&mut Testing> {
        self.state.work.as_mut()?.walk_mut()?.testing.as_mut()
    }

    fn dirty(&mut self) {
        self.is_dirty = true;
    }

    fn inform(&mut self, text: impl Into<String>) {
        self.said.push(Notice::Info(text.into()));
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.said.push(Notice::Warning(text.into()));
    }

    /// Goes back to fetching the offer in hand: nothing of it was begun, or it can't be read.
    fn fetch_again(&mut self) {
        if let Some(work) = &mut self.state.work {
            work.phase = Phase::Fetching;
        }
        self.offer = None;
        self.dirty();
    }
}
