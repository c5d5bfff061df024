//! Sessions: all calls of one go to one version, and are alike. Children tell 64 groups of them apart, as their clocks show them
//! and in the form of their reports, written and read as on the wire; managers on two levels merge group by group, and each
//! look takes what came since the one before.

use analysis::{
    Assignment, Clock, Design, Judgement, Occasion, Rounding, Sample, Stratum, Tolerance, Values, Verdict,
    clusters::MAX_GROUPS,
};

use super::{
    ALPHA, Ending, Finds, Null, TOLERANCE, Tally, asked, design, exceeds, looked_at, measure, run_with,
    shapes::latency,
};
use crate::random::Random;

/// Calls of a release in all.
const CALLS: u64 = 8_000;

/// Children, and how many of them a manager has.
const CHILDREN: usize = 6;
const PER_MANAGER: usize = 3;

/// Clocks of children.
const CLOCK: Clock = Clock { step: Some(0.001), rounding: Some(Rounding::Nearest) };

/// Standard deviation of the logarithm of what all calls of a session share: as much as calls differ otherwise.
const SESSION_SD: f64 = 0.5;

/// What becomes of groups on their way up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Managers {
    /// Groups are merged with the same groups of others.
    Right,
    /// All groups are merged, and nothing is said of users.
    DropGroups,
    /// All groups are merged, but calls are said to be those of users.
    DropGroupsOfUsers,
}

#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Calls of a session.
    session: u64,
    /// The canary's share of them.
    share: f64,
    looks: u64,
    ratio: f64,
    managers: Managers,
    /// It may pass before its last look.
    is_early: bool,
}

/// What was measured so far, group by group.
type Report = Vec<[Values; 2]>;

impl Null for Cell {
    fn name(&self) -> String {
        let split = format!("{:.0}:{:.0}", (1.0 - self.share) * 100.0, self.share * 100.0);
        let early = if self.is_early { ", early pass" } else { "" };
        format!("sessions of {}, {} × {}, {split}{early}", self.session, self.looks, CALLS / self.looks)
    }

    fn run(&self, random: &mut Random) -> Ending {
        let mut children: Vec<Report> = vec![nothing(); CHILDREN];
        let mut taken = None;
        looked_at(Judgement::new(design(self.looks, self.is_early)).unwrap(), self.looks, |look, _| {
            self.go_on(&mut children, random);
            let now = self.at_the_top(&children);
            let strata = self.strata(look - 1, &now, taken.as_ref());
            taken = Some(now);
            strata
        })
    }

    fn at(&self, ratio: f64) -> Self {
        Self { ratio, ..*self }
    }

    fn finds(&self) -> [Finds; 2] {
        let users = (CALLS / self.session) as f64 * self.share.min(1.0 - self.share);
        // Users differ by a log-sd of 0.5: it takes some hundred of each version to find a fifth.
        let finds = |ratio, least| if users >= least { Finds::promised(ratio) } else { Finds::seldom(ratio) };
        [finds(1.2, 200.0), finds(2.0, 12.0)]
    }
}

impl Cell {
    pub fn new(session: u64, share: f64, looks: u64) -> Self {
        Self { session, share, looks, ratio: 1.0 + TOLERANCE, managers: Managers::Right, is_early: false }
    }

    #[must_use]
    pub fn with(self, managers: Managers) -> Self {
        Self { managers, ..self }
    }

    /// The sessions of an interval. Each begins and ends at one child.
    fn go_on(&self, children: &mut [Report], random: &mut Random) {
        for _ in 0..CALLS / self.looks / self.session {
            let child = (random.uniform() * children.len() as f64) as usize;
            let group = (random.uniform() * f64::from(MAX_GROUPS)) as usize;
            let is_canary = random.chance(self.share);
            let scale = if is_canary { self.ratio } else { 1.0 };
            let of_session = 20.0 * scale * random.log_normal(SESSION_SD);
            for _ in 0..self.session {
                let ms = of_session * latency(random);
                let shown = (ms * 1_000.0).round() / 1_000.0;
                children[child][group][usize::from(is_canary)].record(shown, 1).unwrap();
            }
        }
    }

    /// What the manager at the top has of all children.
    fn at_the_top(&self, children: &[Report]) -> Report {
        let below = |parts: &[Report]| self.sent(&merged(parts));
        let lower: Vec<Report> = children.chunks(PER_MANAGER).map(below).collect();
        merged(&lower)
    }

    /// What a manager tells of its children.
    fn sent(&self, report: &Report) -> Report {
        let told = match self.managers {
            Managers::Right => report.clone(),
            Managers::DropGroups | Managers::DropGroupsOfUsers => {
                let all: Vec<Report> = report.iter().map(|sides| vec![sides.clone()]).collect();
                merged(&all)
            }
        };
        serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap()
    }

    /// What came since the look before, as the judge is handed it.
    fn strata(&self, interval: u64, now: &Report, taken: Option<&Report>) -> Vec<Stratum> {
        let stratum = |(group, [baseline, canary]): (u8, &[Values; 2])| {
            let since = |now: &Values, side: usize| {
                let new =
                    taken.map_or(Some(now.clone()), |taken| now.since(&taken[usize::from(group)][side]));
                Sample::Measured(new.unwrap())
            };
            let stratum = Stratum::new("canary", interval, since(baseline, 0), since(canary, 1));
            match self.managers {
                Managers::Right => stratum.ordered(self.share).of_users(group),
                Managers::DropGroups => stratum,
                Managers::DropGroupsOfUsers => Stratum { assignment: Assignment::User, ..stratum },
            }
        };
        (0..).zip(now).map(stratum).collect()
    }
}

fn nothing() -> Report {
    (0..MAX_GROUPS).map(|_| [(); 2].map(|()| Values::new(CLOCK).unwrap())).collect()
}

/// Added up, group by group.
fn merged(parts: &[Report]) -> Report {
    let mut sum = parts[0].clone();
    for part in &parts[1..] {
        for (sides, more) in sum.iter_mut().zip(part) {
            sides.iter_mut().zip(more).for_each(|(side, more)| side.merge(more).unwrap());
        }
    }
    sum
}

fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = [1, 3, 10, 50].map(|session| Cell::new(session, 0.5, 1)).into();
    cells.extend([Cell::new(10, 0.2, 1), Cell::new(10, 0.5, 4)]);
    cells.push(Cell { is_early: true, ..Cell::new(10, 0.5, 10) });
    // Four users of the canary, of eighty; and sixteen.
    cells.extend([Cell::new(100, 0.05, 1), Cell::new(25, 0.05, 1)]);
    cells
}

fn tally(cell: &Cell, runs: u64) -> Tally {
    run_with(runs, |random| cell.run(random))
}

#[test]
fn calls_of_sessions_are_judged_at_alpha_by_their_groups() {
    let told = Cell::new(10, 0.5, 1);
    let found = tally(&told, 150);
    for count in [found.failed, found.passed] {
        assert!(!exceeds(count, found.runs, ALPHA, 2), "{found:?}");
    }
    // That calls are those of users is enough for nobody to take them for independent, and not enough to judge them.
    let found = tally(&told.with(Managers::DropGroupsOfUsers), 20);
    assert_eq!((found.failed, found.passed), (0, 0), "{found:?}");
    // Nor is everything undecided then.
    assert!(tally(&Cell { ratio: 1.3, ..told }, 50).share_failed() > 0.9);
    assert!(tally(&Cell { ratio: 0.9, ..told }, 50).share_passed() > 0.9);
}

#[test]
fn calls_of_sessions_without_groups_are_no_evidence() {
    let mut random = Random::new(5);
    for (groups, verdict, says) in [
        (None, Verdict::Inconclusive, "8,000 of 8,000 did not come in groups of users"),
        (
            Some(7),
            Verdict::Inconclusive,
            "7 of the groups of users that they came in had calls of the version with fewer users",
        ),
        (Some(64), Verdict::Fail, "Fail"),
    ] {
        let cell = Cell { ratio: 3.0, ..Cell::new(10, 0.5, 1) };
        let mut children = vec![nothing(); CHILDREN];
        cell.go_on(&mut children, &mut random);
        let mut strata = cell.strata(0, &cell.at_the_top(&children), None);
        match groups {
            None => strata.iter_mut().for_each(|stratum| stratum.group = None),
            Some(few) => strata.truncate(few),
        }
        let mut judgement = Judgement::new(Design::new(Tolerance::Ratio(TOLERANCE))).unwrap();
        let found = judgement.look(&strata, 0, Occasion::Last);
        assert_eq!(found.verdict, Some(verdict), "{}", found.evidence.sentence);
        assert!(found.evidence.sentence.contains(says), "{}", found.evidence.sentence);
    }
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn calls_of_sessions_are_judged_at_alpha() {
    // A run leaves out each group in turn: fewer of them.
    let asked = asked(2_000);
    let faults = measure(&asked.of(cells()), asked.runs, 4);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
