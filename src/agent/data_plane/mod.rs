//! Whatever splits the calls beside an agent: the port, and what stands behind it.
//!
//! The state machine ([`crate::state_machine`]) decides whole tables, has one put in force, and counts as done only what was read back. Which kind of
//! router does that, it doesn't know: what makes a difference to it stands in [`Abilities`].
//!
//! | | what it is | what it leads |
//! |---|---|---|
//! | `built_in_proxy.rs` | the proxy beside the agent, over its control socket | functions and services |
//! | `reachability.rs` | which targets of services that proxy can reach | |
//! | `shared_proxy.rs` | that proxy, led by several agents of one process at the same time; with `once.rs` and `shared_counts.rs` | a part each |
//! | `external_router.rs` | an nginx or an `HAProxy`, led by [`router::controller::Lead`] | services |

mod built_in_proxy;
mod external_router;
mod once;
mod reachability;
mod shared_counts;
mod shared_proxy;

use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use call_metrics::Cursor;
use model::traffic::OpenPorts;
use proxy::form::ServiceForm;
use router::{
    Operations,
    controller::{Draining, Phase},
    health::ask_marked,
};
use tokio::{task::JoinSet, time::Instant};
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Listen, Protocol},
    health::{Health, Probe, Verdict},
    observed::ObservedConfig,
};

pub use self::{
    built_in_proxy::{BuiltInProxy, table_form},
    external_router::ExternalRouter,
    shared_proxy::{Former, Part, SharedProxy},
};
use crate::{
    control::form::ProxyStatus,
    runtime::VersionId,
    state_machine::{Abilities, CountsReading, ManagedService, ReadBack, TargetsSeen, Trouble, table::Table},
};

/// What is asked of it is answered once it is so. Who drops an answer before it is there may ask again.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that splits calls.
pub trait DataPlane: fmt::Debug + Send + Sync {
    /// What an operator may ask of it.
    fn operations(&self) -> &dyn Operations;

    fn kind(&self) -> RouterKind {
        self.operations().kind()
    }

    fn abilities(&self) -> Abilities;

    /// What is in force. Trouble: it can't be asked.
    fn look(&self) -> Answer<'_, Result<ReadBack, Trouble>>;

    /// What the table in force has, as it was told. One that isn't led by tables has nothing to say of that.
    fn serves(&self) -> Answer<'_, Result<Vec<ServiceForm>, Trouble>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Waits until it is to be looked at at once. One that is beside no process of its own waits for ever.
    fn changed(&self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Waits until it can't reach a version, which is to be looked at at once. One that doesn't tell waits for ever.
    fn unreachable(&self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Has it do the whole of a table and nothing else. That it was taken is no proof: [`Self::look`] is.
    fn apply<'a>(&'a self, table: &'a Table) -> Answer<'a, Result<(), Trouble>>;

    /// Waits until a table that is being told waits itself for something elsewhere: for the address of a name. One whose tables wait for
    /// nothing waits for ever.
    fn lingers(&self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Waits until the table that was told last comes to something else: names lead elsewhere, or targets are away or back. One that
    /// sees to that by itself waits for ever.
    fn outdated(&self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Whether nobody holds a version of a function any more, whichever part it had.
    fn is_drained<'a>(
        &'a self,
        function: &'a str,
        version: &'a VersionId,
    ) -> Answer<'a, Result<bool, Trouble>>;

    /// Whether nobody holds what listened at this target any more as a variation of a service, which no table names so. One that is asked to
    /// empty its variations has ended all that before.
    fn is_left<'a>(
        &'a self,
        _service: &'a str,
        _variation: &'a str,
        _target: &'a str,
    ) -> Answer<'a, Result<bool, Trouble>> {
        Box::pin(async { Ok(true) })
    }

    /// Waits until nobody is connected to a variation of a service that has no share, or the deadline for that has passed. How many
    /// connections are left then; none: that can't be told.
    fn empty<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Result<Option<u64>, Trouble>>;

    /// What was counted since a cursor. `needs_all`: a stage goes on at these counts, of which none may be missing.
    fn count(&self, cursor: Cursor, needs_all: bool) -> Answer<'_, Result<CountsReading, Trouble>>;

    /// How it stands, by what was seen last.
    fn view(&self) -> View;

    /// What marks what is asked of targets from here; none: they are asked as by anybody.
    fn mark(&self) -> Option<u32> {
        None
    }

    /// What keeps it from taking over calls at ports of other programs, though it is to, and what to do.
    fn takeover_trouble(&self) -> Option<String> {
        None
    }

    /// Ports of which another program may still take a part of the calls, past this.
    fn shared_ports(&self) -> BTreeSet<u16> {
        BTreeSet::new()
    }

    /// The ports at which services may be; none: any, as far as is known.
    fn ports(&self) -> Option<Vec<OpenPorts>>;

    /// How the proxy stands that this is, if it is one.
    fn proxy(&self) -> Option<ProxyStatus> {
        None
    }

    /// Has what is wanted put in force again, whatever it was left alone for.
    fn repair(&self) -> Answer<'_, Result<(), Trouble>>;

    /// Has it take nothing more and end, and waits for that so long at most; false: it isn't for an agent to end.
    fn end(&self, at_most: Duration) -> Answer<'_, Result<bool, Trouble>>;
}

/// How something stands that splits calls.
#[derive(Debug, Clone)]
pub struct View {
    pub phase: Phase,
    /// What is to be in force, with addresses in the place of names.
    pub wanted: Option<Arc<DesiredConfig>>,
    /// What it was seen to do last, and when.
    pub seen: Option<Arc<ObservedConfig>>,
    pub seen_at: Option<Instant>,
    /// It could be asked when that was tried last.
    pub is_reached: bool,
    /// What stands in the way, in one line.
    pub trouble: Option<String>,
    /// In what it departs from what is wanted, because targets are away: a line each.
    pub departures: Vec<String>,
    /// How often a drift was repaired within the last hour.
    pub repairs: usize,
    pub draining: Vec<Draining>,
    /// What the checks of targets have found.
    pub health: Health,
    /// The newest drifts.
    pub drifts: Vec<Drift>,
}

impl View {
    /// What a variation was seen to get, in units of 0.01 %.
    #[must_use]
    pub fn share(&self, service: &str, variation: &str) -> Option<u16> {
        let service = self.seen.as_ref()?.services.get(service)?;
        service.variations.iter().find(|one| one.name == variation).map(|one| one.hundredths)
    }

    /// How many targets of a variation are healthy; none where they aren't looked at.
    #[must_use]
    pub fn healthy(&self, service: &str, variation: &str) -> Option<u32> {
        self.targets(service, variation).map(|seen| seen.healthy)
    }

    /// What is known of the targets of a variation; none where they aren't looked at.
    #[must_use]
    pub fn targets(&self, service: &str, variation: &str) -> Option<TargetsSeen> {
        let service = self.wanted.as_ref()?.service(service)?;
        let which = service.variants().find(|one| one.variation.name.as_str() == variation)?.which;
        let mut seen = TargetsSeen::default();
        for (_, _, verdict) in self.health.of(service).filter(|(of, _, _)| *of == which) {
            match verdict? {
                Verdict::Healthy => seen.healthy += 1,
                Verdict::Unhealthy => seen.unhealthy += 1,
                Verdict::Unknown => seen.unknown += 1,
            }
        }
        Some(seen)
    }
}

/// Refuses what no router of a kind can do for a service.
fn check_abilities(kind: RouterKind, led: &ManagedService) -> Result<(), Trouble> {
    let service = &led.service;
    let (abilities, protocol) = (kind.abilities(), service.protocol());
    let (flows, passes) = (abilities.flows, service.passes_tls());
    let lacks = if !abilities.protocols.contains(&protocol) {
        format!("doesn't lead {}, which {} is", protocol.name(), service.name)
    } else if !abilities.routes && !passes && service.listens.iter().any(Listen::is_routed) {
        format!("takes all calls at a port, and {} has hosts or a path", service.name)
    } else if !flows.pass_through && passes {
        format!("passes no TLS unopened, and {} has tls: pass", service.name)
    } else if !flows.proxy_protocol && led.proxy_protocol.is_some() {
        format!("sends targets no PROXY header, and {} has proxy_protocol", service.name)
    } else if !flows.drain && led.drain.is_some() {
        format!("isn't told how long connections may stay, and {} has drain", service.name)
    } else {
        return Ok(());
    };
    Err(Trouble::refused(format!("{} {lacks}", kind.name())))
}

/// Whether a variation answers: one of its targets does, by the check that is set of it, or else to a connection. Of UDP nobody can tell.
///
/// # Errors
///
/// None does, and why the first one doesn't.
pub async fn answers(view: &View, mark: Option<u32>, service: &str, variation: &str) -> Result<(), Trouble> {
    let wanted = view.wanted.as_ref().and_then(|wanted| wanted.service(service));
    let found =
        wanted.and_then(|of| Some((of, of.variations.iter().find(|one| one.name.as_str() == variation)?)));
    let Some((of, found)) = found else {
        return Err(Trouble::passing("its targets aren't known yet"));
    };
    if of.protocol() == Protocol::Udp {
        return Ok(());
    }
    let how = found.health.clone().unwrap_or_default();
    let mut asked = JoinSet::new();
    for target in &found.targets {
        let probe = Probe { target: target.clone(), how: how.clone() };
        asked.spawn(async move {
            ask_marked(&probe, mark).await.map_err(|fault| format!("{}: {fault}", probe.target))
        });
    }
    let mut first = None;
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(fault)) => first = first.or(Some(fault)),
            Err(error) => first = first.or_else(|| Some(error.to_string())),
        }
    }
    Err(Trouble::passing(format!("no target answers: {}", first.unwrap_or_default())))
}

/// It did something else than it was seen to do.
#[derive(Debug, Clone)]
pub struct Drift {
    pub at: Instant,
    /// Milliseconds since 1970, made greater where two came in one.
    pub number: u64,
    pub differences: router::controller::Differences,
    pub then: router::controller::DriftAction,
}
