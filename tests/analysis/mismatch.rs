//! Whether calls were shared out among any number of variations as was wanted.

use analysis::{dist::binomial_sf, mismatch::SharedOut, split::Splits};
use proptest::prelude::*;

use super::random::Random;

const ALPHA: f64 = 0.05;

/// What calls that are shared out as wanted are taken for others with, over all looks.
const LEVEL: f64 = 0.001;

/// So many calls, each a variation's by these shares in units of 0.01 %.
fn draw(shares: &[u16], calls: u64, random: &mut Random) -> Vec<u64> {
    let (mut left, mut left_share) = (calls, 10_000_u16);
    let mut draw = |share: u16| {
        let part = if share >= left_share { 1.0 } else { f64::from(share) / f64::from(left_share) };
        let drawn = if share == 0 { 0 } else { random.binomial(left, part) };
        left -= drawn;
        left_share -= share;
        drawn
    };
    shares.iter().map(|share| draw(*share)).collect()
}

/// How many calls there were at the look that found it, with so many calls a look.
fn found(wanted: &[u16], truth: &[u16], (calls, looks): (u64, u64), random: &mut Random) -> Option<u64> {
    let mut shared = SharedOut::default();
    let mut look = |_: &u64| {
        shared.note(wanted, None, &draw(truth, calls, random));
        shared.mismatch(ALPHA).is_some()
    };
    (1..=looks).find(|at| look(at)).map(|look| look * calls)
}

#[test]
fn calls_shared_out_as_wanted_are_taken_for_that_at_every_look() {
    let cases: [(&[u16], u64); 5] = [
        (&[5_000, 5_000], 3_000),
        (&[9_500, 500], 1_500),
        (&[9_990, 10], 1_000),
        (&[8_000, 1_000, 1_000], 1_000),
        (&[4_000, 0, 3_000, 1_500, 1_490, 10], 500),
    ];
    for (shares, runs) in cases {
        let mut random = Random::new(17);
        let wrong = (0..runs).filter(|_| found(shares, shares, (64, 200), &mut random).is_some()).count();
        assert!(binomial_sf(wrong as u64, runs, LEVEL) > 0.001, "{shares:?}: {wrong} of {runs}");
    }
}

#[test]
fn a_split_that_is_wrong_by_a_tenth_is_found_within_so_many_calls() {
    let cases: [(&[u16], &[u16], u64); 6] = [
        (&[9_000, 1_000], &[8_900, 1_100], 60_000),
        (&[9_000, 1_000], &[9_100, 900], 60_000),
        (&[5_000, 5_000], &[4_500, 5_500], 6_000),
        (&[8_000, 1_000, 1_000], &[7_900, 1_100, 1_000], 70_000),
        (&[9_900, 100], &[9_890, 110], 600_000),
        (&[5_000, 5_000], &[1_000, 9_000], 200),
    ];
    for (wanted, truth, most) in cases {
        let mut random = Random::new(18);
        let runs: Vec<Option<u64>> =
            (0..100).map(|_| found(wanted, truth, (most / 100, 100), &mut random)).collect();
        assert!(runs.iter().all(Option::is_some), "{truth:?} instead of {wanted:?}");
        let mean = runs.iter().flatten().sum::<u64>() / 100;
        assert!(mean < most / 2, "{truth:?} instead of {wanted:?}: {mean} of {most} calls in the mean");
    }
}

/// Users who make a hundred calls each, all to one variation, are as many as there are, and not as many as their calls.
#[test]
fn calls_of_users_who_stay_with_a_variation_raise_no_alarm() {
    const USERS: u64 = 64 * 10;
    let (runs, wanted) = (300, [9_000_u16, 1_000]);
    let mut random = Random::new(19);
    let mut wrong = 0;
    for _ in 0..runs {
        let of: Vec<usize> = (0..USERS).map(|_| usize::from(random.binomial(1, 0.1) == 1)).collect();
        let mut shared = SharedOut::default();
        let is_found = (0..20).any(|_| {
            for (user, variation) in of.iter().enumerate() {
                let mut calls = [0; 2];
                calls[*variation] = 5;
                shared.note(&wanted, Some((user % 64) as u8), &calls);
            }
            shared.mismatch(ALPHA).is_some()
        });
        wrong += u64::from(is_found);
    }
    // An approximation: at most thrice the level.
    assert!(binomial_sf(wrong, runs, 3.0 * LEVEL) > 0.001, "{wrong} of {runs}");
}

#[test]
fn call_to_zero_share_variation_proves_split_mismatch() {
    let mut shared = SharedOut::default();
    shared.note(&[9_000, 1_000, 0], None, &[890, 110, 0]);
    assert_eq!(shared.mismatch(ALPHA), None);
    shared.note(&[9_000, 1_000, 0], None, &[890, 110, 1]);
    let mismatch = shared.mismatch(ALPHA).unwrap();
    insta::assert_snapshot!(mismatch, @"the split is wrong: wanted 90 : 10 : 0 %, measured 88.96 : 10.99 : 0.05 % of 2001 calls");
    assert!(mismatch.e_value.is_finite());
    let told = serde_json::to_value(&mismatch).unwrap();
    assert_eq!(serde_json::from_value::<analysis::mismatch::Mismatch>(told).unwrap(), mismatch);
    // What is none of a split changes nothing.
    let before = shared.clone();
    shared.note(&[9_000, 1_000], None, &[1]);
    shared.note(&[9_000, 1_000], None, &[0, 0]);
    assert_eq!(shared, before);
}

#[test]
fn the_evidence_is_the_mean_of_that_of_two_variations() {
    // By hand, from the formula with exact factorials: 10 calls, all to the second of two equal variations.
    let mut shared = SharedOut::default();
    shared.note(&[5_000, 5_000], None, &[0, 10]);
    let of = |kappa: f64| {
        (0..10).map(|call| (kappa / 2.0 + f64::from(call)) / (kappa + f64::from(call)) * 2.0).product::<f64>()
    };
    let mean = [1e2, 1e3, 1e4, 1e5].map(of).iter().sum::<f64>() / 4.0;
    assert!((shared.e_value() - mean).abs() < 1e-6, "{} is not {mean}", shared.e_value());
    // With one of them it is that of `split`.
    let mut splits = Splits::default();
    splits.note(0.5, None, [0, 10]);
    let split = splits.evidence(ALPHA).unwrap().e_value;
    assert!((split - of(1e3)).abs() < 1e-6);
}

proptest! {
    #[test]
    fn neither_order_nor_batches_matter(calls in prop::collection::vec((0..500_u64, 0..500_u64, 0..500_u64), 1..20)) {
        let wanted = [7_000, 2_000, 1_000];
        let (mut one, mut other, mut sum) = (SharedOut::default(), SharedOut::default(), [0; 3]);
        for (a, b, c) in &calls {
            one.note(&wanted, None, &[*a, *b, *c]);
            sum = [sum[0] + a, sum[1] + b, sum[2] + c];
        }
        other.note(&wanted, None, &sum);
        prop_assert_eq!(one, other);
    }
}

/// A user of a simulation: which group it is in, and how many calls it makes at each look.
struct User {
    group: u8,
    calls: u64,
}

/// Users whose numbers of calls are spread as by Pareto's law with this index, from one call a look up to `most`.
fn users(number: u64, index: f64, most: f64, random: &mut Random) -> Vec<User> {
    let user = |_| {
        let calls = (1.0 - random.uniform()).powf(-1.0 / index).min(most);
        User { group: (random.uniform() * 64.0) as u8 % 64, calls: calls as u64 }
    };
    (0..number).map(user).collect()
}

/// In how many of so many runs a split is found wrong at any of 20 looks, where users are drawn by `truth`.
fn found_of_users(
    wanted: [u16; 2],
    truth: f64,
    (runs, number): (u64, u64),
    (index, most): (f64, f64),
    seed: u64,
) -> u64 {
    let mut random = Random::new(seed);
    let mut found = 0;
    for _ in 0..runs {
        let users = users(number, index, most, &mut random);
        let of: Vec<usize> = users.iter().map(|_| usize::from(random.uniform() < truth)).collect();
        let mut shared = SharedOut::default();
        let is_found = (0..20).any(|_| {
            for (user, variation) in users.iter().zip(&of) {
                let mut calls = [0; 2];
                calls[*variation] = user.calls;
                shared.note(&wanted, Some(user.group), &calls);
            }
            shared.mismatch(ALPHA).is_some()
        });
        found += u64::from(is_found);
    }
    found
}

/// The draws of users decide about all their calls: one of ten thousand calls is drawn once.
#[test]
fn users_of_very_different_numbers_of_calls_raise_no_alarm() {
    // Pareto's law with an index near one: some users make as many calls as thousands of others.
    let spread = [(1.1, 1e4), (1.5, 1e4), (3.0, 1e3)];
    for (seed, (index, most)) in spread.into_iter().enumerate() {
        for (wanted, users) in [
            ([9_000, 1_000], 500),
            ([5_000, 5_000], 500),
            ([9_900, 100], 500),
            ([9_900, 100], 50),
            ([9_975, 25], 2_000),
        ] {
            let truth = f64::from(wanted[1]) / 10_000.0;
            let wrong = found_of_users(wanted, truth, (200, users), (index, most), 31 + seed as u64);
            // An approximation: at most five times the level.
            assert!(
                binomial_sf(wrong, 200, 5.0 * LEVEL) > 0.001,
                "{wanted:?}, {users} users, index {index}: {wrong} of 200"
            );
        }
    }
}

/// Of users that make 1.5 calls a look in the mean, 40,000 are enough to see a share of 12 % that was to be 10 %, and 4,000 one of 40 % that
/// was to be half.
#[test]
fn a_split_of_users_that_is_wrong_is_found() {
    for (wanted, truth, users) in [([9_000, 1_000], 0.12, 40_000), ([5_000, 5_000], 0.4, 4_000)] {
        let found = found_of_users(wanted, truth, (20, users), (3.0, 1e3), 41);
        assert!(found >= 19, "{truth} instead of {wanted:?}: {found} of 20");
    }
}

#[test]
fn calls_that_have_not_ended_are_missing_and_prove_nothing() {
    let mut shared = SharedOut::default();
    shared.note(&[9_000, 1_000], None, &[9_000, 300]);
    assert!(shared.mismatch(ALPHA).is_some());
    assert_eq!(shared.mismatch_but_for(ALPHA, &[0, 700]), None);
    // Those of the other variation change nothing of that.
    assert!(shared.mismatch_but_for(ALPHA, &[700, 0]).is_some());
    assert!(shared.mismatch_but_for(ALPHA, &[0, 200]).is_some());
}
