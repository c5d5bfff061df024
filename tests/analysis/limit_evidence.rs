//! Whether a rate or a quantile lies beyond a limit, asked as often as one likes.

use analysis::{
    Counts, Sample, Values,
    dist::binomial_sf,
    limit_evidence::{LEVEL, Limit, is_beyond},
    values::Clock,
};

use super::random::Random;

/// The calls after which a rate is found to lie beyond the limit, if it is: so many a look.
fn found(truth: f64, limit: Limit, calls: u64, looks: u64, random: &mut Random) -> Option<u64> {
    let mut counts = Counts::default();
    (1..=looks).map(|look| look * calls).find(|_| {
        counts.calls += calls;
        counts.events += random.binomial(calls, truth);
        is_beyond(&Sample::Counts(counts), 0.5, limit)
    })
}

#[test]
fn rate_at_limit_is_rarely_judged_beyond_despite_repeated_looks() {
    let runs = 6_000;
    for (rate, limit) in [(0.02, Limit::AtMost(0.02)), (0.5, Limit::AtMost(0.5)), (0.9, Limit::AtLeast(0.9))]
    {
        let mut random = Random::new(11);
        let wrong = (0..runs).filter(|_| found(rate, limit, 10, 100, &mut random).is_some()).count();
        assert!(binomial_sf(wrong as u64, runs, LEVEL) > 0.001, "{limit:?}: {wrong} of {runs}");
    }
}

#[test]
fn a_rate_far_beyond_is_found_at_once_and_one_near_by_after_a_while() {
    let mut random = Random::new(12);
    let mut calls = |truth, limit| {
        let all: Vec<u64> = (0..50).filter_map(|_| found(truth, limit, 50, 400, &mut random)).collect();
        assert_eq!(all.len(), 50, "{truth} beyond {limit:?}");
        all.iter().sum::<u64>() / 50
    };
    assert!(calls(0.2, Limit::AtMost(0.02)) <= 100);
    assert!(calls(0.5, Limit::AtLeast(0.9)) <= 100);
    let twice = calls(0.04, Limit::AtMost(0.02));
    assert!((200..4_000).contains(&twice), "{twice}");
}

#[test]
fn single_error_of_few_calls_exceeds_only_zero_tolerance() {
    let one = Sample::Counts(Counts { calls: 10, events: 1 });
    assert!(!is_beyond(&one, 0.5, Limit::AtMost(0.02)), "one of ten is no rate");
    assert!(is_beyond(&one, 0.5, Limit::AtMost(0.0)), "no error was to be there");
    let none = Sample::Counts(Counts::default());
    for limit in [Limit::AtMost(0.0), Limit::AtMost(1.0), Limit::AtLeast(0.0), Limit::AtLeast(1.0)] {
        assert!(!is_beyond(&none, 0.5, limit), "{limit:?}: no calls show nothing");
    }
    assert!(!is_beyond(&Sample::Counts(Counts { calls: 1 << 40, events: 1 << 39 }), 0.5, Limit::AtMost(1.0)));
}

#[test]
fn of_times_the_calls_beyond_the_limit_count_exact_or_in_buckets() {
    for distinct in [100, 5_000] {
        let of = |count: u32| {
            // From 1 to 101 ms, evenly.
            let value = |i: u32| 1.0 + 100.0 * f64::from(i % distinct) / f64::from(distinct);
            Sample::Measured(Values::of((0..count).map(value), Clock::default()).unwrap())
        };
        let (few, many) = (of(20), of(10_000));
        assert!(is_beyond(&many, 0.5, Limit::AtMost(45.0)), "half of {distinct} times are above 51 ms");
        assert!(!is_beyond(&many, 0.5, Limit::AtMost(52.0)));
        assert!(is_beyond(&many, 0.95, Limit::AtMost(90.0)), "a twentieth is above 96 ms");
        assert!(!is_beyond(&many, 0.95, Limit::AtMost(97.0)));
        assert!(is_beyond(&many, 0.5, Limit::AtLeast(60.0)));
        assert!(!is_beyond(&many, 0.5, Limit::AtLeast(50.0)));
        assert!(!is_beyond(&few, 0.95, Limit::AtMost(18.0)), "twenty calls tell nothing of so rare ones");
    }
}
