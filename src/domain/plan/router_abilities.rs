//! Whether each router of a release can lead what the release asks of it.

use std::fmt;

use super::{Fleet, Plan};
use language::{
    MeasuredBy, Protocol, RouterAbilities, RouterKind, Service, StickyTo, Strategy, analysis::MetricSource,
};
use model::ChildKey;

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
    /// It counts no calls, and this stage is judged by them.
    Counts {
        stage: String,
    },
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(protocol) => write!(f, "leads no {}", protocol.name()),
            Self::Sticky(by) => write!(f, "keeps no users by {by}"),
            Self::Rule => f.write_str("gives nobody a variation by a header"),
            Self::Counts { stage } => write!(
                f,
                "counts no calls, by which stage {stage} is judged (metrics_conditions, minCalls, or an analysis of what children report)"
            ),
        }
    }
}

/// The first service that a router can't lead. A kind that isn't known here decides by itself, and so does a manager below.
///
/// `plan` is asked for only where some kind of router can't lead one of the services.
pub fn unmanaged<'p>(
    strategy: &Strategy,
    fleet: &impl Fleet,
    plan: impl FnOnce() -> &'p Plan,
) -> Option<UnmanagedRouter> {
    let subjects = (strategy.functions.len()..).zip(&strategy.services);
    let hard: Vec<_> = subjects
        .map(|(subject, service)| (service, judged_by_calls(strategy, subject)))
        .filter(|(service, judged)| {
            RouterKind::ALL.iter().any(|kind| lacks(kind.abilities(), service, *judged).is_some())
        })
        .collect();
    if hard.is_empty() {
        return None;
    }
    let plan = plan();
    plan.leaders().find_map(|router| {
        let candidate = fleet.candidate(router).filter(|candidate| !candidate.is_manager)?;
        let kinds = &candidate.capabilities?.routers;
        hard.iter().find_map(|(service, judged)| {
            let lacks = |kind: &String| lacks(RouterKind::named(kind)?.abilities(), service, *judged);
            // One of its kinds that can do it is enough.
            let all: Vec<_> = kinds.iter().map(|kind| Some((kind, lacks(kind)?))).collect::<Option<_>>()?;
            let (kind, lacks) = all.into_iter().next()?;
            Some(UnmanagedRouter { service: service.name().to_owned(), router, kind: kind.clone(), lacks })
        })
    })
}

fn lacks(abilities: &RouterAbilities, service: &Service, judged: Option<&str>) -> Option<Lacks> {
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
    let stage = judged.filter(|_| abilities.measured == MeasuredBy::Nothing)?;
    Some(Lacks::Counts { stage: stage.to_owned() })
}

/// The first stage of this subject that is judged by calls which its router has to count.
fn judged_by_calls(strategy: &Strategy, subject: usize) -> Option<&str> {
    let is_judged = |stage: &&language::Stage| {
        let is_analysed = stage.analysis.as_ref().is_some_and(|analysis| {
            analysis.metrics.iter().any(|metric| matches!(metric.source, MetricSource::Children(_)))
        });
        stage.subject == subject && (stage.is_judged_by_calls() || stage.new_traffic > 0 && is_analysed)
    };
    strategy.stages.iter().find(is_judged).map(|stage| &*stage.name)
}
