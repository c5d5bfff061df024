//! Whether each child shared out its calls as ordered: over all children, as often as one likes.

use analysis::{
    dispersion::SplitDispersion,
    dist::{binomial_pmf, binomial_sf},
    split::Split,
};

use super::random::Random;

const ALPHA: f64 = 0.05;

/// What a release with this alpha is to be paused with by mistake.
const LEVEL: f64 = 0.001;

fn split(share: f64, [baseline, canary]: [u64; 2]) -> Split {
    Split { baseline, canary, ..Split::new(share) }
}

fn of(splits: impl IntoIterator<Item = Split>) -> SplitDispersion {
    let mut all = SplitDispersion::default();
    splits.into_iter().for_each(|split| all.note(&[split]));
    all
}

/// The look at which children are found not to obey, if they are: each with so many calls a look. `truth`: the share that a child
/// really gives the canary.
fn found(
    ordered: f64,
    truth: impl Fn(u64) -> f64,
    children: u64,
    calls: u64,
    looks: u64,
    random: &mut Random,
) -> Option<u64> {
    let mut all = vec![[0; 2]; children as usize];
    (1..=looks).find(|_| {
        for (child, told) in (0..).zip(&mut all) {
            let canary = random.binomial(calls, truth(child));
            *told = [told[0] + calls - canary, told[1] + canary];
        }
        of(all.iter().map(|told| split(ordered, *told))).is_mismatch(ALPHA)
    })
}

#[test]
fn children_that_obey_are_taken_for_that_at_every_look_however_few_calls_they_have() {
    let fleets = [(12, 1, 100), (12, 50, 40), (100, 4, 40), (1_000, 1, 12), (1_000, 200, 4)];
    for (children, calls, looks) in fleets {
        for share in [0.5, 0.05, 0.0025] {
            let mut random = Random::new(7);
            let runs = if children < 1_000 { 300 } else { 40 };
            let one = |_| found(share, |_| share, children, calls, looks, &mut random);
            let wrong = (0..runs).filter_map(one).count();
            assert!(binomial_sf(wrong as u64, runs, LEVEL) > 0.001, "{children} × {calls}, {share}: {wrong}");
        }
    }
}

/// By enumeration: no approximation is in it.
#[test]
fn the_evidence_against_a_child_that_obeys_is_1_at_most_in_the_mean() {
    for share in [0.5, 0.05, 0.0025] {
        for calls in [1_u64, 2, 5, 40] {
            let e_value =
                |canary: u64| of([split(share, [calls - canary, canary])]).evidence().unwrap().e_value;
            let mean: f64 = (0..=calls).map(|k| binomial_pmf(k, calls, share) * e_value(k)).sum();
            assert!((mean - 1.0).abs() < 1e-9, "{share}, {calls}: {mean}");
        }
        // Users of 9, 3, 3 and 1 calls, two of them in one group.
        let mut mean = 0.0;
        for drawn in 0..16_u32 {
            let mut split = Split::new(share);
            let mut chance = 1.0;
            for (user, (group, calls)) in [(1, 9), (2, 3), (2, 3), (5, 1)].into_iter().enumerate() {
                let is_canary = (drawn >> user) & 1 == 1;
                chance *= if is_canary { share } else { 1.0 - share };
                split.note(Some(group), if is_canary { [0, calls] } else { [calls, 0] });
            }
            mean += chance * of([split]).evidence().unwrap().e_value;
        }
        assert!(mean <= 1.0 + 1e-9, "{share}: {mean}");
    }
}

#[test]
fn halves_that_are_off_in_opposite_directions_are_found() {
    let mut random = Random::new(8);
    // Children, calls of each in all, by how much a half is off.
    let fleets = [
        (12, 0.5, 20, 0.4),
        (12, 0.5, 1_200, 0.05),
        (1_000, 0.5, 12, 0.1),
        (1_000, 0.05, 12, 0.04),
        (100, 0.05, 400, 0.03),
    ];
    for (children, share, calls, by) in fleets {
        for _ in 0..20 {
            let truth = |child: u64| if child.is_multiple_of(2) { share + by } else { share - by };
            let look = found(share, truth, children, calls / 4, 4, &mut random);
            assert!(look.is_some(), "{children} × {calls}, {share} ± {by}");
        }
    }
}

/// However many calls it has: it says nothing against the other 999. Of a small fleet it is a part that matters.
#[test]
fn a_single_child_that_is_broken_stops_a_small_fleet_and_no_large_one() {
    let mut random = Random::new(10);
    let truth = |child: u64| if child == 0 { 0.95 } else { 0.5 };
    assert!(found(0.5, truth, 12, 1_000, 1, &mut random).is_some());
    for calls in [1_000, 1_000_000] {
        assert_eq!(found(0.5, truth, 1_000, calls, 4, &mut random), None, "{calls}");
        // Nor do all of them, by one call in a thousand.
        let hardly = |child: u64| if child.is_multiple_of(2) { 0.501 } else { 0.499 };
        assert_eq!(found(0.5, hardly, 1_000, calls, 4, &mut random), None, "{calls}");
    }
}

/// However many calls each has.
#[test]
fn fifty_children_of_a_thousand_are_not_hidden_by_those_that_obey() {
    let mut random = Random::new(9);
    for (calls, by) in [(100, 0.2), (1_000, 0.2), (1_000_000, 0.1)] {
        let truth = |child: u64| match child {
            0..25 => 0.5 + by,
            25..50 => 0.5 - by,
            _ => 0.5,
        };
        assert!(found(0.5, truth, 1_000, calls, 1, &mut random).is_some(), "{calls}, {by}");
    }
}

/// A user calls all children, and gets the same version from each: that is one draw, and not a hundred.
#[test]
fn users_that_children_share_are_no_evidence_a_child_each() {
    const RUNS: u64 = 300;
    let mut random = Random::new(10);
    let users_of = |is_canary: &[bool]| {
        let mut split = Split::new(0.2);
        for (user, is_canary) in is_canary.iter().enumerate() {
            split.note(Some((user % 64) as u8), if *is_canary { [0, 10] } else { [10, 0] });
        }
        split
    };
    let one = |_: &u64| {
        let users: Vec<bool> = (0..64).map(|_| random.chance(0.2)).collect();
        of((0..100).map(|_| users_of(&users))).is_mismatch(ALPHA)
    };
    let wrong = (0..RUNS).filter(one).count() as u64;
    assert!(binomial_sf(wrong, RUNS, LEVEL) > 0.001, "{wrong}");
    // Users of their own, of which each child gives the canary far too many or none, are.
    let mut off = |share: f64| users_of(&(0..64).map(|_| random.chance(share)).collect::<Vec<_>>());
    let halves: Vec<Split> = (0..12).map(|at| off([0.9, 0.0][at % 2])).collect();
    assert!(of(halves).is_mismatch(ALPHA));
}

#[test]
fn sums_add_up_over_any_tree_as_they_are_written_and_read() {
    let mut random = Random::new(11);
    let mut children: Vec<Split> =
        (0..60).map(|at| random.binomial(50 + at, 0.5)).map(|canary| split(0.5, [40, canary])).collect();
    let mut users = Split::new(0.5);
    (0..8).for_each(|group| users.note(Some(group), [3, 4]));
    children.push(users);
    let sent = |sums: &SplitDispersion| -> SplitDispersion {
        serde_json::from_str(&serde_json::to_string(sums).unwrap()).unwrap()
    };
    let merged = |parts: &[SplitDispersion]| {
        let mut sum = SplitDispersion::default();
        for part in parts {
            sum.add(&sent(part));
        }
        sum
    };
    let lower: Vec<_> = children.chunks(7).map(|some| of(some.iter().cloned())).collect();
    let tree: Vec<_> = lower.chunks(3).map(merged).collect();
    let (flat, tree) = (of(children), merged(&tree));
    assert!(flat.is_possible() && tree.is_possible());
    let (flat, tree): ([f64; 10], [f64; 10]) = (flat.into(), tree.into());
    assert!(flat.iter().zip(tree).all(|(flat, tree)| (flat - tree).abs() < 1e-9), "{flat:?} {tree:?}");
    assert_eq!((flat[0], flat[6]), (61.0, 1.0));
}

#[test]
fn numbers_that_cant_be_sums_over_children_are_told_from_those_that_can() {
    let is_possible = |sums: [f64; 10]| SplitDispersion::from(sums).is_possible();
    let fine = [10.0, -1.0, 2.0, -6.9, 300.0, 0.0, 2.0, 3.0, -4.0, 50.0];
    assert!(is_possible(fine) && is_possible([0.0; 10]));
    let with = |at: usize, value: f64| {
        let mut sums = fine;
        sums[at] = value;
        sums
    };
    let wrong = [
        (0, -1.0),
        (0, 1e12),
        (0, f64::NAN),
        (1, -7.0),
        (2, f64::INFINITY),
        (3, f64::NAN),
        (4, 1e300),
        (6, 11.0),
        (6, -1.0),
        (7, -1.0),
        (7, 1e40),
        (8, f64::NAN),
        (9, -1.0),
    ];
    for (at, value) in wrong {
        assert!(!is_possible(with(at, value)), "{at}: {value}");
    }
    // Whatever calls are counted, their sums are possible.
    let most = of([split(0.0001, [0, 1 << 48]), split(0.5, [1 << 48, 1 << 48]), split(0.9999, [1 << 48, 0])]);
    assert!(most.is_possible() && most.evidence().unwrap().e_value >= 1e300, "{most:?}");
}

/// A manager that says of more children than it has agents that they obey would hide those of others.
#[test]
fn a_manager_speaks_for_no_more_children_than_it_has_agents() {
    let mut all = of((0..12).map(|at| split(0.5, if at % 2 == 0 { [18, 2] } else { [2, 18] })));
    assert!(all.is_mismatch(ALPHA));
    let hides = SplitDispersion::from([1e9, -6e8, -6e8, -6e8, -6e8, -6e8, 1e9, 0.0, 0.0, 0.0]);
    assert!(hides.is_possible());
    all.add(&hides.of_at_most(5));
    assert!(all.is_mismatch(ALPHA), "{all:?}");
}
