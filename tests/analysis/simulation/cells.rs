//! Null cells: nothing that they hold should fail, and nothing should pass.

use analysis::{
    Counts, Design, Deviation, EARLY_PART, End, Judgement, Occasion, Question, RunVariation, Sample,
    Sampling, Spending, Stratum, Tolerance, Verdict,
};

use super::{
    ALPHA, Ending, TOLERANCE,
    shapes::{Autoregression, SD, SD_OF_TRENDS, Shape, Trend, Windows, latency},
};
use crate::random::Random;

/// Length of an interval, in ms; nothing depends on it.
const INTERVAL_MS: u64 = 1_000;

/// A cell of the table.
#[derive(Debug, Clone)]
pub struct Cell {
    pub name: String,
    pub looks: u64,
    /// Values on both sides together at a look.
    pub values: u64,
    /// The canary's share of them.
    pub share: f64,
    pub story: Story,
    /// What a time series of both versions follows.
    pub trend: Option<Trend>,
    /// The ratio of canary to baseline; on the boundary unless it is about power.
    pub ratio: f64,
    /// It may pass before its last look.
    pub is_early: bool,
    /// Most false alarms, and most false passes.
    pub limit: f64,
    pub pass_limit: f64,
    /// Its random numbers, the same whichever cells are run with it.
    pub seed: u64,
}

/// What happens in a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Story {
    Plain(Shape),
    /// 5 %, 20 %, 50 % of the traffic while everything becomes slower by half.
    Ramp,
    /// Looks between the intervals whenever it looks bad.
    Hurried,
    /// The state is stored and read, and the last look repeated, after every look.
    Restarts,
    /// So many metrics share alpha; any of them can fail.
    Metrics(usize),
    /// Events with this probability.
    Rates(f64),
    /// The same while traffic ramps.
    RampedRates(f64),
    /// The canary's rate is the floor.
    FlooredRates(f64),
    Tail(f64),
    Lower,
    Either,
    Shift,
    /// An autoregression with points in pairs.
    Autoregression(f64),
    /// One of the baseline, and another of the canary.
    UnlikeAutoregressions(f64, f64),
    /// Half of the variance is an autoregression, half of it noise from point to point.
    NoisyAutoregression(f64),
    OverlappingWindows(usize),
    /// The same centre, the canary spread twice as wide.
    DoubleSpread,
    /// This variation from run to run, and it is given.
    Previous(f64),
    /// No end is known; the last look is a pass or none.
    Open,
}

impl Cell {
    pub fn new(looks: u64, values: u64, share: f64, story: Story) -> Self {
        let what = match story {
            Story::Plain(shape) => shape.name(),
            Story::Ramp => "ramp with drift".to_owned(),
            Story::Hurried => "hurried looks".to_owned(),
            Story::Restarts => "restarts".to_owned(),
            Story::Metrics(count) => format!("{count} metrics"),
            Story::Rates(rate) => format!("rate {} %", rate * 100.0),
            Story::RampedRates(rate) => format!("ramped rate {} %", rate * 100.0),
            Story::FlooredRates(rate) => format!("floored rate {} %", rate * 100.0),
            Story::Tail(q) => format!("tail beyond p{}", q * 100.0),
            Story::Lower => "LOW".to_owned(),
            Story::Either => "EITHER".to_owned(),
            Story::Shift => "absolute tolerance".to_owned(),
            Story::Autoregression(phi) => format!("AR(1) {phi}"),
            Story::UnlikeAutoregressions(baseline, canary) => format!("AR(1) {baseline} beside {canary}"),
            Story::NoisyAutoregression(phi) => format!("AR(1) {phi} under noise"),
            Story::OverlappingWindows(width) => format!("windows of {width}"),
            Story::DoubleSpread => "double spread".to_owned(),
            Story::Previous(v) => format!("PREVIOUS, {} % between runs", v * 100.0),
            Story::Open => "open end".to_owned(),
        };
        let limit = match story {
            Story::Autoregression(_) | Story::OverlappingWindows(_) => 0.065,
            Story::UnlikeAutoregressions(..) => 0.12,
            Story::NoisyAutoregression(_) => 0.18,
            Story::DoubleSpread => 0.075,
            _ => ALPHA,
        };
        let split = format!("{:.0}:{:.0}", (1.0 - share) * 100.0, share * 100.0);
        Self {
            name: format!("{what}, {looks} × {values}, {split}"),
            looks,
            values,
            share,
            story,
            trend: None,
            ratio: 1.0 + TOLERANCE,
            is_early: false,
            limit,
            pass_limit: limit,
            seed: 0,
        }
    }

    /// The same, where a look before the last may pass.
    #[must_use]
    pub fn passing_early(mut self) -> Self {
        self.name = format!("early pass, {}", self.name);
        self.is_early = true;
        self
    }

    /// The same under a trend.
    #[must_use]
    pub fn under(mut self, trend: Trend) -> Self {
        self.name = format!("{}, {}", trend.name(), self.name);
        self.trend = Some(trend);
        self
    }

    pub fn design(&self) -> Design {
        let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
        design.alpha = ALPHA;
        design.end = End::After {
            duration_ms: self.looks * INTERVAL_MS,
            interval_ms: INTERVAL_MS,
            spending: Spending::default(),
        };
        if self.is_early {
            design.early = EARLY_PART;
        }
        match self.story {
            Story::Metrics(count) => design.alpha /= count as f64,
            Story::Rates(_) | Story::RampedRates(_) => design.question = Question::Rate { floor: 0.0 },
            Story::FlooredRates(rate) => design.question = Question::Rate { floor: rate * self.ratio },
            Story::Tail(q) => design.question = Question::Quantile(q),
            Story::Lower => design.deviation = Deviation::Low,
            Story::Either => design.deviation = Deviation::Either,
            Story::Shift => design.tolerance = Tolerance::Shift(1.0),
            Story::Autoregression(_)
            | Story::UnlikeAutoregressions(..)
            | Story::NoisyAutoregression(_)
            | Story::OverlappingWindows(_) => design.sampling = Sampling::Series,
            Story::Previous(v) => design.run_variation = Some(RunVariation::Given(v)),
            Story::Open => design.end = End::Open { interval_ms: INTERVAL_MS },
            _ => {}
        }
        design
    }

    /// One run, as the manager would conduct it.
    pub fn run(&self, random: &mut Random) -> Ending {
        let metrics = if let Story::Metrics(count) = self.story { count } else { 1 };
        let endings: Vec<Ending> = (0..metrics).map(|_| self.run_metric(random)).collect();
        let with = |verdict| endings.iter().find(|ending| ending.verdict == verdict);
        // Any fails: the release fails. All pass: it passes.
        match (with(Verdict::Fail), with(Verdict::Inconclusive).or(with(Verdict::NoData))) {
            (Some(failed), _) => *failed,
            (None, Some(undecided)) => *undecided,
            (None, None) => endings.iter().copied().max_by_key(|ending| ending.look).unwrap_or(endings[0]),
        }
    }

    /// What a metric sees of a run that nobody ends.
    pub fn strata(&self, random: &mut Random) -> Vec<Stratum> {
        let mut source = Source::new(self, random);
        (0..self.looks).map(|interval| source.stratum(self, interval, random)).collect()
    }

    fn run_metric(&self, random: &mut Random) -> Ending {
        let mut judgement = Judgement::new(self.design()).unwrap();
        let mut source = Source::new(self, random);
        let mut strata = Vec::new();
        for look in 1..=self.looks {
            strata.push(source.stratum(self, look - 1, random));
            let last = look == self.looks;
            let occasion = if last { Occasion::Last } else { Occasion::Look };
            let at = look * INTERVAL_MS;
            let mut verdict = judgement.decide(&strata, at, occasion).verdict;
            if self.story == Story::Hurried && verdict.is_none() {
                // Somebody is worried and looks again and again.
                for hurried in 1..4 {
                    verdict =
                        judgement.decide(&strata, at + hurried * INTERVAL_MS / 5, Occasion::Look).verdict;
                }
            }
            if self.story == Story::Restarts {
                let stored = serde_json::to_string(&judgement).unwrap();
                judgement = serde_json::from_str(&stored).unwrap();
                let again = judgement.decide(&strata, at, occasion);
                assert!(last || !again.counted);
                verdict = again.verdict;
            }
            if let Some(verdict) = verdict {
                return Ending { verdict, look };
            }
        }
        unreachable!("the last look has a verdict")
    }
}

/// What has memory from interval to interval.
struct Source {
    series: Option<[Series; 2]>,
    /// Of the trend.
    phase: f64,
    run_effect: f64,
}

enum Series {
    Autoregression(Autoregression),
    Noisy(Autoregression),
    Windows(Windows),
}

impl Series {
    fn next(&mut self, random: &mut Random) -> f64 {
        match self {
            Self::Autoregression(series) => series.next(random),
            Self::Noisy(series) => (series.next(random) + random.normal()) * 0.5_f64.sqrt(),
            Self::Windows(series) => series.next(random),
        }
    }
}

impl Source {
    fn new(cell: &Cell, random: &mut Random) -> Self {
        let series = match cell.story {
            Story::Autoregression(phi) => {
                Some([(); 2].map(|()| Series::Autoregression(Autoregression::new(phi, random))))
            }
            Story::UnlikeAutoregressions(baseline, canary) => {
                Some([baseline, canary].map(|phi| Series::Autoregression(Autoregression::new(phi, random))))
            }
            Story::NoisyAutoregression(phi) => {
                Some([(); 2].map(|()| Series::Noisy(Autoregression::new(phi, random))))
            }
            Story::OverlappingWindows(width) => {
                Some([(); 2].map(|()| Series::Windows(Windows::new(width, random))))
            }
            _ => None,
        };
        // Two runs, each with an effect of its own.
        let run_effect = match cell.story {
            Story::Previous(v) => (v * (random.normal() - random.normal())).exp(),
            _ => 1.0,
        };
        let phase = if cell.trend.is_some() { random.uniform() } else { 0.0 };
        Self { series, phase, run_effect }
    }

    fn stratum(&mut self, cell: &Cell, interval: u64, random: &mut Random) -> Stratum {
        if let Some(series) = &mut self.series {
            let each = cell.values / 2;
            let [mut baseline, mut canary] = [Vec::new(), Vec::new()];
            let sd = if cell.trend.is_some() { SD_OF_TRENDS } else { SD };
            for at in 0..each {
                let time = (interval as f64 + at as f64 / each as f64) / cell.looks as f64;
                let level = 20.0 * cell.trend.map_or(1.0, |trend| trend.at(time, self.phase));
                baseline.push(level * (sd * series[0].next(random)).exp());
                canary.push(level * cell.ratio * (sd * series[1].next(random)).exp());
            }
            return Stratum::new("canary", interval, Sample::Values(baseline), Sample::Values(canary));
        }
        let part = (3 * interval / cell.looks).min(2) as usize;
        let (stage, share, drift) = match cell.story {
            Story::Ramp | Story::RampedRates(_) => {
                let progress = interval as f64 / cell.looks as f64;
                (["5 %", "20 %", "50 %"][part], [0.05, 0.2, 0.5][part], 1.0 + 0.5 * progress)
            }
            _ => ("canary", cell.share, 1.0),
        };
        if let Story::Rates(rate) | Story::RampedRates(rate) | Story::FlooredRates(rate) = cell.story {
            let canary = random.binomial(cell.values, share);
            let counts = |calls, rate: f64, random: &mut Random| {
                Sample::Counts(Counts { calls, events: random.binomial(calls, rate) })
            };
            let baseline = counts(cell.values - canary, rate * drift, random);
            let canary = counts(canary, rate * drift * cell.ratio, random);
            return Stratum::new(stage, interval, baseline, canary);
        }
        let shape = if let Story::Plain(shape) = cell.story { shape } else { Shape::Continuous };
        let [mut baseline, mut canary] = [(); 2].map(|()| Vec::with_capacity(cell.values as usize));
        for _ in 0..cell.values {
            if random.chance(share) {
                canary.push(cell.canary_value(shape, drift * self.run_effect, random));
            } else {
                baseline.push(shape.draw(random, drift));
            }
        }
        Stratum::new(stage, interval, shape.sample(baseline), shape.sample(canary))
    }
}

impl Cell {
    fn canary_value(&self, shape: Shape, scale: f64, random: &mut Random) -> f64 {
        let on_boundary = self.ratio > 1.0;
        match self.story {
            Story::Lower => shape.draw(random, scale * (2.0 - self.ratio)),
            Story::Shift if on_boundary => shape.draw(random, scale) + 1.0,
            Story::Shift => shape.draw(random, scale),
            Story::DoubleSpread => 20.0 * scale * self.ratio * latency(random).powi(2),
            _ => shape.draw(random, scale * self.ratio),
        }
    }
}

const SPLITS: [f64; 4] = [0.5, 0.05, 0.95, 0.01];

/// The whole table.
pub fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for shape in Shape::ALL {
        for share in SPLITS {
            for looks in [1, 12, 100] {
                for values in [1, 10, 100] {
                    cells.push(Cell::new(looks, values, share, Story::Plain(shape)));
                }
            }
        }
    }
    for looks in [12, 100] {
        for values in [10, 100] {
            cells.push(Cell::new(looks, values, 0.5, Story::Ramp));
            cells.push(Cell::new(looks, values, 0.5, Story::Hurried));
            cells.push(Cell::new(looks, values, 0.2, Story::Lower));
            cells.push(Cell::new(looks, values, 0.2, Story::Either));
            cells.push(Cell::new(looks, values, 0.2, Story::Shift));
            cells.push(Cell::new(looks, values, 0.5, Story::Open));
            cells.push(Cell::new(looks, values, 0.05, Story::Tail(0.95)));
            cells.push(Cell::new(looks, values, 0.5, Story::Tail(0.95)));
            cells.push(Cell::new(looks, 2 * values, 0.5, Story::DoubleSpread));
            for rate in [0.001, 0.01, 0.1] {
                cells.push(Cell::new(looks, 10 * values, 0.5, Story::Rates(rate)));
                cells.push(Cell::new(looks, 10 * values, 0.05, Story::Rates(rate)));
                cells.push(Cell::new(looks, 10 * values, 0.5, Story::RampedRates(rate / 1.6)));
            }
        }
        cells.push(Cell::new(looks, 20, 0.5, Story::Restarts));
        cells.push(Cell::new(looks, 10, 0.5, Story::Metrics(10)));
        for phi in [0.5, 0.8, 0.9] {
            cells.push(Cell::new(looks, 20, 0.5, Story::Autoregression(phi)));
        }
        cells.push(Cell::new(looks, 20, 0.5, Story::OverlappingWindows(10)));
    }
    for values in [1_000, 10_000] {
        cells.push(Cell::new(1, values, 0.5, Story::Previous(0.03)));
    }
    cells.push(Cell::new(12, 100, 0.5, Story::Previous(0.03)));
    cells.extend(series());
    cells.extend(early());
    seeded(cells)
}

/// Looks before the last may pass.
fn early() -> Vec<Cell> {
    let mut cells = Vec::new();
    for looks in [10, 60, 100] {
        for values in [10, 100] {
            for shape in Shape::ALL {
                cells.push(Cell::new(looks, values, 0.5, Story::Plain(shape)));
            }
            cells.push(Cell::new(looks, values, 0.05, Story::Plain(Shape::Continuous)));
            cells.push(Cell::new(looks, values, 0.2, Story::Plain(Shape::Zeros(0.9))));
            for story in [
                Story::Ramp,
                Story::Hurried,
                Story::Lower,
                Story::Either,
                Story::Shift,
                Story::Tail(0.95),
                Story::DoubleSpread,
            ] {
                cells.push(Cell::new(looks, values, 0.5, story));
            }
            for rate in [0.001, 0.01, 0.1] {
                cells.push(Cell::new(looks, 10 * values, 0.5, Story::Rates(rate)));
                cells.push(Cell::new(looks, 10 * values, 0.05, Story::Rates(rate)));
                cells.push(Cell::new(looks, 10 * values, 0.5, Story::RampedRates(rate / 1.6)));
                cells.push(Cell::new(looks, 10 * values, 0.5, Story::FlooredRates(rate)));
            }
        }
        cells.push(Cell::new(looks, 20, 0.5, Story::Restarts));
        cells.push(Cell::new(looks, 10, 0.5, Story::Metrics(10)));
        cells.push(Cell::new(looks, 100, 0.5, Story::Previous(0.03)));
        for phi in [0.0, 0.5, 0.8, 0.9] {
            cells.push(Cell::new(looks, 20, 0.5, Story::Autoregression(phi)));
        }
        cells.push(Cell::new(looks, 20, 0.5, Story::OverlappingWindows(10)));
        for trend in [Trend::Sine(0.2, 1.0), Trend::Line(0.2)] {
            cells.push(Cell::new(looks, 20, 0.5, Story::Autoregression(0.5)).under(trend));
        }
    }
    cells.into_iter().map(Cell::passing_early).collect()
}

/// Time series, with and without what moves both versions alike.
fn series() -> Vec<Cell> {
    let mut cells = Vec::new();
    for looks in [12, 100] {
        let cell = |story| Cell::new(looks, 20, 0.5, story);
        cells.push(cell(Story::Autoregression(0.0)));
        cells.push(cell(Story::UnlikeAutoregressions(0.9, 0.0)));
        cells.push(cell(Story::NoisyAutoregression(0.9)));
        for trend in Trend::ALL {
            for phi in [0.0, 0.5, 0.8, 0.9] {
                cells.push(cell(Story::Autoregression(phi)).under(trend));
            }
            cells.push(cell(Story::OverlappingWindows(10)).under(trend));
        }
        let trend = Trend::Sine(0.2, 1.0);
        cells.push(cell(Story::UnlikeAutoregressions(0.9, 0.0)).under(trend));
        cells.push(cell(Story::NoisyAutoregression(0.9)).under(trend));
        for phi in [0.0, 0.5, 0.8, 0.9] {
            cells.push(Cell::new(looks, 40, 0.5, Story::Autoregression(phi)).under(trend));
        }
    }
    cells
}

fn seeded(mut cells: Vec<Cell>) -> Vec<Cell> {
    for (cell, seed) in cells.iter_mut().zip(0..) {
        cell.seed = seed;
    }
    cells
}

/// One of each kind, small.
pub fn thin() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Shape::ALL.map(|shape| Cell::new(6, 20, 0.2, Story::Plain(shape))).into();
    cells.push(Cell::new(1, 60, 0.5, Story::Plain(Shape::Continuous)));
    cells.extend(
        [
            Story::Ramp,
            Story::Hurried,
            Story::Restarts,
            Story::Metrics(3),
            Story::Tail(0.9),
            Story::Lower,
            Story::Either,
            Story::Shift,
            Story::Autoregression(0.8),
            Story::OverlappingWindows(10),
            Story::DoubleSpread,
            Story::Previous(0.03),
            Story::Open,
        ]
        .map(|story| Cell::new(6, 20, 0.5, story)),
    );
    cells.extend([0.01, 0.1].map(|rate| Cell::new(6, 100, 0.5, Story::Rates(rate))));
    cells.push(Cell::new(6, 100, 0.5, Story::RampedRates(0.05)));
    let series = Cell::new(6, 40, 0.5, Story::Autoregression(0.5));
    cells.extend([Trend::Sine(0.2, 1.0), Trend::Line(0.2)].map(|trend| series.clone().under(trend)));
    let plain = Story::Plain(Shape::Continuous);
    cells.extend(
        [plain, Story::Plain(Shape::Zeros(0.6)), Story::Either, Story::Restarts, Story::Autoregression(0.5)]
            .map(|story| Cell::new(10, 20, 0.5, story).passing_early()),
    );
    cells.extend(
        [Story::Rates(0.05), Story::FlooredRates(0.05)]
            .map(|story| Cell::new(10, 100, 0.5, story).passing_early()),
    );
    seeded(cells)
}
