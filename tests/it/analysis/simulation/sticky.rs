//! Sessions: all calls of one go to one version, and are alike. They come in 64 groups of users, as they are told up a tree.

use choirmaster::analysis::{
    Design, End, Histogram, Judgement, Occasion, Sample, Spending, Stratum, Tolerance, Verdict,
    clusters::MAX_GROUPS,
};

use super::{ALPHA, Ending, Null, TOLERANCE, Tally, asked, exceeds, measure, run_with, shapes::latency};
use crate::analysis::random::Random;

/// Calls of a release in all.
const CALLS: u64 = 8_000;

/// Standard deviation of the logarithm of what all calls of a session share: as much as calls differ otherwise.
const SESSION_SD: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Calls of a session.
    session: u64,
    /// The canary's share of them.
    share: f64,
    looks: u64,
    ratio: f64,
    /// Whether the judge is told that calls are those of sessions.
    is_told: bool,
}

impl Null for Cell {
    fn name(&self) -> String {
        let split = format!("{:.0}:{:.0}", (1.0 - self.share) * 100.0, self.share * 100.0);
        format!("sessions of {}, {} × {}, {split}", self.session, self.looks, CALLS / self.looks)
    }

    fn run(&self, random: &mut Random) -> Ending {
        let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
        if self.looks > 1 {
            let spending = Spending::default();
            design.end = End::After { duration_ms: self.looks, interval_ms: 1, spending };
        }
        let mut judgement = Judgement::new(design).unwrap();
        let mut strata = Vec::new();
        for look in 1..=self.looks {
            strata.extend(self.interval(look - 1, random));
            let occasion = if look == self.looks { Occasion::Last } else { Occasion::Look };
            if let Some(verdict) = judgement.decide(&strata, look, occasion).verdict {
                return Ending { verdict, look };
            }
        }
        unreachable!("the last look has a verdict")
    }

    fn at(&self, ratio: f64) -> Self {
        Self { ratio, ..*self }
    }
}

impl Cell {
    fn new(session: u64, share: f64, looks: u64) -> Self {
        Self { session, share, looks, ratio: 1.0 + TOLERANCE, is_told: true }
    }

    /// The sessions of an interval.
    fn interval(&self, interval: u64, random: &mut Random) -> Vec<Stratum> {
        let groups = if self.is_told { MAX_GROUPS } else { 1 };
        let none = || [(); 2].map(|()| Histogram::new(1.01).unwrap());
        let mut sides: Vec<[Histogram; 2]> = (0..groups).map(|_| none()).collect();
        for _ in 0..CALLS / self.looks / self.session {
            let group = (random.uniform() * f64::from(groups)) as usize;
            let is_canary = random.chance(self.share);
            let scale = if is_canary { self.ratio } else { 1.0 };
            let of_session = 20.0 * scale * random.log_normal(SESSION_SD);
            for _ in 0..self.session {
                sides[group][usize::from(is_canary)].record(of_session * latency(random)).unwrap();
            }
        }
        let stratum = |(group, sides): (u8, [Histogram; 2])| {
            let text = serde_json::to_string(&sides.map(Sample::Histogram)).unwrap();
            let [baseline, canary]: [Sample; 2] = serde_json::from_str(&text).unwrap();
            let stratum = Stratum::new("canary", interval, baseline, canary);
            if self.is_told { stratum.ordered(self.share).of_users(group) } else { stratum }
        };
        (0..).zip(sides).map(stratum).collect()
    }
}

fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = [1, 3, 10, 50].map(|session| Cell::new(session, 0.5, 1)).into();
    cells.extend([Cell::new(10, 0.2, 1), Cell::new(10, 0.5, 4)]);
    cells
}

fn tally(cell: &Cell, runs: u64) -> Tally {
    run_with(runs, |random| cell.run(random))
}

#[test]
fn calls_of_sessions_are_judged_at_alpha_and_taken_for_independent_they_are_not() {
    let told = Cell::new(10, 0.5, 1);
    let found = tally(&told, 150);
    for count in [found.failed, found.passed] {
        assert!(!exceeds(count, found.runs, ALPHA, 2), "{found:?}");
    }
    let found = tally(&Cell { is_told: false, ..told }, 150);
    assert!(exceeds(found.failed, found.runs, ALPHA, 1), "{found:?}");
    // Nor is everything undecided then.
    assert!(tally(&Cell { ratio: 1.3, ..told }, 50).share_failed() > 0.9);
    assert!(tally(&Cell { ratio: 0.9, ..told }, 50).share_passed() > 0.9);
}

#[test]
fn calls_of_sessions_without_groups_are_no_evidence() {
    let mut random = Random::new(5);
    for groups in [None, Some(4)] {
        let mut strata = Cell { ratio: 1.5, ..Cell::new(10, 0.5, 1) }.interval(0, &mut random);
        match groups {
            None => strata.iter_mut().for_each(|stratum| stratum.group = None),
            Some(few) => strata.truncate(few),
        }
        let mut judgement = Judgement::new(Design::new(Tolerance::Ratio(TOLERANCE))).unwrap();
        let found = judgement.look(&strata, 0, Occasion::Last);
        assert_eq!(found.verdict, Some(Verdict::Inconclusive));
        assert!(found.evidence.sentence.contains("groups of users"), "{}", found.evidence.sentence);
    }
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release --test it analysis::simulation -- --ignored --nocapture"]
fn calls_of_sessions_are_judged_at_alpha() {
    // A run leaves out each group in turn: fewer of them.
    let asked = asked(2_000);
    let faults = measure(&asked.of(cells()), asked.runs, 4, 1.2);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
