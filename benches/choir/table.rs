//! The one table that comes out.

use std::{fmt::Write as _, time::Duration};

use hdrhistogram::Histogram;

use crate::{
    Sizes,
    shared::{
        figures::{median, paired},
        lines::Lines,
    },
};

/// One side of a row: medians over its rounds.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub per_second: Vec<f64>,
    /// Microseconds.
    pub p50: Vec<f64>,
    pub p99: Vec<f64>,
    /// Processor time of the server per request, in microseconds; empty where it was not looked at.
    pub cpu: Vec<f64>,
}

impl Side {
    pub fn add(&mut self, per_second: f64, latency: &Histogram<u64>) {
        self.per_second.push(per_second);
        self.p50.push(latency.value_at_quantile(0.5) as f64);
        self.p99.push(latency.value_at_quantile(0.99) as f64);
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}/s, p50 {}, p99 {}",
            thousands(median(&self.per_second)),
            milliseconds(median(&self.p50)),
            milliseconds(median(&self.p99))
        );
        if !self.cpu.is_empty() {
            let _ = write!(text, ", {:.1} µs", median(&self.cpu));
        }
        text
    }
}

/// The median of the ratios of rounds that followed each other.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    paired(ours, theirs, |ours, theirs| ours / theirs)
}

pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn milliseconds(us: f64) -> String {
    format!("{:.2} ms", us / 1_000.0)
}

/// Rows gathered so far.
#[derive(Debug)]
pub struct Table {
    sizes: Sizes,
    lines: Lines,
}

/// What a row is to reach.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Requests per second at least this often those of the other side, p99 at most so often.
    Rate {
        at_least: f64,
        p99_at_most: Option<f64>,
    },
    /// p99 at most this often that of the other side.
    P99(f64),
    None,
}

impl Table {
    pub fn new(sizes: &Sizes) -> Self {
        Self { sizes: sizes.clone(), lines: Lines::default() }
    }

    /// Says why rows are not there.
    pub fn missing(&mut self, what: &str, why: &str) {
        self.lines.missing(what, why);
    }

    pub fn compare(&mut self, what: &str, ours: &Side, with: &str, theirs: &Side, target: Target) {
        let rate = ratio(&ours.per_second, &theirs.per_second);
        let p99 = ratio(&ours.p99, &theirs.p99);
        let mut ratios = match target {
            Target::P99(_) => format!("p99 {p99:.2}"),
            _ => format!("**{rate:.2}**, p99 {p99:.2}"),
        };
        if !ours.cpu.is_empty() && !theirs.cpu.is_empty() {
            let _ = write!(ratios, ", CPU {:.2}", ratio(&ours.cpu, &theirs.cpu));
        }
        let (wanted, met) = match target {
            Target::Rate { at_least, p99_at_most: None } => (format!("≥ {at_least}"), Some(rate >= at_least)),
            Target::Rate { at_least, p99_at_most: Some(most) } => {
                (format!("≥ {at_least}, p99 ≤ {most}"), Some(rate >= at_least && p99 <= most))
            }
            Target::P99(most) => (format!("p99 ≤ {most}"), Some(p99 <= most)),
            Target::None => (String::new(), None),
        };
        self.line(what, &ours.text(), &format!("{with}: {}", theirs.text()), &ratios, &wanted, met);
    }

    /// A row that compares one number with its limit.
    pub fn limit(&mut self, what: &str, found: &str, of_limit: f64, limit: &str) {
        self.line(what, found, "", &format!("{of_limit:.2} of the limit"), limit, Some(of_limit <= 1.0));
    }

    pub fn line(
        &mut self,
        what: &str,
        ours: &str,
        theirs: &str,
        ratios: &str,
        target: &str,
        met: Option<bool>,
    ) {
        let met = met.map_or("", |met| if met { "yes" } else { "**no**" });
        self.lines.push([what, ours, theirs, ratios, target, met]);
    }

    pub fn render(&self, machine: &str, busiest: f64) -> String {
        let Sizes { children, connections, round, rounds, .. } = &self.sizes;
        let about = format!(
            "Medians of {rounds} rounds of {} each side, alternating; {} children, {connections} connections. \
             {machine}. Where a µs is told, it is the server's processor time per request, and generator and \
             servers ran on processors of their own; the generator was busy for at most {:.0} % of its time.",
            seconds(*round),
            thousands(*children as f64),
            busiest * 100.0
        );
        self.lines.render("ours", &about)
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}
