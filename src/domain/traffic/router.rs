//! A router and its services, as they are known.

use std::sync::Arc;

use super::{BURST, Order, REFILL_MS};
use analysis::Histogram;
use model::{
    Now, ReleaseId, ReleaseKey,
    traffic::{LedForm, OpenPorts, RouterPhase, TargetCount},
};

/// What is known of a router.
#[derive(Debug, Clone, PartialEq)]
pub struct Router {
    pub kind: String,
    pub version: Option<String>,
    pub phase: RouterPhase,
    /// What stands in the way of what is wanted, in one line.
    pub trouble: Option<String>,
    /// It could be read when that was tried last.
    pub is_reached: bool,
    /// Repairs within its last hour.
    pub repairs: u32,
    /// The ports at which its services may be; none: any, as far as it says.
    pub ports: Option<Vec<OpenPorts>>,
    /// What keeps it from taking over calls at ports of other programs, though it is to, and what to do.
    pub takeover_trouble: Option<String>,
    /// It leads so many services more than are known here.
    pub untold: u32,
    /// Since when it is in this phase, reached or not, with this trouble.
    pub since: Now,
    /// When counts of calls were kept last.
    pub measured: Now,
    /// By their places.
    pub services: Vec<Option<Arc<Service>>>,
    /// By their places; at most [`super::MAX_ORDERS`].
    pub orders: Vec<Arc<Order>>,
    /// The highest number of a drift that was told.
    pub newest_drift: u64,
    /// How many drifts were told.
    pub drifts: u64,
    /// Changes that may still be kept, and the serving time at which that was so. Of this life alone.
    pub pace: (u32, u64),
}

/// Why a person has to look at a router, the least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouterConcern {
    /// It is to take over calls at ports of other programs, and can't.
    NoTakeover,
    /// It did something else within its last hour, and was put right.
    Repaired,
    /// It differs, and may.
    Accepted,
    /// It differs, and is left alone until somebody says otherwise.
    LeftAlone,
    /// Something stands in the way of what is wanted of it.
    Hindered,
    /// Somebody else leads it.
    Superseded,
    /// It can't be read.
    Unreached,
}

/// A service, as its router leads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub name: String,
    /// Of the wanted state.
    pub epoch: u64,
    pub generation: u64,
    /// The offer that it came from last, and the release of that, where it is known here.
    pub offer: Option<String>,
    pub release: Option<(ReleaseKey, ReleaseId)>,
    /// No release is in hand.
    pub is_standing: bool,
    /// The first is the stable one.
    pub variations: Vec<Variation>,
    pub led: Arc<LedForm>,
    /// When it was read back last, in milliseconds since 1970.
    pub seen_ms: Option<i64>,
    /// For how many milliseconds calls were counted under these shares; none: they aren't counted.
    pub measured_ms: Option<u64>,
    /// When anything but counts changed last.
    pub since: Now,
    /// What it was proven to do last without a release in hand.
    pub standing: Option<Arc<ProvenService>>,
}

/// A variation of a service. Shares are in units of 0.01 %.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    pub name: String,
    pub wanted: u16,
    /// As it was read back.
    pub seen: Option<u16>,
    pub targets: TargetCount,
    /// It is drained; with the connections that are left, as far as the router tells.
    pub draining: Option<Option<u64>>,
    /// Since these shares are in force.
    pub calls: Option<u64>,
    pub errors: Option<u64>,
    pub histogram: Option<Arc<Histogram>>,
}

/// What a service was proven to do without a release in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenService {
    pub epoch: u64,
    pub generation: u64,
    /// The offer that it came from; none: no release of this manager.
    pub offer: Option<String>,
    pub release: Option<ReleaseId>,
    /// In units of 0.01 %, in the order of the variations of `led`.
    pub shares: Vec<u16>,
    pub led: Arc<LedForm>,
    pub since: Now,
}

impl Router {
    /// One of which nothing was said yet.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self {
            kind: String::new(),
            version: None,
            phase: RouterPhase::Idle,
            trouble: None,
            is_reached: false,
            repairs: 0,
            ports: None,
            takeover_trouble: None,
            untold: 0,
            since: now,
            measured: now,
            services: Vec::new(),
            orders: Vec::new(),
            newest_drift: 0,
            drifts: 0,
            pace: (BURST, now.served_ms),
        }
    }

    /// In the order of their places.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter().flatten()
    }

    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services().find(|service| service.name == name)
    }

    /// The place of a service.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service.as_ref().is_some_and(|service| service.name == name))
    }

    /// The most urgent reason why a person has to look at it; `None`: nobody has to.
    #[must_use]
    pub fn concern(&self) -> Option<RouterConcern> {
        // One that was never read yet says so, too.
        let is_new = matches!(self.phase, RouterPhase::Idle | RouterPhase::Waiting) && self.trouble.is_none();
        if !self.is_reached && !is_new {
            return Some(RouterConcern::Unreached);
        }
        let by_phase = match self.phase {
            RouterPhase::Superseded => Some(RouterConcern::Superseded),
            RouterPhase::Paused => Some(RouterConcern::LeftAlone),
            RouterPhase::Accepted => Some(RouterConcern::Accepted),
            RouterPhase::Idle | RouterPhase::Waiting | RouterPhase::Telling | RouterPhase::InForce => {
                self.trouble.as_ref().map(|_| RouterConcern::Hindered)
            }
        };
        let repaired = (self.repairs > 0).then_some(RouterConcern::Repaired);
        let no_takeover = self.takeover_trouble.as_ref().map(|_| RouterConcern::NoTakeover);
        by_phase.into_iter().chain(repaired).chain(no_takeover).max()
    }

    /// What it takes in memory, about, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = self.kind.len() + self.version.as_ref().map_or(0, String::len);
        let troubles = [&self.trouble, &self.takeover_trouble].into_iter().flatten();
        let trouble: usize = troubles.map(String::len).sum();
        let services: usize = self.services().map(|service| service.bytes()).sum();
        let orders: usize = self.orders.iter().map(|order| order.bytes()).sum();
        let ports = self.ports.as_ref().map_or(0, |ports| size_of_val(ports.as_slice()));
        size_of::<Self>() + texts + trouble + ports + services + orders
    }

    /// Takes so many changes from what may be kept; false: there are too many.
    pub(super) fn take(&mut self, changes: usize, served_ms: u64) -> bool {
        let (left, since) = self.pace;
        let passed = served_ms.saturating_sub(since);
        let more = u32::try_from(passed / REFILL_MS).unwrap_or(u32::MAX);
        let left = left.saturating_add(more).min(BURST);
        // What is not a whole step yet goes on counting.
        self.pace = (left, served_ms - if left == BURST { 0 } else { passed % REFILL_MS });
        let Some(left) = u32::try_from(changes).ok().and_then(|changes| left.checked_sub(changes)) else {
            return false;
        };
        self.pace.0 = left;
        true
    }
}

impl Service {
    /// Wanted shares, in the order of the variations.
    #[must_use]
    pub fn wanted(&self) -> Vec<u16> {
        self.variations.iter().map(|one| one.wanted).collect()
    }

    /// Whether its router has it from this release.
    #[must_use]
    pub fn is_of(&self, release: ReleaseKey) -> bool {
        self.release.as_ref().is_some_and(|(of, _)| *of == release)
    }

    /// Whether another program still takes some of its calls, past the router.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.led.ports.iter().any(|listen| listen.shared)
    }

    /// Whether it was read back to do what is wanted, with all calls.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        !self.is_shared() && self.variations.iter().all(|one| one.seen == Some(one.wanted))
    }

    /// The variation that has all calls, if one does.
    #[must_use]
    pub fn serving(&self) -> Option<usize> {
        serving(&self.wanted())
    }

    fn bytes(&self) -> usize {
        let led = led_bytes(&self.led);
        // What stands is mostly what is led, and is counted as if it never were.
        let standing = self.standing.as_ref().map_or(0, |standing| led_bytes(&standing.led));
        let histograms: usize = self
            .variations
            .iter()
            .filter_map(|one| one.histogram.as_ref())
            .map(|one| one.buckets().count() * 24)
            .sum();
        let variations: usize =
            self.variations.iter().map(|one| size_of::<Variation>() + one.name.len()).sum();
        size_of::<Self>() + self.name.len() + led + standing + histograms + variations
    }
}

impl ProvenService {
    /// The variation that has all calls, if one does.
    #[must_use]
    pub fn serving(&self) -> Option<usize> {
        serving(&self.shares)
    }
}

fn serving(shares: &[u16]) -> Option<usize> {
    shares.iter().position(|share| *share == model::traffic::WHOLE)
}

fn led_bytes(led: &LedForm) -> usize {
    let texts = |all: &[String]| all.iter().map(|one| one.len() + size_of::<String>()).sum::<usize>();
    let variations = led.variations.iter().map(|one| {
        let health = one.health.as_ref().and_then(|health| health.path.as_ref()).map_or(0, String::len);
        size_of_val(one) + one.name.len() + texts(&one.targets) + health
    });
    let rule = led.header.as_ref().map_or(0, |rule| {
        rule.name.len() + rule.values.iter().map(|(value, to)| value.len() + to.len() + 48).sum::<usize>()
    });
    let ports = led.ports.iter();
    let ports = ports.map(|at| size_of_val(at) + texts(&at.hosts) + at.path.as_ref().map_or(0, String::len));
    size_of::<LedForm>() + ports.sum::<usize>() + rule + variations.sum::<usize>()
}
