//! Clocks, medians and spreads, all on the boundary.

use analysis::{Clock, Rounding};

use super::{super::TOLERANCE, Report, WireCell};

pub const MICROSECONDS: Clock = Clock { step: Some(0.001), rounding: Some(Rounding::Nearest) };
pub const NEAREST: Clock = Clock { step: Some(1.0), rounding: Some(Rounding::Nearest) };
pub const DOWN: Clock = Clock { step: Some(1.0), rounding: Some(Rounding::Down) };

pub fn whole(rounding: Rounding, named: Clock) -> Report {
    Report::Whole { rounding, named }
}

/// One look at so many calls.
pub fn cell(report: Report, median: f64, variation: f64, calls: usize) -> WireCell {
    WireCell { report, median, variation, ratio: 1.0 + TOLERANCE, calls, looks: 1 }
}

/// All of them.
pub fn nulls() -> Vec<WireCell> {
    let reports = [
        Report::Microseconds,
        whole(Rounding::Nearest, NEAREST),
        whole(Rounding::Down, DOWN),
        whole(Rounding::Nearest, Clock::UNKNOWN),
        whole(Rounding::Down, Clock::UNKNOWN),
        Report::WholeHistogram,
        Report::HalfWhole,
        Report::HalfWholeUnnamed,
        Report::TwoClocks { whole: 0.5 },
        Report::TwoClocksHistogram { whole: 0.5 },
        Report::TwoClocksHistogram { whole: 0.1 },
        Report::Prometheus,
    ];
    let mut cells = Vec::new();
    for report in reports {
        for median in [2.0, 5.0, 15.0, 60.0, 300.0] {
            cells.extend([0.1, 0.3, 1.0].map(|variation| cell(report, median, variation, 6_000)));
        }
    }
    for report in [
        Report::Microseconds,
        whole(Rounding::Nearest, NEAREST),
        whole(Rounding::Down, Clock::UNKNOWN),
        Report::HalfWhole,
        Report::TwoClocksHistogram { whole: 0.5 },
    ] {
        for median in [5.0, 15.0] {
            cells.push(WireCell { looks: 10, ..cell(report, median, 0.3, 6_000) });
        }
    }
    cells.extend(stepped());
    cells.extend(twice());
    cells
}

/// Clocks whose step is told, is not told, and is told too small or too large.
fn stepped() -> Vec<WireCell> {
    let of = |step| Clock { step: Some(step), ..NEAREST };
    let mut clocks = vec![(0.001, of(1.0)), (1.0, MICROSECONDS), (5.0, of(10.0))];
    for step in [5.0, 10.0, 15.6, 16.0, 100.0] {
        clocks.extend([of(step), Clock::UNKNOWN, NEAREST].map(|named| (step, named)));
    }
    let mut cells = Vec::new();
    for (step, named) in clocks {
        for median in [40.0, 300.0, 1_000.0] {
            let cell = cell(Report::Stepped { step, named }, median, 0.3, 6_000);
            cells.extend([cell, WireCell { looks: 10, ..cell }]);
        }
    }
    cells.push(WireCell {
        looks: 100,
        ..cell(Report::Stepped { step: 15.6, named: Clock::UNKNOWN }, 40.0, 0.3, 6_000)
    });
    cells
}

/// Clocks of 64 ticks a second whose times are told in whole milliseconds.
pub fn twice() -> Vec<WireCell> {
    let mut cells = Vec::new();
    for (rounding, named) in
        [(Rounding::Nearest, NEAREST), (Rounding::Nearest, Clock::UNKNOWN), (Rounding::Down, DOWN)]
    {
        for (median, variation) in [(40.0, 0.1), (40.0, 0.3), (300.0, 0.3), (1_000.0, 0.3)] {
            let cell = cell(Report::Twice { step: 15.625, rounding, named }, median, variation, 6_000);
            cells.extend([cell, WireCell { looks: 10, ..cell }]);
        }
    }
    cells
}

/// A few of them, with fewer calls.
pub fn thin() -> Vec<WireCell> {
    let of = |report, median, variation| cell(report, median, variation, 3_000);
    vec![
        of(Report::Microseconds, 15.0, 0.3),
        of(whole(Rounding::Nearest, NEAREST), 15.0, 0.1),
        of(whole(Rounding::Down, Clock::UNKNOWN), 15.0, 0.1),
        of(whole(Rounding::Nearest, NEAREST), 5.0, 0.3),
        of(whole(Rounding::Down, DOWN), 5.0, 0.3),
        of(whole(Rounding::Nearest, NEAREST), 2.0, 0.1),
        of(Report::HalfWhole, 5.0, 0.3),
        of(Report::HalfWholeUnnamed, 15.0, 0.1),
        of(Report::TwoClocks { whole: 0.5 }, 15.0, 0.1),
        of(Report::TwoClocksHistogram { whole: 0.5 }, 15.0, 0.1),
        of(Report::TwoClocksHistogram { whole: 0.5 }, 2.0, 0.3),
        of(Report::WholeHistogram, 15.0, 0.1),
        of(Report::Prometheus, 60.0, 0.5),
        WireCell { looks: 10, ..of(Report::HalfWhole, 5.0, 0.3) },
    ]
}
