//! Whether each router of a release can lead what the release asks of it.

use std::fmt;

use super::{Fleet, Plan};
use language::{
    Protocol, RouterAbilities, RouterKind, Run, Service, Stage, StickyTo, Strategy,
    analysis::{ChildMetric, MetricSource},
};
use model::{Capabilities, ChildKey, FEATURE_FLOWS, FEATURE_RUNS, FEATURE_TOGETHER, traffic::Listen};

/// A service, and a router that takes part and can't lead it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmanagedRouter {
    pub service: String,
    pub router: ChildKey,
    pub kind: String,
    pub lacks: Lacks,
}

/// What a kind of router can't do that a release asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacks {
    Protocol(Protocol),
    /// It can't keep users by this.
    Sticky(&'static str),
    /// No header asks it for a variation.
    Rule,
    /// It tells calls at a port apart by nothing.
    Routes,
    /// It opens TLS, or knows none.
    PassThrough,
    /// It tells targets in no PROXY header who calls.
    ProxyProtocol,
    /// It isn't told for how long connections may stay.
    Drain,
    /// Its agent is of an older version, which doesn't name this feature, and passes over what is asked for by this key.
    Version {
        key: &'static str,
        feature: &'static str,
    },
    /// Its agent is of an older version, and starts nothing for services.
    Runs,
    /// Its agent has no runtime for this form.
    Runtime(String),
    /// It counts no calls, and this stage is judged by them.
    Counts {
        stage: String,
    },
    /// Nobody knows how long its calls take, and this stage is judged by that.
    Times {
        stage: String,
    },
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(protocol) => write!(f, "leads no {}", protocol.name()),
            Self::Sticky(by) => write!(f, "keeps no users by {by}"),
            Self::Rule => f.write_str("gives nobody a variation by a header"),
            Self::Routes => f.write_str("takes all calls at a port, whatever their host and path"),
            Self::PassThrough => f.write_str("passes no TLS unopened (tls: pass)"),
            Self::ProxyProtocol => f.write_str("sends targets no PROXY header (proxy_protocol)"),
            Self::Drain => {
                f.write_str("isn't told by services how long connections may stay with a variation (drain)")
            }
            Self::Version { key, feature } => write!(
                f,
                "an agent of an older version leads, which passes over {key} (it doesn't name the feature {feature:?}): update it first"
            ),
            Self::Runs => write!(
                f,
                "an older version of choirmaster leads, which starts no variations of services (it doesn't name the feature {FEATURE_RUNS:?}): \
                 update it first"
            ),
            Self::Runtime(form) => write!(
                f,
                "an agent leads that can't start a {form} (run): enable a runtime for it, or give the variation targets"
            ),
            Self::Counts { stage } => write!(
                f,
                "counts no calls, by which stage {stage} is judged (metrics_conditions, minCalls, or an analysis of what children report)"
            ),
            Self::Times { stage } => {
                write!(f, "tells no times of calls, by which stage {stage} is judged (responseTime)")
            }
        }
    }
}

/// The first service that a router can't lead. A kind that isn't known here decides by itself, and so does a manager below, if it knows what is
/// asked for.
///
/// `plan` is asked for only where some kind of router can't lead one of the services.
pub fn unmanaged<'p>(
    strategy: &Strategy,
    fleet: &impl Fleet,
    plan: impl FnOnce() -> &'p Plan,
) -> Option<UnmanagedRouter> {
    let subjects = (strategy.functions.len()..).zip(&strategy.services);
    let begins_together = strategy.stages.iter().any(|stage| stage.with_next);
    let hard: Vec<_> = subjects
        .map(|(subject, service)| (service, Judged::of(strategy, subject)))
        .filter(|(service, judged)| {
            let is_hard = |kind: &RouterKind| lacks(kind.abilities(), service, judged).is_some();
            begins_together || !service.runs.is_empty() || RouterKind::ALL.iter().any(is_hard)
        })
        .collect();
    if hard.is_empty() {
        return None;
    }
    let plan = plan();
    plan.leaders().find_map(|router| {
        let candidate = fleet.candidate(router)?;
        let capabilities = candidate.capabilities?;
        if candidate.is_manager {
            // It sees to its own routers, if it can read what it is told.
            let runs = hard.iter().find(|(service, _)| !service.runs.is_empty());
            let (service, _) = runs.filter(|_| !capabilities.has(FEATURE_RUNS))?;
            let (service, kind) = (service.name().to_owned(), "manager".to_owned());
            return Some(UnmanagedRouter { service, router, kind, lacks: Lacks::Runs });
        }
        let kinds = &capabilities.routers;
        hard.iter().find_map(|(service, judged)| {
            let older = || {
                let passed_over = passed_over(service, begins_together, capabilities);
                passed_over.or_else(|| unable_to_run(service, capabilities))
            };
            let lacks =
                |kind: &String| lacks(RouterKind::named(kind)?.abilities(), service, judged).or_else(older);
            // One of its kinds that can do it is enough.
            let all: Vec<_> = kinds.iter().map(|kind| Some((kind, lacks(kind)?))).collect::<Option<_>>()?;
            let (kind, lacks) = all.into_iter().next()?;
            Some(UnmanagedRouter { service: service.name().to_owned(), router, kind: kind.clone(), lacks })
        })
    })
}

/// What agents of older versions don't read, and say nothing of.
fn passed_over(service: &Service, begins_together: bool, of: &Capabilities) -> Option<Lacks> {
    let together = begins_together.then_some(("with_next", FEATURE_TOGETHER));
    let asked = asked_of_flows(service).map(|key| (key, FEATURE_FLOWS)).into_iter().chain(together);
    let mut lacking = asked.filter(|(_, feature)| !of.has(feature));
    lacking.next().map(|(key, feature)| Lacks::Version { key, feature })
}

/// What a service asks for of connections and flows: by its key.
fn asked_of_flows(service: &Service) -> Option<&'static str> {
    let asked = [
        (service.passes_tls(), "tls: pass"),
        (service.proxy_protocol.is_some(), "proxy_protocol"),
        (service.drain.is_some(), "drain"),
    ];
    asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, key)| key)
}

/// What keeps an agent from starting the variations of a service that are to be started.
fn unable_to_run(service: &Service, capabilities: &Capabilities) -> Option<Lacks> {
    if !service.runs.is_empty() && !capabilities.has(FEATURE_RUNS) {
        return Some(Lacks::Runs);
    }
    let missing = service.runs.values().find(|Run { env, .. }| !capabilities.runs(env))?;
    Some(Lacks::Runtime(missing.env.clone()))
}

fn lacks(abilities: &RouterAbilities, service: &Service, judged: &Judged<'_>) -> Option<Lacks> {
    if !abilities.protocols.contains(&service.protocol()) {
        return Some(Lacks::Protocol(service.protocol()));
    }
    let sticky = match &service.sticky {
        Some(StickyTo::Cookie(_)) if !abilities.sticky.cookie => Some("a cookie"),
        Some(StickyTo::Header(_)) if !abilities.sticky.header => Some("a header"),
        Some(StickyTo::Address) if !abilities.sticky.address => Some("their address"),
        Some(_) | None => None,
    };
    if let Some(by) = sticky {
        return Some(Lacks::Sticky(by));
    }
    if service.rule.is_some() && !abilities.rule {
        return Some(Lacks::Rule);
    }
    let flows = abilities.flows;
    let unable = [
        // Who passes TLS unopened tells its hosts apart.
        (
            !abilities.routes && !service.passes_tls() && service.ports.iter().any(Listen::is_routed),
            Lacks::Routes,
        ),
        (!flows.pass_through && service.passes_tls(), Lacks::PassThrough),
        (!flows.proxy_protocol && service.proxy_protocol.is_some(), Lacks::ProxyProtocol),
        (!flows.drain && service.drain.is_some(), Lacks::Drain),
    ];
    if let Some((_, lacks)) = unable.into_iter().find(|(is_asked, _)| *is_asked) {
        return Some(lacks);
    }
    if let Some(stage) = judged.by_calls.filter(|_| !abilities.counted.contains(&service.protocol())) {
        return Some(Lacks::Counts { stage: stage.to_owned() });
    }
    let stage = judged.by_times.filter(|_| !abilities.measured.has_times())?;
    Some(Lacks::Times { stage: stage.to_owned() })
}

/// The first stages of a subject that are judged by what its router has to count.
struct Judged<'s> {
    by_calls: Option<&'s str>,
    by_times: Option<&'s str>,
}

impl<'s> Judged<'s> {
    fn of(strategy: &'s Strategy, subject: usize) -> Self {
        let first = |is_judged: fn(&Stage) -> bool| {
            let stages = strategy.stages.iter().filter(|stage| stage.subject == subject);
            stages.into_iter().find(|stage| is_judged(stage)).map(|stage| &*stage.name)
        };
        Self { by_calls: first(is_judged_by_calls), by_times: first(is_judged_by_times) }
    }
}

fn is_judged_by_calls(stage: &Stage) -> bool {
    stage.is_judged_by_calls() || stage.new_traffic > 0 && is_analysed(stage, |_| true)
}

fn is_judged_by_times(stage: &Stage) -> bool {
    stage.new_traffic > 0
        && (stage.limits_times() || is_analysed(stage, |metric| metric == ChildMetric::ResponseTime))
}

/// Whether an analysis judges what children report of this.
fn is_analysed(stage: &Stage, of: impl Fn(ChildMetric) -> bool) -> bool {
    let metrics = stage.analysis.iter().flat_map(|analysis| &analysis.metrics);
    metrics.into_iter().any(|metric| matches!(metric.source, MetricSource::Children(metric) if of(metric)))
}
