//! Which variations of a service the metrics of what children report are about.
//!
//! A service may have more than two variations. Then each that gets calls beside the stable one is judged against it: a metric that names
//! no variation stands for the first of them, and one more, which has its name and that of the variation, for each other. All of them
//! have their part of alpha. A metric that names its variations stands for these alone.

use super::spec::{Analysis, MAX_METRICS, Metric, MetricSource, Pair, Rule};
use crate::{
    diagnostic::quoted,
    findings::Findings,
    node::At,
    strategy::{Strategy, Subject},
};

/// A service's variations: what each is called, and whether it gets calls where it is looked at.
type Variations = Vec<(String, bool)>;

/// Gives each metric its variations. `place`: where a stage stands.
pub(crate) fn judge_each_variation(
    strategy: &mut Strategy,
    place: impl Fn(usize) -> At,
    findings: &mut Findings<'_>,
) {
    let variations = |subject: Subject<'_>, shares: Option<&[u16]>| -> Option<Variations> {
        let Subject::Service(service) = subject else { return None };
        let gets_calls =
            |at: usize| shares.is_none_or(|shares| shares.get(at).is_some_and(|share| *share > 0));
        let each = service.variations.iter().enumerate();
        Some(each.map(|(at, one)| (one.name.to_string(), gets_calls(at))).collect())
    };
    let all: Vec<Variations> = strategy.subjects().filter_map(|subject| variations(subject, None)).collect();
    let of_stages: Vec<Vec<Variations>> = strategy
        .stages
        .iter()
        .map(|stage| {
            let subject = strategy.subject(stage.subject);
            subject.and_then(|subject| variations(subject, Some(&stage.shares))).into_iter().collect()
        })
        .collect();
    if let Some(analysis) = strategy.rollout.as_mut().and_then(|rollout| rollout.analysis.as_mut()) {
        Services { services: &all, at: place(0) }.settle(analysis, findings);
    }
    for (index, (stage, services)) in strategy.stages.iter_mut().zip(&of_stages).enumerate() {
        if let Some(analysis) = &mut stage.analysis {
            Services { services, at: place(index) }.settle(analysis, findings);
        }
    }
}

/// What the metrics of an analysis can be about.
struct Services<'s> {
    services: &'s [Variations],
    /// Where a fault is reported.
    at: At,
}

impl Services<'_> {
    fn settle(&self, analysis: &mut Analysis, findings: &mut Findings<'_>) {
        let mut further: Vec<Metric> = Vec::new();
        let of_children = |metric: &&mut Metric| matches!(metric.source, MetricSource::Children(_));
        for metric in analysis.metrics.iter_mut().filter(of_children) {
            if metric.pair.is_some() {
                self.check(metric, findings);
                continue;
            }
            let mut tried = self.tried();
            if let Some((_, name)) = tried.first().filter(|(at, _)| *at > 1) {
                metric.pair = Some(Pair { canary: Some(name.clone()), baseline: None });
            }
            tried.drain(..tried.len().min(1));
            further.extend(tried.into_iter().map(|(_, name)| Metric {
                name: format!("{}, {name}", metric.name),
                pair: Some(Pair { canary: Some(name), baseline: None }),
                ..metric.clone()
            }));
        }
        for mut metric in further {
            while analysis.metrics.iter().any(|known| known.name == metric.name) {
                metric.name.push_str(", again");
            }
            analysis.metrics.push(metric);
        }
        let judged = analysis.metrics.iter().filter(|metric| !matches!(metric.rule, Rule::Condition(_)));
        let count = judged.count();
        if count > MAX_METRICS {
            let message = format!(
                "each variation is judged by itself, which takes {count} metrics: more than {MAX_METRICS}"
            );
            findings.broken_rule(self.at, "too-many", message).fix("judge by fewer metrics");
        }
    }

    /// The variations beside the stable ones that get calls, each with its place in its service; the first of a place comes first.
    fn tried(&self) -> Vec<(usize, String)> {
        let beside = self.services.iter().flat_map(|service| service.iter().enumerate().skip(1));
        let mut tried: Vec<(usize, String)> = beside
            .filter(|(_, (_, gets_calls))| *gets_calls)
            .map(|(at, (name, _))| (at, name.clone()))
            .collect();
        tried.sort_by_key(|(at, _)| *at);
        // Of each service the first two are what is told of two versions: together they are what a metric without a pair is about.
        let mut is_first = true;
        tried.retain(|(at, _)| *at > 1 || std::mem::take(&mut is_first));
        tried
    }

    /// What a metric names must be there, get calls, and be two.
    fn check(&self, metric: &mut Metric, findings: &mut Findings<'_>) {
        let Some(Pair { baseline, canary }) = metric.pair.clone() else { return };
        let named: Vec<&String> = baseline.iter().chain(&canary).collect();
        let knows =
            |service: &&Variations| named.iter().all(|name| service.iter().any(|(known, _)| known == *name));
        let what = format!("the metric {}", quoted(&metric.name));
        let Some(service) = self.services.iter().find(knows) else {
            let names = named.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" and ");
            let message = format!("{what} names {names}, and what is judged has no such variations");
            findings.broken_rule(self.at, "unknown-variation", message).fix("name variations of the service");
            return;
        };
        let place = |name: &Option<String>, usual: usize| {
            name.as_ref().map_or(Some(usual), |name| service.iter().position(|(known, _)| known == name))
        };
        let (Some(other), Some(judged)) = (place(&baseline, 0), place(&canary, 1)) else { return };
        if judged == other || judged == 0 {
            let message = format!("{what} judges what it compares with, or the stable variation");
            findings
                .broken_rule(self.at, "contradiction", message)
                .fix("name a new variation in canaryArgs, and another one to compare it with");
        }
        let is_compared = matches!(metric.rule, Rule::Compare(_)) && !metric.looks_back();
        let sides = [judged].into_iter().chain(is_compared.then_some(other));
        let idle = sides.filter_map(|at| service.get(at)).find(|(_, gets_calls)| !gets_calls);
        if let Some((name, _)) = idle {
            let message = format!("{what} is about {}, which gets no calls in the stage", quoted(name));
            findings
                .broken_rule(self.at, "contradiction", message)
                .fix("give it a share, or leave the metric out");
        }
        if (other, judged) == (0, 1) {
            metric.pair = None;
        }
    }
}
