//! Times and points of series, as many as [`Power`] says are needed to find that the new version is a fifth or twice as slow.

use analysis::power::{POWER, Power, Spread};

use super::{
    ALPHA, Ending, Finds, Null, asked,
    cells::{Cell, Story},
    exceeds, measure, missed, run_with,
    shapes::{SD, Shape},
};
use crate::random::Random;

/// Points of each version that were observed before, in so many intervals.
const OBSERVED: usize = 2_000;
const INTERVALS: u64 = 20;

#[derive(Debug, Clone)]
struct Needed {
    cell: Cell,
    /// What as many values find as it has.
    finds: f64,
}

impl Needed {
    fn new(looks: u64, story: Story, finds: f64) -> Self {
        let mut cell = Cell::new(looks, 0, 0.5, story);
        let power = Power::new(&cell.design(), &spread(story), cell.share).unwrap();
        // A look takes as many of each version.
        let mut each = 1;
        while power.fails(2 * each * looks, finds) < POWER {
            each += 1 + each / 50;
        }
        cell = Cell::new(looks, 2 * each, cell.share, story);
        Self { cell, finds }
    }
}

/// As it is known before: of times how they vary, of series how they went.
fn spread(story: Story) -> Spread {
    if let Story::Plain(_) = story {
        return Spread::LogNormal { ln_sd: SD, median: None };
    }
    let each = 2 * OBSERVED as u64 / INTERVALS;
    let observed = Cell { ratio: 1.0, ..Cell::new(INTERVALS, each, 0.5, story) };
    Spread::Series(observed.strata(&mut Random::new(1)))
}

impl Null for Needed {
    fn name(&self) -> String {
        format!("{}, needed for {}", self.cell.name, self.finds)
    }

    fn run(&self, random: &mut Random) -> Ending {
        self.cell.run(random)
    }

    fn at(&self, ratio: f64) -> Self {
        Self { cell: Cell { ratio, ..self.cell.clone() }, ..*self }
    }

    fn limits(&self) -> [f64; 2] {
        [self.cell.limit, self.cell.pass_limit]
    }

    fn finds(&self) -> [Finds; 2] {
        let promised = Finds::promised(self.finds);
        if self.finds > 1.2 { [Finds::seldom(1.2), promised] } else { [promised, Finds::promised(2.0)] }
    }
}

fn cells() -> Vec<Needed> {
    let mut cells = Vec::new();
    let series = [0.0, 0.5, 0.9].map(Story::Autoregression);
    for story in [Story::Plain(Shape::Continuous)].into_iter().chain(series) {
        for looks in [1, 12, 100] {
            cells.extend([1.2, 2.0].map(|finds| Needed::new(looks, story, finds)));
        }
    }
    cells
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn what_is_needed_is_enough() {
    let asked = asked(4_000);
    let faults = measure(&asked.of(cells()), asked.runs, 4);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_needed_is_enough_for_a_thin_cut() {
    const RUNS: u64 = 200;
    let cells =
        [Story::Plain(Shape::Continuous), Story::Autoregression(0.5)].map(|story| Needed::new(1, story, 1.2));
    for cell in &cells {
        let null = run_with(RUNS, |random| cell.run(random));
        assert!(
            !exceeds(null.failed.max(null.passed), RUNS, ALPHA, cells.len()),
            "{}: {null:?}",
            cell.name()
        );
        for finds in cell.finds() {
            let found = run_with(RUNS, |random| cell.at(finds.ratio).run(random));
            assert_eq!(missed(&cell.name(), &found, finds, cells.len()), None);
        }
    }
}
