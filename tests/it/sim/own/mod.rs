//! Own agents: the agent's real core, which is led in place, beside a runtime and a proxy in virtual time.
//!
//! ```text
//! callers ─▶ proxy (its real table and counts) ◀─ acts of the core ─▶ calls in flight ─▶ manager
//!              │ versions of the runtime                │
//!              └ crashes, hands over                    └ killed at any instant: what was saved is what is left
//! ```
//!
//! The driver ([`drive`]) does what the product's does between the core and the world: it saves first, begins what the core wants,
//! gives up what it wants no more. What it begins takes effect in [`machine`]; what befalls the machine is in [`fate`]. [`watch`] looks at
//! what comes of it: which offer is run, and what is reported of it; [`shares`] at who gets calls.

mod drive;
mod fate;
mod groups;
mod led;
mod link;
mod machine;
mod proxy;
mod runtime;
mod shares;
mod watch;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use ::agent::state_machine::{Abilities, Act, Errand, Event, Function, Now, Settings, State, StateMachine};
use domain::{children::Variant, release::command::Offer};
use model::ReleaseKey;
use traffic::HashFunction;

pub use self::{groups::Groups, led::Led};
use self::{proxy::Proxy, runtime::Runtime, watch::Watched};
use super::{agent::Agent, call::Response, domain::Flaw, manager::Manager};

/// What happens to an own agent.
#[derive(Debug)]
pub enum Happening {
    /// It is started.
    Start,
    /// SIGKILL.
    Die,
    /// Nothing was to be done before.
    Wake {
        process: u32,
        nap: u64,
    },
    /// What was begun takes effect.
    Does {
        process: u32,
        flight: u64,
        act: Act,
        errand: Box<Errand>,
    },
    /// What it began has come to this.
    Came {
        process: u32,
        flight: u64,
        event: Box<Event>,
    },
    /// The manager has answered.
    Answered {
        process: u32,
        flight: u64,
        response: Response,
    },
    /// Somebody calls its functions.
    Calls,
    /// Its proxy dies, or hands over to another process.
    ProxyEnds {
        hands_over: bool,
    },
    ProxyBegins,
    /// Nobody reaches the control of its proxy, which serves on.
    ProxyIsDeaf {
        until: u64,
    },
    /// One of its versions dies.
    VersionDies,
    /// The wall's clock jumps.
    ClockJumps,
    /// Its operator takes back what a release tries, or rolled out last.
    IsUndone,
}

/// An offer that it has fetched, as the manager gave it.
#[derive(Debug, Clone)]
pub struct Handed {
    pub offer: Offer,
    pub text: String,
}

/// Something that it waits for.
#[derive(Debug, Clone, Copy)]
struct Flight {
    number: u64,
    began: u64,
}

/// The machine, and whichever process of the agent runs on it.
#[derive(Debug)]
pub struct Own {
    pub parent: usize,
    pub place: usize,
    /// It leads the calls of services, and runs no functions.
    pub is_router: bool,
    pub area: Arc<str>,
    pub address: IpAddr,
    pub process: u32,
    /// `None` while it is dead.
    core: Option<StateMachine>,
    /// What was saved.
    disk: Option<Box<State>>,
    /// With a flaw: it saves nothing any more until it dies.
    is_forgetful: bool,
    runtime: Runtime,
    proxy: Proxy,
    flights: BTreeMap<Act, Flight>,
    /// Which nap it takes.
    nap: u64,
    /// What its wall's clock shows beside the time of the world.
    wall_off_ms: i64,
    /// Milliseconds between two looks of callers, and how many call then.
    calls_every_ms: u64,
    calls: u64,
    /// Chance that a new version is not what it should be.
    mishap: f64,
    keep_base_ms: u64,
    drain_ms: u64,
    /// The stage whose shares its proxy refuses.
    refuses: Option<&'static str>,
    /// The service whose ports somebody else has: its proxy refuses the first table with it, and all others.
    has_no_port_for: Option<&'static str>,
    handed: BTreeMap<String, Handed>,
    /// Texts of offers whose functions are being fetched.
    fetching: BTreeMap<u64, Handed>,
    watched: Watched,
}

impl Own {
    pub fn new(parent: usize, place: usize, mishap: f64) -> Self {
        // It is where a deployed agent would be.
        let Agent { area, address, .. } = Agent::new(parent, place, mishap);
        Self {
            parent,
            place,
            is_router: false,
            area,
            address,
            process: 0,
            core: None,
            disk: None,
            is_forgetful: false,
            runtime: Runtime::default(),
            proxy: Proxy::new(),
            flights: BTreeMap::new(),
            nap: 0,
            wall_off_ms: 0,
            calls_every_ms: 500,
            calls: 2,
            mishap,
            keep_base_ms: 0,
            drain_ms: 30_000,
            refuses: None,
            has_no_port_for: None,
            handed: BTreeMap::new(),
            fetching: BTreeMap::new(),
            watched: Watched::default(),
        }
    }

    pub const fn is_alive(&self) -> bool {
        self.core.is_some()
    }

    fn state(&self) -> Option<&State> {
        self.core.as_ref().map(StateMachine::state)
    }

    /// What the manager calls it, as far as it knows.
    pub fn id(&self) -> Option<&str> {
        self.state()?.id.as_deref()
    }

    /// The same, also while it is dead.
    fn last_id(&self) -> Option<&str> {
        self.state().or(self.disk.as_deref())?.id.as_deref()
    }

    pub fn is_idle(&self) -> bool {
        self.state().is_some_and(|state| state.work.is_none() && state.owed.is_empty())
    }

    /// What it has in hand, and what it owes.
    pub fn in_hand(&self) -> String {
        format!("{:?}", self.state().map(|state| (&state.work, &state.owed)))
    }

    /// Whether it has something in hand.
    pub fn is_at_work(&self) -> bool {
        self.state().is_some_and(|state| state.work.is_some())
    }

    fn now(&self, at: u64) -> Now {
        // Each process has a clock of its own that never jumps.
        Now { ms: at + u64::from(self.process) * 1_000_003, wall_ms: at as i64 + self.wall_off_ms }
    }

    fn start(&mut self, flaw: Option<Flaw>) {
        self.process += 1;
        // Through the form in which it is kept.
        let text = self.disk.as_deref().map(|state| serde_json::to_string(state).unwrap());
        let mut state: Option<State> = text.map(|text| serde_json::from_str(&text).expect("what was saved"));
        if let Some((state, flaw)) = state.as_mut().zip(flaw) {
            led::bend(&mut state.services, flaw, state.work.is_some());
            if let (Flaw::ForgetsShares, Some(work)) = (flaw, &mut state.work) {
                work.shares.clear();
            }
        }
        let settings = Settings {
            keep_base_ms: self.keep_base_ms,
            drain_ms: self.drain_ms,
            joins: false,
            seed: u64::from(self.process) + 100 * self.place as u64,
            abilities: Abilities {
                name: "the proxy",
                hashes: &[HashFunction::Murmur2],
                empties_within_ms: None,
                counts_after_ms: 0,
            },
        };
        self.core = Some(StateMachine::new(state.unwrap_or_default(), settings));
        self.flights.clear();
        self.fetching.clear();
    }

    fn save(&mut self) {
        self.disk = self.state().cloned().map(Box::new);
    }

    fn die(&mut self) {
        self.core = None;
        self.is_forgetful = false;
        self.flights.clear();
        self.fetching.clear();
    }

    /// The storm is over: what died comes back, and somebody calls.
    pub fn calm(&mut self) {
        self.mishap = 0.0;
        self.calls = self.calls.max(2);
        self.proxy.deaf_until = 0;
        if !self.proxy.is_up {
            self.proxy.begin_life();
        }
    }

    /// Which functions run the new version of a release for good, and under which id it said so.
    pub fn rolled_out(&self) -> impl Iterator<Item = (&str, ReleaseKey, &str)> {
        self.watched.rolled_out()
    }

    /// What its manager says wrongly of what it runs: it must not take a new version for served that was taken back here.
    pub fn told_otherwise(&self, manager: &Manager) -> Option<String> {
        let child = manager.state.children.key(self.id()?)?;
        let mut functions = self.state()?.functions.iter();
        functions.find_map(|(name, function)| {
            let said = manager.state.deployment(child, name).filter(|said| said.variant == Variant::New)?;
            let is_so = self.rolled_out().any(|(of, release, _)| of == name && release == said.release);
            (!is_so).then(|| format!("{said:?} of {name} is said to be served, and {function:?} is"))
        })
    }

    /// What is wrong with a machine at rest: something runs that nobody needs, or serves what was not decided.
    pub fn leftovers(&self) -> Option<String> {
        let state = self.state()?;
        // Who knows of nothing that was ever wanted here ends nothing: it may have forgotten what serves.
        if state.functions.is_empty() && state.services.is_empty() && state.versions.is_empty() {
            return None;
        }
        let needed: Vec<_> = state.functions.values().flat_map(Function::versions).collect();
        let left: Vec<_> = self.runtime.versions().filter(|version| !needed.contains(version)).collect();
        if !left.is_empty() {
            return Some(format!("{left:?} run, and nobody needs them; it knows {:?}", state.versions));
        }
        let forgotten = state.versions.keys().find(|version| !needed.contains(version));
        if let Some(version) = forgotten {
            return Some(format!("{version} is known, and nobody needs it"));
        }
        let missing = needed.iter().find(|version| !self.runtime.versions().any(|runs| runs == **version));
        missing.map(|version| format!("{version} serves and doesn't run"))
    }
}
