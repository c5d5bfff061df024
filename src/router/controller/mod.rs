//! Leads a router: what is wanted of it comes to be in force there, stays in force, and is seen to be.
//!
//! [`StateMachine`] holds its state: no IO, no clock, no chance of its own. What is to be done is *read off* what is wanted and what is
//! known ([`StateMachine::acts`]), and is never a list of its own; [`Lead`] carries it out. Nothing is kept on disk: who leads anew reads
//! the router first, and goes on from what it does.
//!
//! ```mermaid
//! stateDiagram-v2
//!     [*] --> Telling: a wanted state
//!     Telling --> InForce: read back without a difference
//!     Telling --> Telling: refused, no answer, or not obeyed: again, after a pause that grows
//!     InForce --> Telling: another wanted state, or other targets are there
//!     InForce --> Telling: drift, to be repaired (3 an hour)
//!     InForce --> Held: drift, to pause or to accept, or repaired too often
//!     Held --> InForce: the drift is gone by itself
//!     Held --> Telling: another wanted state, or somebody has it repaired
//! ```
//!
//! What is to be in force is made in three steps: what is *wanted*, its names *resolved* ([`crate::names`]), and of that what is
//! left while targets are away, the *effective* state ([`traffic::health`]).
//!
//! Invariants, which `tests/router/controller/` asserts with a router that refuses, hangs, lies, loses its state, is edited by hand and comes
//! back with an old state:
//!
//! 1. In force is only what was told in this life and then read back without a difference.
//! 2. No state is told that is older than the newest this router was ever seen to have, or than one that was wanted here before.
//! 3. Of all that is asked of the router one thing is on its way at a time. A newer wanted state breaks off what is on its way.
//! 4. Nothing is told before the router was read, unless it can't be: what it does decides who keeps calls while nothing is known of
//!    targets.
//! 5. A drift is repaired at most [`REPAIRS`] times in [`REPAIRS_WITHIN_MS`], then the router is left alone until somebody says
//!    otherwise, or something else is wanted of it: a roll-back reaches a router that is left alone, too.
//! 6. Where a change of shares takes a reload ([`Settings::reloads_for`]), a variation whose targets are healthy again gets its share back
//!    [`RELOAD_PAUSE_MS`] after the last reload that targets caused since this is wanted, at the earliest. It loses its share at once.
//! 7. A variation is drained only if it was read back to have no share, nothing that was told leads to it, and it has no connections or
//!    the deadline for that has passed.
//!
//! While a router is left alone its targets are still looked at, and what that comes to is said; it isn't put in force. That it is left
//! alone is forgotten with the process: who leads anew tells it what is wanted.

mod act;
mod drains;
mod drift;
mod drive;
mod event;
mod reconcile;
mod retries;
mod status;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use traffic::{
    desired::{DesiredConfig, Number, Protocol},
    health::{Effective, Grain, Health},
    observed::{Difference, ObservedConfig},
};

pub use self::{
    act::{Act, Event, Order, Trouble, TroubleKind},
    drift::{OnDrift, REPAIRS, REPAIRS_WITHIN_MS},
    drive::{DriveSettings, Lead, Stopped},
    event::{Differences, DriftAction, RouterEvent},
    reconcile::RELOAD_PAUSE_MS,
    status::{Draining, Phase, Status},
};
use self::{drains::Drain, retries::Tries};
use crate::names::{Answers, Resolved, Unresolvable};

/// After so many failures in a row a router counts as one that can't be read. Once is no news: it may be loading its configuration.
const UNREADABLE: u32 = 2;

/// How a router is led.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often it is looked at what it does.
    pub look_every_ms: u64,
    /// How long after it took a state that has to be seen.
    pub obey_ms: u64,
    pub on_drift: OnDrift,
    /// What it can take out without a reload.
    pub grain: Grain,
    /// Protocols of services whose shares it can only change by a reload.
    pub reloads_for: &'static [Protocol],
    /// What chance begins with.
    pub seed: u64,
}

impl Settings {
    /// The usual ones for a router that can take out so much.
    #[must_use]
    pub fn of(grain: Grain) -> Self {
        Self {
            look_every_ms: 2_000,
            obey_ms: 3_000,
            on_drift: OnDrift::Repair,
            grain,
            reloads_for: &[],
            seed: fastrand::u64(..),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct StateMachine {
    settings: Settings,
    wanted: Option<DesiredConfig>,
    /// The newest number that it was seen to have, or said to have had.
    newest: Option<Number>,
    answers: Arc<Answers>,
    health: Health,
    resolved: Option<Result<Resolved, Unresolvable>>,
    effective: Option<Arc<Effective>>,
    /// When the health of targets caused a reload last, of what is wanted; and until when the next one, by which shares come back, is held.
    reloaded_ms: Option<u64>,
    held_until_ms: Option<u64>,
    stand: Stand,
    /// What it took last, in this life.
    told: Option<Told>,
    /// What it was seen to do last, and when.
    seen: Option<Arc<ObservedConfig>>,
    seen_ms: Option<u64>,
    is_reached: bool,
    telling: Tries,
    reading: Tries,
    /// The number of the next look, and when that is due.
    look: u64,
    look_ms: u64,
    /// When drifts were repaired.
    repairs: VecDeque<u64>,
    drains: BTreeMap<(String, String), Drain>,
    trouble: Option<String>,
    /// It didn't take what it was told last.
    is_refused: bool,
    facts: Vec<RouterEvent>,
}

#[derive(Debug, Clone)]
struct Told {
    effective: Arc<Effective>,
    at_ms: u64,
}

/// Where it stands, as the module draws it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    Telling,
    InForce,
    /// It differs, and is left alone.
    Held {
        is_accepted: bool,
        differences: Vec<Difference>,
    },
}

impl StateMachine {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            telling: Tries::new(settings.seed),
            reading: Tries::new(settings.seed.wrapping_add(1)),
            settings,
            wanted: None,
            newest: None,
            answers: Arc::default(),
            health: Health::default(),
            resolved: None,
            effective: None,
            reloaded_ms: None,
            held_until_ms: None,
            stand: Stand::Telling,
            told: None,
            seen: None,
            seen_ms: None,
            is_reached: true,
            look: 0,
            look_ms: 0,
            repairs: VecDeque::new(),
            drains: BTreeMap::new(),
            trouble: None,
            is_refused: false,
            facts: Vec::new(),
        }
    }

    /// Takes in what came about. `now_ms` is of a clock that never jumps, from any start.
    pub fn handle(&mut self, event: Event, now_ms: u64) {
        match event {
            Event::Ordered(order) => self.ordered(order, now_ms),
            Event::Names(answers) => {
                self.answers = answers;
                self.resolve_again(now_ms);
            }
            Event::Health(health) => {
                self.health = health;
                self.weigh(now_ms);
            }
            Event::Applied { told, applied } => self.applied(told, applied, now_ms),
            Event::Read(read) => self.was_read(read, now_ms),
            Event::Connections { service, variation, counted } => {
                self.counted((service, variation), &counted, now_ms);
            }
        }
        self.pass(now_ms);
    }

    /// Lets time pass.
    pub fn pass(&mut self, now_ms: u64) {
        if self.held_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.weigh(now_ms);
        }
        self.end_drains(now_ms);
    }

    /// What is to be on its way now: at most one. What is on its way and not in here is to be given up.
    #[must_use]
    pub fn acts(&self, now_ms: u64) -> Option<Act> {
        if self.telling_since(now_ms).is_some_and(|at| at <= now_ms) {
            return self.wanted.as_ref().map(|wanted| Act::Apply(wanted.number));
        }
        if self.look_ms <= now_ms {
            return Some(Act::Read(self.look));
        }
        self.due_count(now_ms)
    }

    /// What is to be told.
    #[must_use]
    pub fn errand(&self) -> Option<Arc<Effective>> {
        self.effective.clone()
    }

    /// How long nothing else is to be done than now, unless something happens.
    #[must_use]
    pub fn wakes_in_ms(&self, now_ms: u64) -> u64 {
        let times =
            [Some(self.look_ms), self.telling_since(now_ms), self.next_drain_ms(now_ms), self.held_until_ms];
        let next = times.into_iter().flatten().filter(|at| *at > now_ms).min();
        let longest = self.settings.look_every_ms.max(1);
        next.map_or(longest, |at| (at - now_ms).min(longest))
    }

    /// The wanted state with addresses in the place of names: whose targets are to be looked at.
    #[must_use]
    pub fn resolved(&self) -> Option<&DesiredConfig> {
        Some(&self.resolved.as_ref()?.as_ref().ok()?.wanted)
    }

    /// What came about since this was asked last.
    pub fn take_facts(&mut self) -> Vec<RouterEvent> {
        std::mem::take(&mut self.facts)
    }

    /// When something is to be told, if anything is.
    fn telling_since(&self, now_ms: u64) -> Option<u64> {
        let is_to_be_told = self.stand == Stand::Telling
            && self.told.is_none()
            && self.effective.is_some()
            && self.superseded_by().is_none();
        is_to_be_told.then(|| self.telling.not_before_ms().unwrap_or(now_ms))
    }

    /// Nothing is told before the router was read. One that can't be read may still be told: it may be the first time.
    fn may_tell(&self) -> bool {
        self.seen.is_some() || self.reading.failures() >= UNREADABLE
    }

    /// A newer state than the wanted one that the router has or had: somebody else leads it.
    fn superseded_by(&self) -> Option<Number> {
        let wanted = self.wanted.as_ref()?.number;
        self.newest.filter(|newest| *newest > wanted)
    }

    fn ordered(&mut self, order: Order, now_ms: u64) {
        match order {
            Order::Want(wanted) => self.want(*wanted, now_ms),
            Order::Drain { service, variation, within_ms } => {
                self.drain((service, variation), within_ms);
                self.look_ms = self.look_ms.min(now_ms);
            }
            Order::Repair => self.repair(now_ms),
            Order::OnDrift(on_drift) => self.settings.on_drift = on_drift,
        }
    }

    /// Puts what is to be in force in the place of what was told.
    fn tell_again(&mut self, now_ms: u64) {
        self.stand = Stand::Telling;
        self.told = None;
        self.look_ms = self.look_ms.min(now_ms);
    }

    fn say(&mut self, fact: RouterEvent) {
        self.facts.push(fact);
    }

    /// Something stands in the way; it is said once.
    fn troubled(&mut self, text: String) {
        if self.trouble.as_ref() != Some(&text) {
            self.trouble = Some(text.clone());
            self.say(RouterEvent::Trouble { text });
        }
    }
}
