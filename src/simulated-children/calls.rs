//! Calls that never took place: their versions, times and errors, drawn from a seed.

use std::{str::FromStr, time::Duration};

use rand::{RngExt, rngs::StdRng};

use model::duration::read_go;

use super::{sessions::Sessions, timing::CallClock};
use analysis::Values;
use protocol::{HistogramForm, TimesForm};

/// Most simulated calls a second at one child.
pub const MAX_CALLS_PER_SECOND: f64 = 100_000.0;

/// What the proxy adds to the time of a call, in milliseconds.
const PROXY_OVERHEAD_MS: f64 = 0.1;

/// Buckets of the histogram that stands in for the list of all times.
const BUCKETS: usize = 280;

/// Upper bound of the first bucket, in milliseconds.
const FIRST_BOUND_MS: f64 = 0.1;

/// Each bucket is this much wider than the last one: medians are exact to 5 %, up to 80 seconds.
const GROWTH: f64 = 1.05;

/// Most intervals in which calls are counted apart: a report has no room for more.
const MAX_PARTS: usize = 48;

/// Shortest simulated call, in milliseconds.
const SHORTEST_CALL_MS: f64 = 0.001;

/// How long calls take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    Constant { ms: f64 },
    Uniform { from_ms: f64, to_ms: f64 },
    LogNormal { median_ms: f64, sigma: f64 },
}

impl Latency {
    fn draw(self, rng: &mut StdRng) -> f64 {
        let ms = match self {
            Self::Constant { ms } => ms,
            Self::Uniform { from_ms, to_ms } => from_ms + (to_ms - from_ms) * rng.random::<f64>(),
            Self::LogNormal { median_ms, sigma } => median_ms * (sigma * standard_normal(rng)).exp(),
        };
        ms.max(SHORTEST_CALL_MS)
    }
}

/// Box-Muller.
pub(super) fn standard_normal(rng: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// `constant:8ms`, `uniform:5ms,9ms` or `lognormal:MEDIAN,SIGMA` as in `lognormal:8ms,0.3`.
impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "a latency looks like constant:8ms, uniform:5ms,9ms or lognormal:8ms,0.3";
        let ms = |part: &str| read_go(part.trim()).map(|d| d.as_secs_f64() * 1000.0).ok_or(EXPECTED);
        let (shape, arguments) = text.split_once(':').ok_or(EXPECTED)?;
        match (shape, arguments.split_once(',')) {
            ("constant", None) => Ok(Self::Constant { ms: ms(arguments)? }),
            ("uniform", Some((from, to))) => {
                let (from_ms, to_ms) = (ms(from)?, ms(to)?);
                if from_ms <= to_ms { Ok(Self::Uniform { from_ms, to_ms }) } else { Err(EXPECTED.into()) }
            }
            ("lognormal", Some((median, sigma))) => {
                let sigma: f64 = sigma.trim().parse().map_err(|_| EXPECTED)?;
                if !(0.0..=5.0).contains(&sigma) {
                    return Err("the sigma of a lognormal latency is from 0 to 5".into());
                }
                Ok(Self::LogNormal { median_ms: ms(median)?, sigma })
            }
            _ => Err(EXPECTED.into()),
        }
    }
}

/// How a version of a function behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    pub latency: Latency,
    /// Share of calls that fail, 0 to 1.
    pub errors: f64,
}

impl Behaviour {
    /// Makes a call: how long it took, `None` if it failed.
    fn call(self, rng: &mut StdRng) -> Option<f64> {
        (rng.random::<f64>() >= self.errors).then(|| self.latency.draw(rng))
    }

    /// A version that isn't there any more.
    pub const DELETED: Self = Self { latency: Latency::Constant { ms: 1.0 }, errors: 1.0 };
}

/// The calls that users would make.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// At each child.
    pub calls_per_second: f64,
    pub base: Behaviour,
    pub new: Behaviour,
    /// Of every version whose path contains `bad_path`.
    pub bad: Behaviour,
    pub bad_path: Option<String>,
}

impl Traffic {
    /// How the version in the folder `path` behaves; `ordinary` is that of its role.
    pub fn behaviour(&self, path: &str, ordinary: Behaviour) -> Behaviour {
        match &self.bad_path {
            Some(bad) if path.contains(bad.as_str()) => self.bad,
            _ => ordinary,
        }
    }
}

/// What was counted of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    pub calls: u64,
    pub errors: u64,
    minimum_ms: f64,
    maximum_ms: f64,
    /// Successful calls by time; bucket i ends at [`bound`]`(i)`, the last has no end.
    buckets: Vec<u64>,
    /// The same as newer children report them, and by their clock.
    exactly: Option<(CallClock, Values)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            calls: 0,
            errors: 0,
            minimum_ms: f64::INFINITY,
            maximum_ms: 0.0,
            buckets: vec![0; BUCKETS + 1],
            exactly: None,
        }
    }
}

/// Upper end of a bucket, in milliseconds.
fn bound(bucket: usize) -> f64 {
    FIRST_BOUND_MS * GROWTH.powi(i32::try_from(bucket).unwrap_or(i32::MAX))
}

impl Tally {
    /// Counts a call and the time it took; `None`: it failed.
    fn count(&mut self, ms: Option<f64>) {
        self.calls += 1;
        let Some(mut ms) = ms else {
            self.errors += 1;
            return;
        };
        if let Some((clock, values)) = &mut self.exactly {
            ms = clock.read(ms);
            // What is longer than all that is counted is none of the calls that are simulated.
            let _ = values.record(ms, 1);
        }
        self.minimum_ms = self.minimum_ms.min(ms);
        self.maximum_ms = self.maximum_ms.max(ms);
        let bucket = ((ms / FIRST_BOUND_MS).ln() / GROWTH.ln()).ceil().max(0.0) as usize;
        self.buckets[bucket.min(BUCKETS)] += 1;
    }

    /// An empty one that counts in the same way.
    fn like(&self) -> Self {
        self.exactly.as_ref().map_or_else(Self::default, |(clock, _)| Self::timed_by(*clock))
    }

    fn timed_by(clock: CallClock) -> Self {
        let values = Values::new(clock.told()).ok();
        Self { exactly: values.map(|values| (clock, values)), ..Self::default() }
    }

    /// Share of failed calls; 0 of no calls is 0, as agents have it.
    pub fn error_rate(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.errors as f64 / self.calls as f64 }
    }

    /// Times of the successful calls, -1 where there was none.
    pub fn times(&self) -> TimesForm {
        let successful = self.calls - self.errors;
        if successful == 0 {
            return TimesForm::NONE;
        }
        let mut seen = 0;
        let middle = self.buckets.iter().position(|count| {
            seen += count;
            seen * 2 >= successful
        });
        let median = bound(middle.unwrap_or(BUCKETS)) / GROWTH.sqrt();
        TimesForm {
            median: median.clamp(self.minimum_ms, self.maximum_ms),
            minimum: self.minimum_ms,
            maximum: self.maximum_ms,
        }
    }

    /// The time within which a share of the successful calls was answered.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let successful = self.calls - self.errors;
        let rank = ((successful as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let at = at.filter(|_| successful > 0)?;
        Some((bound(at) / GROWTH.sqrt()).clamp(self.minimum_ms, self.maximum_ms))
    }

    /// Times of the successful calls, if they were kept and there were any.
    pub fn values(&self) -> Option<&Values> {
        self.exactly.as_ref().map(|(_, values)| values).filter(|values| !values.is_empty())
    }

    /// The same in buckets.
    pub fn histogram(&self) -> Option<HistogramForm> {
        self.values().map(|values| HistogramForm::Sketch(values.to_histogram()))
    }

    fn merged(&self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            errors: self.errors + other.errors,
            minimum_ms: self.minimum_ms.min(other.minimum_ms),
            maximum_ms: self.maximum_ms.max(other.maximum_ms),
            buckets: self.buckets.iter().zip(&other.buckets).map(|(a, b)| a + b).collect(),
            exactly: None,
        }
    }
}

/// The calls during one stage. The clock is the child's own: only [`StageCalls::advance`] moves it.
#[derive(Debug, Clone)]
pub struct StageCalls {
    base_behaviour: Behaviour,
    new_behaviour: Behaviour,
    /// 0 to 1.
    new_share: f64,
    calls_per_second: f64,
    pub elapsed: Duration,
    /// f1.
    pub base: Tally,
    /// f2.
    pub new: Tally,
    /// The same apart by interval, where they are counted apart.
    parts: Vec<IntervalTally>,
    /// Or by session, where all calls of one go to one version.
    sessions: Option<Sessions>,
}

/// What was counted in one interval.
#[derive(Debug, Clone)]
struct IntervalTally {
    interval: u32,
    sides: [Tally; 2],
}

impl StageCalls {
    /// `new_share` is the part of the calls that the new version gets, 0 to 1.
    pub fn new(base: Behaviour, new: Behaviour, new_share: f64, calls_per_second: f64) -> Self {
        Self {
            base_behaviour: base,
            new_behaviour: new,
            new_share,
            calls_per_second,
            elapsed: Duration::ZERO,
            base: Tally::default(),
            new: Tally::default(),
            parts: Vec::new(),
            sessions: None,
        }
    }

    /// Calls from now on are of this interval. Where there are as many as can be told, they are counted in the last.
    pub fn enter(&mut self, interval: u32) {
        // Groups of users count over the whole stage.
        if self.sessions.is_some() {
            return;
        }
        let is_in_it = self.parts.last().is_some_and(|last| last.interval == interval);
        if !is_in_it && self.parts.len() < MAX_PARTS {
            let sides = [&self.base, &self.new].map(Tally::like);
            self.parts.push(IntervalTally { interval, sides });
        }
    }

    /// What was counted in each interval, f1 and f2.
    pub fn parts(&self) -> impl Iterator<Item = (u32, [&Tally; 2])> {
        self.parts.iter().map(|part| (part.interval, [&part.sides[0], &part.sides[1]]))
    }

    /// The same, each call timed by a clock and its time kept.
    #[must_use]
    pub fn timed_by(self, clock: CallClock) -> Self {
        Self { base: Tally::timed_by(clock), new: Tally::timed_by(clock), ..self }
    }

    /// The same, with so many calls of a session after one another.
    #[must_use]
    pub fn in_sessions(self, calls: u32, clock: CallClock) -> Self {
        Self { sessions: Sessions::new(calls, clock), ..self }
    }

    /// What was counted by session; `None`: each call went by itself.
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// Lets time pass and the calls of that time happen.
    pub fn advance(&mut self, time: Duration, rng: &mut StdRng) {
        self.elapsed += time;
        let due = (self.elapsed.as_secs_f64() * self.calls_per_second).floor() as u64;
        while self.calls() < due {
            let (is_new, factor) = match &mut self.sessions {
                Some(sessions) => sessions.turn(self.new_share, rng),
                None => (rng.random::<f64>() < self.new_share, 1.0),
            };
            let (tally, behaviour) = if is_new {
                (&mut self.new, self.new_behaviour)
            } else {
                (&mut self.base, self.base_behaviour)
            };
            let took = behaviour.call(rng).map(|ms| ms * factor);
            tally.count(took);
            if let Some(sessions) = &mut self.sessions {
                sessions.count(took);
            }
            if let Some(part) = self.parts.last_mut() {
                part.sides[usize::from(is_new)].count(took);
            }
        }
    }

    /// Calls to either version.
    pub fn calls(&self) -> u64 {
        self.base.calls + self.new.calls
    }

    /// What the proxy saw: the calls to both, each with what the proxy adds.
    pub fn proxy_times(&self) -> TimesForm {
        let times = self.base.merged(&self.new).times();
        let add = |ms: f64| if ms < 0.0 { ms } else { ms + PROXY_OVERHEAD_MS };
        TimesForm { median: add(times.median), minimum: add(times.minimum), maximum: add(times.maximum) }
    }
}
