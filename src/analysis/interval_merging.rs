//! Neighbouring intervals are merged by counts alone, until each side has enough values to be ranked.

use std::ops::Range;

use super::{
    Histogram,
    data::{Sample, Stratum},
    design::Tolerance,
    grid,
    resolution::relative_error,
    spread::{SortedSide, Step, quantile},
    values::{Clock, Values},
};

/// Least values of each side in what is ranked together.
pub const LEAST_SIDE: u64 = 5;

/// What makes a group complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Least values of both sides together.
    pub least_total: u64,
    /// Only values that aren't 0 count, and take part.
    pub zero_free: bool,
}

/// What is ranked together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub baseline: SortedSide,
    pub canary: SortedSide,
    /// The relative error with which a location is known.
    pub error: f64,
    /// How far off all values may lie, as a share of their location, because nobody knows how their clock rounds.
    pub offset: f64,
}

/// The next group of strata from `from` on, and whether it is complete. One that another stage or split cuts short is
/// complete as it is; `None` where there is nothing, or only something that may still grow.
pub fn next_group(strata: &[Stratum], from: usize, rule: Rule, end: bool) -> Option<Range<usize>> {
    let first = strata.get(from)?;
    let (mut baseline, mut canary) = (0, 0);
    let mut at = from;
    while at < strata.len() {
        if !alike(first, &strata[at]) {
            return Some(from..at);
        }
        let interval = interval_from(strata, at);
        for stratum in &strata[interval.clone()] {
            baseline += counted(&stratum.baseline, rule.zero_free);
            canary += counted(&stratum.canary, rule.zero_free);
        }
        at = interval.end;
        if baseline.min(canary) >= LEAST_SIDE && baseline + canary >= rule.least_total {
            return Some(from..at);
        }
    }
    end.then_some(from..strata.len())
}

/// The strata of one interval, stage and split: however many batches it came in, it is taken whole.
pub fn interval_from(strata: &[Stratum], from: usize) -> Range<usize> {
    let first = &strata[from];
    let same = |stratum: &&Stratum| stratum.interval == first.interval && alike(first, stratum);
    from..from + strata[from..].iter().take_while(same).count()
}

fn alike(a: &Stratum, b: &Stratum) -> bool {
    a.stage == b.stage
        && a.group.is_some() == b.group.is_some()
        && a.canary_share.map(f64::to_bits) == b.canary_share.map(f64::to_bits)
}

fn counted(sample: &Sample, zero_free: bool) -> u64 {
    match sample {
        Sample::Values(values) if zero_free => values.iter().filter(|value| **value != 0.0).count() as u64,
        Sample::Histogram(histogram) if zero_free => histogram.zero_free(),
        Sample::Measured(values) if zero_free => values.count() - values.zeros(),
        Sample::Values(_) | Sample::Histogram(_) | Sample::Measured(_) | Sample::Counts(_) => sample.count(),
    }
}

impl Group {
    /// The strata of a group as one; `steps` are what raw values of baseline and canary are rounded to.
    pub fn of(strata: &[Stratum], rule: Rule, steps: &[Step; 2]) -> Self {
        let pooled = |side: fn(&Stratum) -> &Sample| Pooled::of(strata.iter().map(side), rule.zero_free);
        let [baseline, canary] = [pooled(|stratum| &stratum.baseline), pooled(|stratum| &stratum.canary)];
        // What one side's clock can't tell can't be told between the sides, whatever is said of clocks.
        let seen = steps.iter().filter_map(Step::size).fold(0.0, f64::max);
        let clock = baseline.clock().coarser(canary.clock()).at_least(seen);
        let widths = [baseline.width(), canary.width()];
        let [of_baseline, of_canary] = steps.each_ref().map(Step::size);
        let (baseline, canary) = (baseline.side(of_baseline, clock), canary.side(of_canary, clock));
        let sides = [(&baseline, of_baseline, widths[0]), (&canary, of_canary, widths[1])];
        let error = sides.map(|(side, _, width)| relative_error(side, width));
        let offset = sides.map(|(side, step, _)| {
            let step = step.or(clock.step.filter(|_| clock.rounding.is_none())).unwrap_or(0.0);
            let location = quantile(side, 0.5).filter(|location| *location > 0.0);
            location.map_or(0.0, |location| 0.5 * step / location)
        });
        Self { error: error[0].max(error[1]), offset: offset[0].max(offset[1]), baseline, canary }
    }

    /// The error with which a location is known, as a share or in the unit of the values, as the tolerance is.
    pub fn error_in(&self, tolerance: Tolerance) -> f64 {
        match tolerance {
            Tolerance::Ratio(ratio) => self.error + ratio * self.offset,
            Tolerance::Shift(_) => self.error * quantile(&self.baseline, 0.5).unwrap_or(0.0).abs(),
        }
    }
}

/// A median of the baseline, where ranks are judged.
pub(super) fn baseline_median(groups: &[Group]) -> f64 {
    let largest = groups.iter().max_by(|a, b| a.baseline.count().total_cmp(&b.baseline.count()));
    largest.and_then(|group| quantile(&group.baseline, 0.5)).unwrap_or(0.0)
}

/// Samples of one side as one; `data::check` has made sure that their forms go together.
#[derive(Debug, Default)]
pub struct Pooled {
    values: Vec<f64>,
    histogram: Option<Histogram>,
    measured: Option<Values>,
}

impl Pooled {
    pub fn of<'a>(samples: impl Iterator<Item = &'a Sample>, zero_free: bool) -> Self {
        let mut all = Self::default();
        for sample in samples {
            match sample {
                Sample::Values(more) if zero_free => all.values.extend(more.iter().filter(|v| **v != 0.0)),
                Sample::Values(more) => all.values.extend_from_slice(more),
                Sample::Histogram(more) if zero_free => all.add_histogram(&more.without_zeros()),
                Sample::Histogram(more) => all.add_histogram(more),
                Sample::Measured(more) if zero_free => all.add_measured(&more.without_zeros()),
                Sample::Measured(more) => all.add_measured(more),
                Sample::Counts(_) => {}
            }
        }
        if let (Some(histogram), Some(_)) = (&all.histogram, &all.measured)
            && let Ok(more) = Values::from_histogram(histogram.clone(), None)
        {
            all.histogram = None;
            all.add_measured(&more);
        }
        all
    }

    // Those that don't merge were refused before.
    fn add_histogram(&mut self, more: &Histogram) {
        match &mut self.histogram {
            None => self.histogram = Some(more.clone()),
            Some(sum) => drop(sum.merge(more)),
        }
    }

    fn add_measured(&mut self, more: &Values) {
        let more = more.clone().with_clock(grid::clock(more));
        match &mut self.measured {
            None => self.measured = Some(more),
            Some(sum) => drop(sum.merge(&more)),
        }
    }

    /// By which its times were read, where they are counted times.
    fn clock(&self) -> Clock {
        let measured = self.measured.as_ref().filter(|values| !values.is_empty());
        measured.map_or(Clock::CONTINUOUS, grid::common_clock)
    }

    /// The ratio of the ends of the buckets that its times come from, where these were wider than their cells.
    fn width(&self) -> Option<f64> {
        self.measured.as_ref().and_then(Values::width)
    }

    fn side(self, step: Option<f64>, clock: Clock) -> SortedSide {
        match (self.measured, self.histogram) {
            (Some(measured), _) => SortedSide::Cells(grid::cells(&measured, clock)),
            (None, Some(histogram)) => SortedSide::Cells(grid::histogram_cells(&histogram)),
            (None, None) => SortedSide::of_values(self.values, step),
        }
    }

    /// Of counted times whose sum is known.
    pub fn mean(&self) -> Option<f64> {
        self.measured.as_ref()?.mean_ms()
    }

    /// All of it as one side, as it was measured.
    pub fn into_side(self) -> SortedSide {
        let clock = self.clock();
        self.side(None, clock)
    }
}
