//! The block itself: when it looks, and what a verdict does.

use super::{
    amount,
    metric::{self, Around, MetricKeys},
    providers::{ProviderKind, Providers},
    schedule::{AnalysisPlace, Schedule, read_schedule, report_never_passed, word_of},
    spec::{
        Analysis, CHILDREN, ChildMetric, Comparison, DEFAULT_CONSECUTIVE_ERRORS, MAX_METRICS, Metric,
        MetricSource, ROUTER, Reference, Rule,
    },
    unclear,
};
use crate::{
    condition::{Condition, Metric as Judged},
    diagnostic::{nearest, quoted},
    fields::{FieldEntry, Fields, Located},
    findings::Findings,
    node::{At, Node, NodeKind},
    reading::{MAX_NAME_BYTES, read_name, read_scalar, title_of},
    scalar,
};

const KEYS: [&str; 11] = [
    "duration",
    "interval",
    "initialDelay",
    "failureLimit",
    "consecutiveErrorLimit",
    "noData",
    "inconclusive",
    "earlyPass",
    "dryRun",
    "alpha",
    "metrics",
];

/// A block, and what others must know of it.
pub(crate) struct AnalysisDraft {
    /// `None` where something was missing, which was reported.
    pub analysis: Option<Analysis>,
    /// Where alpha is given, if it is.
    pub alpha: Option<At>,
    /// For what is judged without being named.
    failure_limit: u32,
    dry_run: bool,
    /// Who is asked by its metrics.
    providers: Vec<Asking>,
}

/// What must be known of a metric where its provider is known.
struct Asking {
    provider: Located<String>,
    has_path: bool,
    /// It asks about the past without saying of when.
    is_timeless: bool,
}

pub(crate) fn read(
    entry: FieldEntry<'_>,
    place: AnalysisPlace,
    findings: &mut Findings<'_>,
) -> Option<AnalysisDraft> {
    let fields = Fields::open(entry.node, "analysis".to_owned(), &KEYS, findings)?;
    let schedule = read_schedule(&fields, place, findings);
    let limit = |key: &str, findings: &mut Findings<'_>| {
        let entry = fields.filled(key, "2", findings)?;
        let limit = read_scalar(entry, "bad-analysis-value", amount::limit, findings)?;
        if let Some(looks) = schedule.looks().filter(|looks| u64::from(limit) >= *looks) {
            report_never_passed(key, limit, looks, entry.at, findings);
        }
        Some(limit)
    };
    let failure_limit = limit("failureLimit", findings).unwrap_or(0);
    let consecutive = limit("consecutiveErrorLimit", findings).unwrap_or(DEFAULT_CONSECUTIVE_ERRORS);
    let no_data = fields.filled("noData", "pause", findings);
    let no_data = no_data.and_then(|entry| unclear::read_unclear(entry, findings));
    let inconclusive = unclear::inconclusive(&fields, schedule.is_open, findings);
    let early_pass = fields.filled("earlyPass", "true", findings);
    let early_pass_at = early_pass.map(|e| e.at);
    let early_pass = early_pass.and_then(|e| read_scalar(e, "bad-analysis-value", amount::truth, findings));
    let dry_run = fields.filled("dryRun", "true", findings);
    let dry_run = dry_run.and_then(|e| read_scalar(e, "bad-analysis-value", amount::truth, findings));
    let alpha_entry = fields.filled("alpha", "0.05", findings);
    let alpha = alpha_entry.and_then(|e| read_scalar(e, "bad-analysis-value", amount::alpha, findings));
    let (dry, names) = (dry_run.unwrap_or(false), names_of(&fields));
    let around = Shared { place, schedule: &schedule, failure_limit, dry_run: dry, names };
    let (metrics, providers) = metrics(&fields, &around, findings);
    let initial_delay = fields.filled("initialDelay", "1m", findings);
    let initial_delay = initial_delay
        .and_then(|e| read_scalar(e, "bad-duration", scalar::duration, findings))
        .unwrap_or_default();
    let analysis = schedule.interval.zip(metrics).map(|(interval, metrics)| Analysis {
        duration: schedule.duration,
        interval,
        initial_delay,
        consecutive_error_limit: consecutive,
        no_data: no_data.unwrap_or_default(),
        inconclusive: inconclusive.then.unwrap_or_default(),
        extend: inconclusive.extend,
        early_pass: early_pass.unwrap_or(false),
        alpha,
        metrics,
    });
    if let Some(analysis) = &analysis {
        unclear::doubt(analysis, early_pass_at, inconclusive.at, findings);
    }
    let alpha = alpha_entry.map(|e| e.at);
    let dry_run = dry_run.unwrap_or(false);
    Some(AnalysisDraft { analysis, alpha, failure_limit, dry_run, providers })
}

/// What all metrics of a block share.
struct Shared<'a> {
    place: AnalysisPlace,
    schedule: &'a Schedule,
    failure_limit: u32,
    dry_run: bool,
    /// That metrics have given themselves.
    names: Vec<String>,
}

/// Those that metrics give themselves, wherever they stand.
fn names_of(fields: &Fields<'_>) -> Vec<String> {
    let Some(NodeKind::Sequence(items)) = fields.optional("metrics").map(|entry| &entry.node.kind) else {
        return Vec::new();
    };
    let name = |metric: &Node| word_of(metric, "name").map(str::to_owned);
    items.iter().filter_map(name).collect()
}

type Metrics = (Option<Vec<Metric>>, Vec<Asking>);

fn metrics(fields: &Fields<'_>, shared: &Shared<'_>, findings: &mut Findings<'_>) -> Metrics {
    let example = "and a list below it";
    let Some(entry) = fields.required("metrics", example, findings) else { return (None, Vec::new()) };
    if matches!(&entry.node.kind, NodeKind::Sequence(items) if items.is_empty()) {
        findings.error(entry.at, "missing-value", "metrics is empty").fix("name at least one");
    }
    let (mut whole, mut metrics, mut providers) = (true, Vec::new(), Vec::new());
    let mut names: Vec<Located<String>> = Vec::new();
    for (index, node) in entry.items(MAX_METRICS, findings).iter().enumerate() {
        match one(node, index, shared, &mut names, findings) {
            Some(metric) => {
                if let MetricSource::Query(asked) = &metric.source {
                    let at = provider_at(node);
                    let looks_back = matches!(
                        metric.rule,
                        Rule::Compare(Comparison { with: Reference::Previous { .. }, .. })
                    );
                    providers.push(Asking {
                        provider: Located { value: asked.provider.clone(), at },
                        has_path: asked.json_path.is_some(),
                        is_timeless: looks_back && !asked.names_window(),
                    });
                }
                metrics.push(metric);
            }
            None => whole = false,
        }
    }
    (whole.then_some(metrics), providers)
}

/// Where the provider of a metric is named.
fn provider_at(node: &Node) -> At {
    let NodeKind::Mapping(pairs) = &node.kind else { return node.at };
    let is_provider = |key: &Node| matches!(&key.kind, NodeKind::Scalar(key) if key == "provider");
    pairs.iter().find(|(key, _)| is_provider(key)).map_or(node.at, |(_, value)| value.at)
}

fn one(
    node: &Node,
    index: usize,
    shared: &Shared<'_>,
    names: &mut Vec<Located<String>>,
    findings: &mut Findings<'_>,
) -> Option<Metric> {
    let what = title_of("metric", node, index);
    let fields = Fields::open(node, what, &metric::KEYS, findings)?;
    // A template that couldn't be put in was reported, and without it nothing can be said.
    if fields.place("template").is_some() {
        return None;
    }
    let name = match fields.place("name") {
        Some(_) => fields.required("name", "latency", findings).and_then(|e| read_name(e, findings)),
        None => Some(Located { value: shared.unnamed(node, names), at: fields.at() }),
    };
    if let Some(name) = &name {
        if let Some(first) = names.iter().find(|first| first.value == name.value) {
            let (name_shown, line) = (quoted(&name.value), first.at.line);
            let message = format!("there are two metrics {name_shown}, the first in line {line}");
            findings.error(name.at, "duplicate-name", message).fix("rename one of them");
        }
        names.push(name.clone());
    }
    let values = MetricKeys::read(&fields, findings);
    let Shared { place, schedule, failure_limit, dry_run, .. } = *shared;
    let around = Around { what: fields.what(), at: fields.at(), place, schedule, failure_limit, dry_run };
    metric::read_metric(name.map(|name| name.value), &values, &around, findings)
}

impl Shared<'_> {
    /// The name of a metric that has none: its strategy and its provider, numbered where there are several.
    fn unnamed(&self, node: &Node, names: &[Located<String>]) -> String {
        let (strategy, provider) =
            (word_of(node, "strategy").unwrap_or("THRESHOLD"), word_of(node, "provider"));
        let whole = provider.map_or_else(|| strategy.to_owned(), |provider| format!("{strategy} {provider}"));
        // Room for the number.
        let mut cut = whole.len().min(MAX_NAME_BYTES - 4);
        while !whole.is_char_boundary(cut) {
            cut -= 1;
        }
        let base: String = whole[..cut].chars().filter(|c| !c.is_control()).collect();
        let taken = |name: &str| {
            self.names.iter().any(|known| known == name) || names.iter().any(|known| known.value == name)
        };
        if !taken(&base) {
            return base;
        }
        // There are fewer metrics than numbers.
        (2..=usize::MAX).map(|number| format!("{base} {number}")).find(|name| !taken(name)).unwrap_or(base)
    }
}

impl AnalysisDraft {
    /// The analysis of a stage, which judges its `metrics_conditions` too.
    pub fn judging(self, conditions: &[Condition]) -> Option<Analysis> {
        let mut analysis = self.analysis?;
        for condition in conditions {
            let mut name = format!("metrics_conditions: {condition}");
            while analysis.metrics.iter().any(|metric| metric.name == name) {
                name.push_str(", again");
            }
            analysis.metrics.push(Metric {
                name,
                source: MetricSource::Children(match condition.metric {
                    Judged::ErrorRate => ChildMetric::ErrorRate,
                    Judged::ResponseTime(_) => ChildMetric::ResponseTime,
                }),
                rule: Rule::Condition(condition.clone()),
                pair: None,
                failure_limit: self.failure_limit,
                dry_run: self.dry_run,
                interval: None,
            });
        }
        Some(analysis)
    }

    /// Warns of names that are almost that of a kind of provider, where it is not known which there are.
    pub fn doubt_providers(&self, findings: &mut Findings<'_>) {
        for Asking { provider: name, .. } in &self.providers {
            let kinds = ProviderKind::ALL.into_iter().filter(|kind| kind.names_its_providers());
            let kinds = [CHILDREN, ROUTER].into_iter().chain(kinds.map(ProviderKind::name));
            let near = nearest(&name.value, kinds).filter(|near| *near != name.value);
            if let Some(near) = near {
                let message =
                    format!("a provider called {} would have to be configured", quoted(&name.value));
                findings.warning(name.at, "unknown-provider", message).fix(format!("did you mean {near}?"));
            }
        }
    }

    /// Reports providers that there are not, and paths for those that have no use for one.
    pub fn check_providers(&self, known: &Providers, findings: &mut Findings<'_>) {
        for Asking { provider: name, has_path, is_timeless } in &self.providers {
            match known.get(&name.value).map(|provider| provider.kind) {
                None if name.value == ROUTER => check_router(name, *has_path, *is_timeless, findings),
                None => {
                    let message = format!("there is no provider {}", quoted(&name.value));
                    let names = known.names().chain([CHILDREN, ROUTER]);
                    let near = nearest(&name.value, names.clone());
                    let found = findings.error(name.at, "unknown-provider", message);
                    let all = || format!("this manager has {}", names.collect::<Vec<_>>().join(", "));
                    found.fix(near.map_or_else(all, |near| format!("did you mean {near}?")));
                }
                Some(kind) if *has_path && !kind.reads_paths() => {
                    let message = "jsonPath has a meaning only with a provider of the type web";
                    findings.error(name.at, "no-effect", message).fix("leave jsonPath out");
                }
                Some(kind) if *is_timeless && !kind.keeps_history() => {
                    let message = format!(
                        "{} tells what is now, and the query asks about an earlier time without saying which",
                        quoted(&name.value)
                    );
                    findings.error(name.at, "missing-variable", message).fix(
                        "write {{ .BuiltInArgs.Window.Start }} and {{ .BuiltInArgs.Window.End }} into the query",
                    );
                }
                Some(_) => {}
            }
        }
    }
}

/// What routers tell is what is now, and no document.
fn check_router(name: &Located<String>, has_path: bool, looks_back: bool, findings: &mut Findings<'_>) {
    if has_path {
        let message = "jsonPath has a meaning only with a provider of the type web";
        findings.error(name.at, "no-effect", message).fix("leave jsonPath out");
    }
    if looks_back {
        let message = "routers tell what is now, and nothing of an earlier release";
        findings
            .error(name.at, "contradiction", message)
            .fix("compare with CANARY_BASELINE or CANARY_PRIMARY, or ask a provider that keeps history");
    }
}
