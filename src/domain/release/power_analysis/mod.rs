//! What it takes to judge a release, said before it begins: calls, how long they take, and what chance does to plain
//! conditions.
//!
//! It rests on what the base version and its children did in the last release of the function that ended well, and on a stated
//! assumption where there is no such release, or its children count nothing. It decides nothing.

mod observed;
mod risk;

use std::{fmt::Write as _, time::Duration};

pub use self::{
    observed::{Measured, Observed},
    risk::{Risk, risks},
};
pub use ::analysis::power::PowerAt;

use super::{analysis, gate::HybridLevels};
use ::analysis::{
    Design, Sample, Tolerance,
    effects::LEAST_CHILDREN,
    power::{self, Among, Power, PowerFault, Spread},
};
use language::{
    Stage, Strategy,
    analysis::{Analysis, ChildMetric, Metric, MetricSource, ProviderQuery, Rule},
};

/// Assumed of times without history: standard deviation by mean.
pub const ASSUMED_VARIATION: f64 = 0.5;

/// Assumed of errors without history.
pub const ASSUMED_ERROR_RATE: f64 = 0.001;

/// Shares of equal versions that are to pass.
pub const WANTED: [f64; 2] = [0.8, 0.95];

/// Widest tolerance that is proposed.
const WIDEST: f64 = 1.0;

/// No longer duration is proposed, in seconds: a year.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// What a comparison takes.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerAnalysis {
    /// Index into [`Strategy::stages`]; `None`: the whole release.
    pub stage: Option<usize>,
    pub metric: String,
    /// On what the numbers rest.
    pub basis: String,
    /// Changes are ratios, not differences.
    pub relative: bool,
    /// Of all agents that are judged together.
    pub calls_per_second: Option<f64>,
    /// For each of [`WANTED`], what lets as many pass; `None`: no number of calls does.
    pub wanted: Vec<(f64, Option<PowerAt>)>,
    /// What the data at the end will be good for.
    pub given: Option<PowerAt>,
    /// How often what is measured is looked at; `None`: as long as the release takes.
    pub looks: Option<u64>,
    /// Who reports when, and what comes of it, in words.
    pub reporting: Option<String>,
    /// What to do, where that doesn't suffice.
    pub warning: Option<String>,
    /// Why nothing can be said.
    pub unknown: Option<String>,
}

/// How the agents that take part report a stage that goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reporting {
    /// So many report at each interval.
    pub on_the_way: u64,
    /// So many report once, when they have met the minima of the stage.
    pub once: u64,
}

impl Reporting {
    /// The part of them that report on the way. Of agents that nobody knows all may: that takes more calls.
    fn share(self) -> f64 {
        let all = self.on_the_way + self.once;
        if all == 0 { 1.0 } else { self.on_the_way as f64 / all as f64 }
    }

    /// Who reports on the way makes that it is looked at on the way.
    fn looks_on_the_way(self) -> bool {
        self.share() > 0.0
    }

    /// Who reports when, and how often that is looked at.
    fn words(self, looks: &str, stage: &Stage, interval: Duration) -> String {
        let [least, interval] = [stage.min_duration, interval].map(|time| lasts(time.as_secs_f64()));
        let minima = format!("once, at minDuration ({least}) and minCalls ({})", stage.min_calls);
        let acts = format!("interval ({interval}) acts only for children that report while a stage goes on");
        match self {
            Self { on_the_way: 0, once: 0 } => {
                format!("{looks} if somebody reports on the way, else one; a deployed agent reports {minima}")
            }
            Self { on_the_way: 0, once } => format!("one look: {} {minima}; {acts}", reports(once)),
            Self { on_the_way, once: 0 } => format!("{looks}: {} at each interval", reports(on_the_way)),
            Self { on_the_way, once } => {
                format!("{looks}: {} at each interval, and {} {minima}", reports(on_the_way), reports(once))
            }
        }
    }
}

fn looks_of(design: &Design) -> String {
    match design.looks() {
        None => "a look at each interval".to_owned(),
        Some(1) => "one look".to_owned(),
        Some(looks) => format!("{looks} looks"),
    }
}

fn reports(agents: u64) -> String {
    if agents == 1 { "1 agent reports".to_owned() } else { format!("{agents} agents report") }
}

/// What is known of earlier releases and of those who take part.
#[derive(Debug, Clone, Copy)]
pub struct PriorKnowledge<'a> {
    /// One for each stage.
    pub observed: &'a [Option<Observed>],
    /// By queries.
    pub measured: &'a [Measured],
    /// The agents of each wave, and at least one number.
    pub waves: &'a [u64],
    pub reporting: Reporting,
}

/// Of everything that is compared.
pub fn prospects(strategy: &Strategy, known: PriorKnowledge<'_>) -> Vec<PowerAnalysis> {
    let agents = known.waves.iter().copied().filter(|agents| *agents > 0).min().unwrap_or(0);
    let blocks = strategy.analyses();
    let each = |(stage, analysis): (Option<usize>, &Analysis)| -> Vec<PowerAnalysis> {
        let at = stage.unwrap_or(0);
        let (Some(of), observed) = (strategy.stages.get(at), known.observed.get(at).and_then(Option::as_ref))
        else {
            return Vec::new();
        };
        let compared = analysis.metrics.iter().filter_map(|metric| match &metric.rule {
            Rule::Compare(compare) => Some((metric, compare)),
            Rule::Threshold { .. } | Rule::Condition(_) => None,
        });
        let power_analysis = |(metric, compare)| {
            let runs = runs(strategy, stage, analysis, known.waves.len());
            let alpha = analysis::alpha_of(strategy, stage, metric) / runs as f64;
            let design = analysis::design(metric, compare, analysis, alpha);
            let around = Around { stage, of, analysis, metric, observed, known, agents };
            around.power_analysis(&design)
        };
        compared.map(power_analysis).collect()
    };
    blocks.flat_map(each).collect()
}

/// How many runs of a block share its alpha.
fn runs(strategy: &Strategy, stage: Option<usize>, analysis: &Analysis, waves: usize) -> usize {
    let is_global = strategy.rollout.as_ref().is_some_and(|rollout| rollout.order.has_barriers());
    match stage {
        None if analysis.duration.is_none() => 1,
        None if is_global => usize::from(HybridLevels::of(strategy, false).rollout()) + 1,
        _ => waves.max(1),
    }
}

/// What a metric is judged in.
struct Around<'a> {
    stage: Option<usize>,
    of: &'a Stage,
    analysis: &'a Analysis,
    metric: &'a Metric,
    observed: Option<&'a Observed>,
    known: PriorKnowledge<'a>,
    /// That are judged together, where they are fewest.
    agents: u64,
}

/// What a metric's values are taken to be.
struct Expected {
    spread: Spread,
    /// In words, on what that rests.
    basis: String,
    /// Values of both versions in a second, of all who are judged together.
    per_second: Option<f64>,
}

impl Around<'_> {
    fn power_analysis(&self, design: &Design) -> PowerAnalysis {
        let Expected { spread, basis, per_second } = self.expected();
        let (by_children, on_the_way) =
            (matches!(self.metric.source, MetricSource::Children(_)), self.metric.is_judged_on_the_way());
        let looked_at = Design { end: analysis::while_running(self.analysis, self.metric), ..design.clone() };
        let once = design;
        let design = if on_the_way && self.known.reporting.looks_on_the_way() { &looked_at } else { once };
        let mut found = PowerAnalysis {
            stage: self.stage,
            metric: self.metric.name.clone(),
            basis,
            relative: matches!(design.tolerance, Tolerance::Ratio(_)),
            calls_per_second: per_second,
            wanted: Vec::new(),
            given: None,
            looks: design.looks(),
            reporting: on_the_way.then(|| self.reporting(&looked_at)),
            warning: None,
            unknown: None,
        };
        let share = if by_children { f64::from(self.of.new_traffic) / 100.0 } else { 0.5 };
        let among = self.among();
        let power_of =
            |design: &Design| Power::new(design, &spread, share).map(|power| power.among(among.clone()));
        let planned = match power_of(design) {
            Ok(planned) => planned,
            Err(fault) => {
                found.unknown = Some(self.fault(&fault));
                return found;
            }
        };
        found.wanted =
            WANTED.map(|share| (share, planned.calls(share).map(|calls| planned.point(calls)))).into();
        found.given = self.calls(by_children, per_second).map(|calls| planned.point(calls));
        if on_the_way && looked_at.looks() != once.looks() {
            let calls = found.given.or(found.wanted[0].1).map(|point| point.calls);
            let both = [once, &looked_at].map(|design| {
                let change = power_of(design).ok()?.smallest_change(calls?)?;
                Some(format!("by {} from {}", looks_of(design), finds(change, found.relative)))
            });
            if let (Some(reporting), Some(calls), [Some(one), Some(many)]) =
                (&mut found.reporting, calls, both)
            {
                let _ = write!(reporting, "; with {calls} calls a change is found {one}, {many}");
            }
        }
        let wider = |calls: u64| {
            wide_enough(design.tolerance, |tolerance| {
                let wider = power_of(&Design { tolerance, ..design.clone() });
                wider.is_ok_and(|wider| wider.passes(calls) >= WANTED[0])
            })
        };
        found.warning = match (found.given, found.wanted.first()) {
            (Some(given), Some(_)) if given.passes >= WANTED[0] => None,
            (Some(given), Some((_, Some(wanted)))) => {
                Some(self.too_few(given, *wanted, per_second, wider(given.calls)))
            }
            (given, Some((_, None))) => {
                Some(never(wider(given.map_or(power::MAX_CALLS, |given| given.calls))))
            }
            _ => None,
        };
        found
    }

    /// What to change where the calls at the end are too few for most equal versions to pass.
    fn too_few(&self, given: PowerAt, wanted: PowerAt, rate: Option<f64>, wider: Option<f64>) -> String {
        let by_children = matches!(self.metric.source, MetricSource::Children(_));
        // Who reports once does so when the minima of the stage are met, however long the analysis lasts.
        let lasts_as_long = self.analysis.duration.is_some()
            && (!by_children
                || self.metric.is_judged_on_the_way() && self.known.reporting.looks_on_the_way());
        let longer = rate.filter(|_| lasts_as_long).map(|rate| wanted.calls as f64 / rate);
        let more = match longer.filter(|seconds| *seconds < LONGEST_S) {
            Some(seconds) => format!("the duration to {} ({} calls)", lasts(seconds), wanted.calls),
            None if by_children => format!("minCalls to {}", wanted.calls.div_ceil(self.agents.max(1))),
            None => format!("the calls to {}", wanted.calls),
        };
        let wider = wider.map_or_else(String::new, |wide| format!(", or the tolerance to {}", percent(wide)));
        format!(
            "raise {more}{wider}: with about {} calls only {:.0} % of equal versions pass",
            given.calls,
            (given.passes * 100.0).floor()
        )
    }

    fn reporting(&self, looked_at: &Design) -> String {
        let interval = self.analysis.interval_of(self.metric);
        self.known.reporting.words(&looks_of(looked_at), self.of, interval)
    }

    fn fault(&self, fault: &PowerFault) -> String {
        match fault {
            PowerFault::Share(_) => format!("stage {} gives one version no calls", self.of.name),
            fault => fault.to_string(),
        }
    }

    /// Of children that are compared with themselves of an earlier release nobody tells how they differ.
    fn among(&self) -> Option<Among> {
        let MetricSource::Children(of) = self.metric.source else { return None };
        if !self.metric.is_judged_on_the_way() {
            return None;
        }
        let is_errors = of == ChildMetric::ErrorRate;
        let observed = self.observed.and_then(|observed| observed.among(is_errors, self.agents));
        observed.or_else(|| Some(Among::alike(self.agents))).filter(|_| self.agents > 0)
    }

    /// How values vary, how many of them come, and in words on what that rests.
    fn expected(&self) -> Expected {
        let rate = self.observed.and_then(|observed| observed.calls_per_second);
        let rate = rate.map(|rate| rate * self.agents as f64).filter(|rate| *rate > 0.0);
        match &self.metric.source {
            MetricSource::Children(ChildMetric::ErrorRate) => {
                let known = self.observed.and_then(Observed::errors);
                let (rate_of_errors, basis) = known.unwrap_or_else(|| self.assuming_alike(assumed_errors()));
                let spread = Spread::Events { rate: rate_of_errors };
                Expected { spread, basis, per_second: rate }
            }
            MetricSource::Children(ChildMetric::ResponseTime) => {
                let times = self.observed.and_then(|observed| Some((observed.times()?, observed.basis())));
                let (spread, basis) = match times {
                    Some((times, basis)) => (Spread::Observed(Sample::Measured(times.clone())), basis),
                    None => self.assuming_alike(assumed("times")),
                };
                Expected { spread, basis, per_second: rate }
            }
            MetricSource::Query(asked) => self.expected_points(asked),
        }
    }

    fn expected_points(&self, asked: &ProviderQuery) -> Expected {
        let stage = self.stage.map(|_| self.of.name.as_str());
        let interval = self.analysis.interval_of(self.metric);
        let measured = self.known.measured.iter().find(|found| found.is_of(stage, asked, interval));
        if let Some(found) = measured {
            return Expected {
                spread: Spread::Series(found.strata.clone()),
                basis: format!("release {}", found.release),
                per_second: found.points_per_second(),
            };
        }
        let (spread, basis) = assumed("points");
        Expected { spread, basis, per_second: None }
    }

    /// From so many children on it makes a difference whether they differ.
    fn assuming_alike<T>(&self, (of, basis): (T, String)) -> (T, String) {
        if (self.agents as f64) < LEAST_CHILDREN || !self.metric.is_judged_on_the_way() {
            return (of, basis);
        }
        (of, format!("{basis}, and no version that suits some children better"))
    }

    /// How many calls, or points, there will be at the end: at the rate observed, or as many as each agent waits for.
    fn calls(&self, by_children: bool, rate: Option<f64>) -> Option<u64> {
        let clamped = |calls: u64| calls.clamp(2, power::MAX_CALLS);
        if !by_children {
            let time = self.analysis.duration?;
            return Some(clamped((rate? * time.as_secs_f64()) as u64));
        }
        if self.agents == 0 {
            return None;
        }
        let waited_for = (self.of.min_calls > 1).then(|| self.of.min_calls.saturating_mul(self.agents));
        let by_rate = rate.zip(self.measured_for()).map(|(rate, time)| (rate * time.as_secs_f64()) as u64);
        waited_for.max(by_rate).map(clamped)
    }

    /// For how long calls are counted, in the mean of the agents: who reports once does so when the minima of the stage are met.
    fn measured_for(&self) -> Option<Duration> {
        let (longest, least) = (self.analysis.duration?, self.of.min_duration);
        let share = if self.metric.is_judged_on_the_way() { self.known.reporting.share() } else { 0.0 };
        Some(least + longest.saturating_sub(least).mul_f64(share))
    }
}

/// What is found four times of five.
fn finds(change: f64, relative: bool) -> String {
    if relative { format!("{:+.1} %", (change - 1.0) * 100.0) } else { format!("{change:+.3}") }
}

/// What to change where no number of calls is enough.
fn never(wider: Option<f64>) -> String {
    let advice = wider.map_or_else(
        || format!("compare another metric, for not even a tolerance of {} helps", percent(WIDEST)),
        |wide| format!("raise the tolerance to {}", percent(wide)),
    );
    format!(
        "{advice}: no number of calls lets {} of equal versions pass, for what differs beyond calls is too much",
        percent(WANTED[0])
    )
}

/// Rounded up.
fn percent(share: f64) -> String {
    format!("{} %", (share * 100.0 - 1e-9).ceil())
}

fn assumed_errors() -> (f64, String) {
    (ASSUMED_ERROR_RATE, format!("assumed: {} % errors", ASSUMED_ERROR_RATE * 100.0))
}

fn assumed(what: &str) -> (Spread, String) {
    let words = format!("assumed: {what} with a standard deviation of {ASSUMED_VARIATION} of their mean");
    (Spread::of_variation(ASSUMED_VARIATION, None), words)
}

/// The tolerance that is wide enough, to a percent.
fn wide_enough(tolerance: Tolerance, suffices: impl Fn(Tolerance) -> bool) -> Option<f64> {
    let Tolerance::Ratio(own) = tolerance else { return None };
    let mut percent = (own * 100.0).ceil() as u32 + 1;
    while f64::from(percent) / 100.0 <= WIDEST {
        let tolerance = f64::from(percent) / 100.0;
        if suffices(Tolerance::Ratio(tolerance)) {
            return Some(tolerance);
        }
        percent += 1 + percent / 20;
    }
    None
}

/// Rounded up to two units at most.
fn lasts(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match (minutes / 60, minutes % 60) {
        (0, _) if seconds < 60.0 => format!("{}s", seconds.ceil().max(1.0)),
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}
