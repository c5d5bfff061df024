//! What is measured in the simulation.

use std::{f64::consts::TAU, sync::LazyLock};

use analysis::{Histogram, Sample, dist::normal_z};

use super::super::random::Random;

/// Log standard deviation of latencies.
pub const SD: f64 = 0.5;

/// The same of points that follow a trend: small beside it.
pub const SD_OF_TRENDS: f64 = 0.05;

/// Ends of stretches that log-normal values of median 1 fall into with the same probability.
static STRETCHES: LazyLock<Vec<f64>> =
    LazyLock::new(|| (0..=STRETCH_COUNT).map(|i| quantile(i as f64 / STRETCH_COUNT as f64)).collect());

const STRETCH_COUNT: u64 = 1_024;

fn quantile(p: f64) -> f64 {
    (-SD * normal_z(p)).exp()
}

/// A log-normal value of median 1, evenly spread within its stretch, but for the first and the last: most of the time of
/// a simulation would go into logarithms and powers else.
pub fn latency(random: &mut Random) -> f64 {
    let place = random.uniform() * STRETCH_COUNT as f64;
    let stretch = place as usize;
    if stretch == 0 || stretch + 1 == STRETCH_COUNT as usize {
        return quantile(place / STRETCH_COUNT as f64);
    }
    let from = STRETCHES[stretch];
    from + (STRETCHES[stretch + 1] - from) * place.fract()
}

/// How values are distributed, and how they are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    Continuous,
    /// This share of zeros, the others continuous.
    Zeros(f64),
    /// Whole numbers, 3 in the mean; the canary's are whole multiples of 1 + tolerance.
    Counts,
    /// This median in ms, rounded to 1 ms.
    Rounded(f64),
    /// A histogram with this bucket base.
    Buckets(f64),
    Constant,
}

impl Shape {
    pub const ALL: [Self; 10] = [
        Self::Continuous,
        Self::Zeros(0.6),
        Self::Zeros(0.9),
        Self::Zeros(0.99),
        Self::Counts,
        Self::Rounded(3.0),
        Self::Rounded(15.0),
        Self::Buckets(1.02),
        Self::Buckets(1.09),
        Self::Constant,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Continuous => "continuous".to_owned(),
            Self::Zeros(share) => format!("{:.0} % zeros", share * 100.0),
            Self::Counts => "counts".to_owned(),
            Self::Rounded(median) => format!("1 ms at {median} ms"),
            Self::Buckets(base) => format!("buckets of {:.0} %", (base - 1.0) * 100.0),
            Self::Constant => "constant".to_owned(),
        }
    }

    /// A value, `scale` times what the baseline measures.
    pub fn draw(self, random: &mut Random, scale: f64) -> f64 {
        match self {
            Self::Zeros(share) if random.chance(share) => 0.0,
            Self::Continuous | Self::Buckets(_) | Self::Zeros(_) => 20.0 * scale * latency(random),
            Self::Counts => random.poisson(3.0) as f64 * scale,
            Self::Rounded(median) => (median * scale * latency(random)).round(),
            Self::Constant => 5.0 * scale,
        }
    }

    /// Values as they are known.
    pub fn sample(self, values: Vec<f64>) -> Sample {
        let Self::Buckets(base) = self else { return Sample::Values(values) };
        let mut histogram = Histogram::new(base).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        Sample::Histogram(histogram)
    }
}

/// An autoregression of order 1 with normal steps and variance 1.
pub struct Autoregression {
    phi: f64,
    last: f64,
}

impl Autoregression {
    pub fn new(phi: f64, random: &mut Random) -> Self {
        Self { phi, last: random.normal() }
    }

    pub fn next(&mut self, random: &mut Random) -> f64 {
        self.last = self.phi * self.last + (1.0 - self.phi * self.phi).sqrt() * random.normal();
        self.last
    }
}

/// The mean of the last values of noise: windows that overlap.
pub struct Windows {
    last: Vec<f64>,
    at: usize,
}

impl Windows {
    pub fn new(width: usize, random: &mut Random) -> Self {
        Self { last: (0..width).map(|_| random.normal()).collect(), at: 0 }
    }

    pub fn next(&mut self, random: &mut Random) -> f64 {
        let width = self.last.len();
        self.last[self.at % width] = random.normal();
        self.at += 1;
        self.last.iter().sum::<f64>() / (width as f64).sqrt()
    }
}

/// What makes both versions slower alike as time goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trend {
    /// So much up and down, so many times.
    Sine(f64, f64),
    /// So much more at the end than at the beginning.
    Line(f64),
    /// So much more from some time in the middle on.
    Step(f64),
}

impl Trend {
    pub const ALL: [Self; 7] = [
        Self::Sine(0.1, 1.0),
        Self::Sine(0.2, 1.0),
        Self::Sine(0.2, 4.0),
        Self::Line(0.1),
        Self::Line(0.2),
        Self::Step(0.1),
        Self::Step(0.2),
    ];

    pub fn name(self) -> String {
        match self {
            Self::Sine(amount, 1.0) => format!("sine of ±{:.0} %", amount * 100.0),
            Self::Sine(amount, times) => format!("{times} sines of ±{:.0} %", amount * 100.0),
            Self::Line(amount) => format!("line of {:.0} %", amount * 100.0),
            Self::Step(amount) => format!("step of {:.0} %", amount * 100.0),
        }
    }

    /// The factor at a share of the time; `phase` from 0 to 1.
    pub fn at(self, time: f64, phase: f64) -> f64 {
        match self {
            Self::Sine(amount, times) => 1.0 + amount * (TAU * (times * time + phase)).sin(),
            Self::Line(amount) => 1.0 + amount * time,
            Self::Step(amount) => 1.0 + if time > 0.3 + 0.4 * phase { amount } else { 0.0 },
        }
    }
}
