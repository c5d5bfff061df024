//! What it takes to judge a release, said before it begins: calls, how long they take, and what chance does to plain
//! conditions.
//!
//! It rests on what the base version did in the last release of the function that ended well, and on a stated assumption where
//! there is no such release, or its children count nothing. It decides nothing.

pub use crate::analysis::power::Point;

use super::{analysis, strata::Strata, summary::Summary};
use crate::{
    analysis::{
        Counts, Design, Sample, Tolerance,
        power::{self, Chances, Kept, Power, PowerFault, Spread},
    },
    strategy::{
        Condition, Metric, Operator, Stage, Statistic, Strategy,
        analysis::{Analysis, ChildMetric, Rule, Source},
    },
};

/// Assumed of times without history: standard deviation by mean.
pub const ASSUMED_VARIATION: f64 = 0.5;

/// Assumed of errors without history.
pub const ASSUMED_ERROR_RATE: f64 = 0.001;

/// Shares of equal versions that are to pass.
pub const WANTED: [f64; 2] = [0.8, 0.95];

/// The share of children that chance may stop at a condition.
const TOLERATED_CHANCE: f64 = 0.05;

/// Fewer calls tell no rate of errors.
const LEAST_CALLS: u64 = 100;

/// Widest tolerance that is proposed.
const WIDEST: f64 = 1.0;

/// What the base version did in a stage of an earlier release.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The id of that release.
    pub release: String,
    /// Of the base version.
    times: Option<Sample>,
    counts: Option<Counts>,
    /// Calls of both versions that one agent has in a second.
    calls_per_second: Option<f64>,
}

impl Observed {
    /// Of what children reported of a stage that took `seconds`.
    pub fn of(release: &str, reports: &[Summary], new_traffic: u8, seconds: f64) -> Self {
        let total = Strata::of(reports, new_traffic).total();
        let agents: u64 = reports
            .iter()
            .map(|report| report.agents.map_or(1, |agents| u64::from(agents.participants)))
            .sum();
        let calls = total.counts.map(|sides| sides.iter().map(|side| side.calls).sum::<u64>());
        let calls = calls.filter(|calls| *calls > 0 && agents > 0 && seconds > 0.0);
        Self {
            release: release.to_owned(),
            times: total.times.map(|[base, _]| Sample::Histogram(base)),
            counts: total.counts.map(|[base, _]| base).filter(|base| base.calls >= LEAST_CALLS),
            calls_per_second: calls.map(|calls| calls as f64 / agents as f64 / seconds),
        }
    }

    /// Half an event more than was seen: none of few calls doesn't mean that there are none.
    fn error_rate(&self) -> Option<f64> {
        self.counts.map(|base| (base.events as f64 + 0.5) / (base.calls as f64 + 1.0))
    }
}

/// What a comparison takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Prospect {
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
    pub wanted: Vec<(f64, Option<Point>)>,
    /// What the data at the end will be good for.
    pub given: Option<Point>,
    /// What to do, where that doesn't suffice.
    pub warning: Option<String>,
    /// Why nothing can be said.
    pub unknown: Option<String>,
}

/// What chance does to a plain condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Risk {
    pub stage: usize,
    pub condition: String,
    pub basis: String,
    pub chances: Chances,
    /// The `minCalls` from which on no more than one child in twenty is stopped or untested by chance.
    pub least_calls: Option<u64>,
    pub warning: Option<String>,
}

/// Of everything that is compared. `observed` has one of each stage; `waves` the agents of each wave, and at least one
/// number.
pub fn prospects(strategy: &Strategy, observed: &[Option<Observed>], waves: &[u64]) -> Vec<Prospect> {
    let agents = waves.iter().copied().filter(|agents| *agents > 0).min().unwrap_or(0);
    let blocks = strategy.analyses();
    let each = |(stage, analysis): (Option<usize>, &Analysis)| -> Vec<Prospect> {
        let runs = if stage.is_some() { waves.len().max(1) } else { 1 };
        let at = stage.unwrap_or(0);
        let (Some(of), observed) = (strategy.stages.get(at), observed.get(at).and_then(Option::as_ref))
        else {
            return Vec::new();
        };
        let compared = analysis.metrics.iter().filter_map(|metric| match &metric.rule {
            Rule::Compare(compare) => Some((metric, compare)),
            _ => None,
        });
        let prospect = |(metric, compare)| {
            let alpha = analysis::alpha_of(strategy, stage, metric) / runs as f64;
            let design = analysis::design(metric, compare, analysis, alpha);
            let around = Around { stage, of, analysis, observed, agents };
            around.prospect(&metric.name, &metric.source, &design)
        };
        compared.map(prospect).collect()
    };
    blocks.flat_map(each).collect()
}

/// What a metric is judged in.
struct Around<'a> {
    stage: Option<usize>,
    of: &'a Stage,
    analysis: &'a Analysis,
    observed: Option<&'a Observed>,
    /// That are judged together, where they are fewest.
    agents: u64,
}

impl Around<'_> {
    fn prospect(&self, metric: &str, source: &Source, design: &Design) -> Prospect {
        let (spread, basis) = self.spread(source);
        let by_children = matches!(source, Source::Children(_));
        let rate = self.observed.and_then(|observed| observed.calls_per_second);
        let rate =
            rate.filter(|_| by_children).map(|rate| rate * self.agents as f64).filter(|rate| *rate > 0.0);
        let mut found = Prospect {
            stage: self.stage,
            metric: metric.to_owned(),
            basis,
            relative: matches!(design.tolerance, Tolerance::Ratio(_)),
            calls_per_second: rate,
            wanted: Vec::new(),
            given: None,
            warning: None,
            unknown: None,
        };
        let share = f64::from(self.of.new_traffic) / 100.0;
        let share = if by_children { share } else { 0.5 };
        let power = match Power::new(design, &spread, share) {
            Ok(power) => power,
            Err(fault) => {
                found.unknown = Some(self.fault(&fault));
                return found;
            }
        };
        found.wanted = WANTED.map(|share| (share, power.calls(share).map(|calls| power.point(calls)))).into();
        let given = self.calls(by_children, rate);
        found.given = given.map(|calls| power.point(calls));
        if let (Some(given), Some((_, wanted))) = (found.given, found.wanted.first()) {
            let wider = || wide_enough(design, &spread, share, given.calls);
            found.warning = too_few(given, *wanted, rate, wider);
        }
        found
    }

    fn fault(&self, fault: &PowerFault) -> String {
        match fault {
            PowerFault::Share(_) => format!("stage {} gives one version no calls", self.of.name),
            fault => fault.to_string(),
        }
    }

    /// How values vary, and in words on what that rests.
    fn spread(&self, source: &Source) -> (Spread, String) {
        let of = |observed: &Observed| format!("release {}", observed.release);
        match source {
            Source::Children(ChildMetric::ErrorRate) => {
                let known = self.observed.and_then(|o| Some((o.error_rate()?, of(o))));
                let (rate, basis) = known.unwrap_or_else(assumed_errors);
                (Spread::Events { rate }, basis)
            }
            Source::Children(ChildMetric::ResponseTime) => {
                let times = self.observed.and_then(|o| Some((o, o.times.clone()?)));
                match times.filter(|(_, times)| times.count() >= LEAST_CALLS) {
                    Some((observed, times)) => (Spread::Observed(times), of(observed)),
                    None => assumed("times"),
                }
            }
            Source::Query(_) => assumed("points"),
        }
    }

    /// How many calls there will be at the end: at the rate observed, or as many as each agent waits for.
    fn calls(&self, by_children: bool, rate: Option<f64>) -> Option<u64> {
        if !by_children || self.agents == 0 {
            return None;
        }
        let waited_for = (self.of.min_calls > 1).then(|| self.of.min_calls.saturating_mul(self.agents));
        let time = self.analysis.duration.map(|duration| duration.max(self.of.min_duration));
        let by_rate = rate.zip(time).map(|(rate, time)| (rate * time.as_secs_f64()) as u64);
        waited_for.max(by_rate).map(|calls| calls.clamp(2, power::MAX_CALLS))
    }
}

/// What to do where the calls at the end are too few for most equal versions to pass.
fn too_few(
    given: Point,
    wanted: Option<Point>,
    rate: Option<f64>,
    wider: impl Fn() -> Option<f64>,
) -> Option<String> {
    if given.passes >= WANTED[0] {
        return None;
    }
    let mut advice = Vec::new();
    if let Some(wanted) = wanted {
        let longer =
            rate.map(|rate| wanted.calls as f64 / rate).filter(|seconds| *seconds < 366.0 * 86_400.0);
        advice.push(match longer {
            Some(seconds) => format!("a duration of {} ({} calls)", lasts(seconds), wanted.calls),
            None => format!("{} calls", wanted.calls),
        });
    }
    if let Some(wide) = wider() {
        advice.push(format!("a tolerance of {} %", (wide * 100.0).ceil()));
    }
    let advice = if advice.is_empty() { "no number of calls".to_owned() } else { advice.join(", or ") };
    Some(format!(
        "with about {} calls {:.0} % of equal versions pass; for {:.0} % it takes {advice}",
        given.calls,
        (given.passes * 100.0).floor(),
        WANTED[0] * 100.0
    ))
}

fn assumed_errors() -> (f64, String) {
    (ASSUMED_ERROR_RATE, format!("assumed: {} % errors", ASSUMED_ERROR_RATE * 100.0))
}

fn assumed(what: &str) -> (Spread, String) {
    let words = format!("assumed: {what} with a standard deviation of {ASSUMED_VARIATION} of their mean");
    (Spread::of_variation(ASSUMED_VARIATION, None), words)
}

/// The tolerance with which so many calls suffice, to a percent.
fn wide_enough(design: &Design, spread: &Spread, share: f64, calls: u64) -> Option<f64> {
    let Tolerance::Ratio(own) = design.tolerance else { return None };
    let mut percent = (own * 100.0).ceil() as u32 + 1;
    while f64::from(percent) / 100.0 <= WIDEST {
        let tolerance = f64::from(percent) / 100.0;
        let wider = Design { tolerance: Tolerance::Ratio(tolerance), ..design.clone() };
        if Power::new(&wider, spread, share).ok()?.passes(calls) >= WANTED[0] {
            return Some(tolerance);
        }
        percent += 1 + percent / 20;
    }
    None
}

/// Of every plain condition of every stage.
pub fn risks(strategy: &Strategy, observed: &[Option<Observed>], agents: u64) -> Vec<Risk> {
    let stages = strategy.stages.iter().enumerate().filter(|(_, stage)| stage.new_traffic > 0);
    let each = |(at, stage): (usize, &Stage)| -> Vec<Risk> {
        let observed = observed.get(at).and_then(Option::as_ref);
        let risk = |condition| risk(at, stage, condition, observed, agents);
        stage.conditions.iter().filter_map(risk).collect()
    };
    stages.flat_map(each).collect()
}

fn risk(
    at: usize,
    stage: &Stage,
    condition: &Condition,
    observed: Option<&Observed>,
    agents: u64,
) -> Option<Risk> {
    let of = |observed: &Observed| format!("release {}", observed.release);
    let (kept, rate, basis) = match condition.metric {
        Metric::ErrorRate => {
            let known = observed.and_then(|observed| Some((observed.error_rate()?, of(observed))));
            let (rate, basis) = known.unwrap_or_else(assumed_errors);
            let or_equal = match condition.operator {
                Operator::Less => false,
                Operator::LessOrEqual => true,
                _ => return None,
            };
            (Kept::Errors { threshold: condition.threshold, or_equal }, rate, basis)
        }
        Metric::ResponseTime(statistic) => {
            // Without history nobody knows how long calls take.
            let (observed, times) = observed.and_then(|o| Some((o, o.times.as_ref()?)))?;
            if !matches!(condition.operator, Operator::Less | Operator::LessOrEqual) {
                return None;
            }
            (kept(statistic, beyond(times, condition.threshold)?), 0.0, of(observed))
        }
    };
    let (calls, share) = (stage.min_calls.max(1), f64::from(stage.new_traffic) / 100.0);
    let chances = power::chances(kept, calls, share, rate);
    let least_calls = power::least_calls(kept, share, rate, TOLERATED_CHANCE);
    let warning = (chances.fails + chances.untested > TOLERATED_CHANCE).then(|| {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let advice = match least_calls {
            Some(least) => format!("minCalls: {least} would do"),
            None => "no minCalls would do: the base version breaks it too".to_owned(),
        };
        let hit = (agents as f64 * chances.fails).round();
        let some = if hit > 0.0 { format!(", at some {hit} of {agents},") } else { String::new() };
        format!(
            "after {calls} calls an equal version fails by chance at {} of the agents{some} and is untested at {}; {advice}",
            share(chances.fails),
            share(chances.untested)
        )
    });
    Some(Risk { stage: at, condition: condition.to_string(), basis, chances, least_calls, warning })
}

const fn kept(statistic: Statistic, beyond: f64) -> Kept {
    match statistic {
        Statistic::Median => Kept::Quantile { q: 0.5, beyond },
        Statistic::Quantile(q) => Kept::Quantile { q, beyond },
        Statistic::Maximum => Kept::All { beyond },
        Statistic::Minimum => Kept::One { beyond },
    }
}

/// The share of times above a threshold.
fn beyond(times: &Sample, threshold: f64) -> Option<f64> {
    let Sample::Histogram(histogram) = times else { return None };
    let above = |(low, high, count): (f64, f64, u64)| {
        let part = if threshold <= low {
            1.0
        } else if threshold >= high {
            0.0
        } else {
            (high - threshold) / (high - low)
        };
        part * count as f64
    };
    let count = histogram.count();
    (count >= LEAST_CALLS).then(|| histogram.buckets().map(above).sum::<f64>() / count as f64)
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
