//! Rules that hold for any data.

use analysis::{
    Design, Finding, Histogram, Judgement, Occasion, Question, Sample, Stratum, Tolerance,
    rank::{Map, rank_sum, rank_sums},
    spread::SortedSide,
};
use proptest::prelude::*;

use super::random::Random;

fn once(design: Design, baseline: Sample, canary: Sample) -> Finding {
    let strata = [Stratum::new("canary", 0, baseline, canary)];
    Judgement::new(design).unwrap().look(&strata, 0, Occasion::Last)
}

fn high() -> Design {
    Design::new(Tolerance::Ratio(0.05))
}

fn raw(baseline: &[f64], canary: &[f64]) -> Finding {
    once(high(), Sample::Values(baseline.to_vec()), Sample::Values(canary.to_vec()))
}

/// Baseline and canary of one child.
type Part = (Vec<f64>, Vec<f64>);

/// Values of some kind: fine, rounded, mostly zero.
fn sample() -> impl Strategy<Value = Vec<f64>> {
    let fine = prop::collection::vec(1.0..100.0_f64, 1..60);
    let rounded = prop::collection::vec((1..40_u32).prop_map(f64::from), 1..60);
    let zeros = prop::collection::vec(prop_oneof![3 => Just(0.0), 1 => 1.0..50.0_f64], 1..60);
    prop_oneof![fine, rounded, zeros]
}

fn scaled(values: &[f64], by: f64) -> Vec<f64> {
    values.iter().map(|value| value * by).collect()
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()) + 1e-300
}

fn histogram(gamma: f64, values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new(gamma).unwrap();
    for value in values {
        histogram.record(*value).unwrap();
    }
    histogram
}

proptest! {
    #![proptest_config(crate::cases::cases(64))]

    #[test]
    fn a_power_of_two_changes_nothing(x in sample(), y in sample(), power in -30..30_i32) {
        let by = f64::from(power).exp2();
        let (mut plain, mut other) = (raw(&x, &y), raw(&scaled(&x, by), &scaled(&y, by)));
        prop_assert_eq!(&plain.evidence.tests, &other.evidence.tests);
        for finding in [&mut plain, &mut other] {
            finding.evidence.tests = Vec::new();
            for side in [&mut finding.evidence.baseline, &mut finding.evidence.canary] {
                (side.p50, side.p95, side.p99) = (None, None, None);
            }
        }
        prop_assert_eq!(plain, other);
    }

    #[test]
    fn a_unit_changes_nothing(x in sample(), y in sample(), by in 1e-6..1e6_f64) {
        let (plain, other) = (raw(&x, &y), raw(&scaled(&x, by), &scaled(&y, by)));
        prop_assert_eq!(plain.verdict, other.verdict);
        for (a, b) in plain.evidence.tests.iter().zip(&other.evidence.tests) {
            prop_assert!(close(a.p, b.p, 1e-6) && close(a.p_pass, b.p_pass, 1e-6), "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn order_and_batching_within_an_interval_dont_matter(x in sample(), y in sample(), seed in 0..1_000_u64) {
        let whole = raw(&x, &y);
        let mut random = Random::new(seed);
        let shuffled = |values: &[f64], random: &mut Random| {
            let mut values = values.to_vec();
            for at in (1..values.len()).rev() {
                values.swap(at, (random.uniform() * (at + 1) as f64) as usize);
            }
            values
        };
        let (x, y) = (shuffled(&x, &mut random), shuffled(&y, &mut random));
        let (a, b) = ((random.uniform() * x.len() as f64) as usize, (random.uniform() * y.len() as f64) as usize);
        let strata = [(&x[..a], &y[..b]), (&x[a..], &y[b..])].map(|(x, y)| {
            Stratum::new("canary", 0, Sample::Values(x.to_vec()), Sample::Values(y.to_vec()))
        });
        let batched = Judgement::new(high()).unwrap().look(&strata, 0, Occasion::Last);
        prop_assert_eq!(whole, batched);
    }

    #[test]
    fn merged_histograms_are_judged_as_the_histogram_of_all(
        parts in prop::collection::vec((sample(), sample()), 1..6),
        q in prop::option::of(0.5..0.99_f64),
    ) {
        let mut design = high();
        if let Some(q) = q {
            design.question = Question::Quantile(q);
        }
        let side = |of: fn(&Part) -> &Vec<f64>| {
            let mut merged = Histogram::new(1.02).unwrap();
            for part in &parts {
                merged.merge(&histogram(1.02, of(part))).unwrap();
            }
            let all: Vec<f64> = parts.iter().flat_map(|part| of(part).clone()).collect();
            (merged, histogram(1.02, &all))
        };
        let ((x, all_x), (y, all_y)) = (side(|part| &part.0), side(|part| &part.1));
        prop_assert_eq!(&x, &all_x);
        let merged = once(design.clone(), Sample::Histogram(x), Sample::Histogram(y));
        prop_assert_eq!(merged, once(design, Sample::Histogram(all_x), Sample::Histogram(all_y)));
    }

    #[test]
    fn a_power_of_the_bucket_base_changes_nothing_for_histograms(x in sample(), y in sample(), power in 1..200_i32) {
        // In the middle of buckets, so that rounding moves nothing over an edge.
        let middle = |values: &[f64], shift: i32| -> Vec<f64> {
            let index = |v: f64| (v.ln() / 1.02_f64.ln()).floor();
            values
                .iter()
                // So large that no clock shows in them, whose step would not grow with them.
                .map(|v| v * 1e7)
                .map(|v| if v == 0.0 { 0.0 } else { 1.02_f64.powf(index(v) + 0.5 + f64::from(shift)) })
                .collect()
        };
        let of = |shift| {
            let sample = |values: &[f64]| Sample::Histogram(histogram(1.02, &middle(values, shift)));
            once(high(), sample(&x), sample(&y))
        };
        let (plain, other) = (of(0), of(power));
        for (a, b) in plain.evidence.tests.iter().zip(&other.evidence.tests) {
            prop_assert!(close(a.p, b.p, 1e-9), "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn a_histogram_says_what_its_values_say_within_a_bucket(seed in 0..10_000_u64, worse in 0.8..1.3_f64) {
        let mut random = Random::new(seed);
        let x: Vec<f64> = (0..400).map(|_| 20.0 * random.log_normal(0.4)).collect();
        let y: Vec<f64> = (0..400).map(|_| 20.0 * worse * random.log_normal(0.4)).collect();
        let of = |gamma, values: &[f64]| Sample::Histogram(histogram(gamma, values));
        let exact = raw(&x, &y).evidence.effect.unwrap().estimate;
        let rough = once(high(), of(1.02, &x), of(1.02, &y)).evidence.effect.unwrap().estimate;
        prop_assert!((rough / exact).ln().abs() <= 1.02_f64.ln(), "{} {}", exact, rough);
    }

    #[test]
    fn estimates_are_those_of_all_pairs(
        x in prop::collection::vec(1.0..100.0_f64, 5..25),
        y in prop::collection::vec(1.0..100.0_f64, 5..25),
    ) {
        let effect = raw(&x, &y).evidence.effect.unwrap();
        let mut quotients: Vec<f64> = y.iter().flat_map(|y| x.iter().map(move |x| y / x)).collect();
        quotients.sort_unstable_by(f64::total_cmp);
        let middle = quotients.len() / 2;
        // In between two quotients any place is a median: ours is the geometric middle.
        let median = if quotients.len() % 2 == 1 {
            quotients[middle]
        } else {
            (quotients[middle - 1] * quotients[middle]).sqrt()
        };
        prop_assert!(close(effect.estimate, median, 1e-8), "{} {}", effect.estimate, median);
        let above: f64 = y
            .iter()
            .flat_map(|y| x.iter().map(move |x| if y > x { 1.0 } else if y < x { 0.0 } else { 0.5 }))
            .sum();
        prop_assert!(close(effect.superiority.unwrap(), above / quotients.len() as f64, 1e-12));
        let (low, high) = (effect.low.unwrap_or(0.0), effect.high.unwrap_or(f64::INFINITY));
        prop_assert!(low <= effect.estimate && effect.estimate <= high);
    }

    #[test]
    fn no_histogram_makes_it_panic(json in "[{\\[\":,a-zA-Z0-9.}\\]-]{0,80}") {
        let _ = serde_json::from_str::<Histogram>(&json);
    }

    #[test]
    fn intervals_invert_the_test(seed in 0..10_000_u64) {
        let mut random = Random::new(seed);
        let x: Vec<f64> = (0..60).map(|_| 20.0 * random.log_normal(0.4)).collect();
        let y: Vec<f64> = (0..80).map(|_| 21.0 * random.log_normal(0.4)).collect();
        let effect = raw(&x, &y).evidence.effect.unwrap();
        let tested = |ratio: f64| {
            // The same data, moved so that the ratio in question lies on the boundary.
            let moved = scaled(&x, ratio / 1.05);
            raw(&moved, &y).evidence.tests[0].clone()
        };
        let (low, high) = (effect.low.unwrap(), effect.high.unwrap());
        prop_assert!(tested(low * 0.999).p <= 0.05 + 1e-3 && tested(low * 1.001).p >= 0.05 - 1e-3);
        prop_assert!(tested(high * 1.001).p_pass <= 0.05 + 1e-3 && tested(high * 0.999).p_pass >= 0.05 - 1e-3);
    }
}

#[test]
fn values_that_rounding_tells_apart_are_ties() {
    let x: Vec<f64> = [3.0, 7.0, 11.0, 13.0, 15.0].map(|v| v * 0.001).to_vec();
    let y = scaled(&x, 1.05);
    let sums = rank_sums(&SortedSide::of_values(x, None), &SortedSide::of_values(y, None), Map::scale(1.05));
    assert!((sums.s + 12.5 - 12.5).abs() < f64::EPSILON, "U is {}", sums.s + 12.5);
}

#[test]
fn histograms_are_read_and_written_as_ddsketch_has_them() {
    let histogram = histogram(1.02, &[0.0, 1.0, 1.0, 30.0, -2.0]);
    let json = serde_json::to_string(&histogram).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
    let other = r#"{"mapping": {"gamma": 1.02, "interpolation": "NONE"},
        "positiveValues": {"binCounts": {"0": 2, "171": 1}}, "negativeValues": {"binCounts": {"35": 1}}, "zeroCount": 1}"#;
    assert_eq!(serde_json::from_str::<Histogram>(other).unwrap(), histogram);
    for (wrong, says) in [
        (r#"{"mapping": {"gamma": 1.0}}"#, "bucket base 1 is not above 1"),
        (r#"{"mapping": {"gamma": 1.1, "interpolation": "CUBIC"}}"#, "interpolation"),
        (r#"{"mapping": {"gamma": 1.1}, "zeroCount": -1}"#, "no whole number"),
        (r#"{"mapping": {"gamma": 1.1}, "zeroCount": 0.5}"#, "no whole number"),
        (r#"{"mapping": {"gamma": 1.1}, "positiveValues": {"binCounts": {"0": 1, "99999": 1}}}"#, "buckets"),
        (r#"{"mapping": {"gamma": 1.1}, "positiveValues": {"binCounts": {"99999999999": 1}}}"#, "range"),
    ] {
        let error = serde_json::from_str::<Histogram>(wrong).unwrap_err().to_string();
        assert!(error.contains(says), "{wrong}: {error}");
    }
}

#[test]
fn the_rank_sum_alone_is_that_of_the_whole_order() {
    let mut random = Random::new(4);
    let mut draw = |count, median: f64, unit: f64| -> SortedSide {
        let value = |_| (median * random.log_normal(0.4) / unit).round() * unit;
        SortedSide::of_values((0..count).map(value).collect(), None)
    };
    // Some in one stretch and some in several; fine, tied now and then, tied all over.
    for unit in [1e-9, 0.01, 5.0] {
        for (m, n) in [(1, 1), (30, 1_000), (9_000, 6_000), (5_000, 20_000)] {
            let (x, y) = (draw(m, 20.0, unit), draw(n, 21.0, unit));
            for map in [Map::IDENTITY, Map::scale(1.05), Map::shift(-5.0)] {
                let (alone, whole) = (rank_sum(&x, &y, map), rank_sums(&x, &y, map).s);
                assert!((alone - whole).abs() <= 1e-9 * f64::from(m * n), "{m} {n} {unit}: {alone} {whole}");
            }
        }
    }
}

#[test]
fn intervals_of_many_values_invert_the_test_too() {
    let mut random = Random::new(5);
    let x: Vec<f64> = (0..40_000).map(|_| 20.0 * random.log_normal(0.4)).collect();
    let y: Vec<f64> = (0..35_000).map(|_| 21.0 * random.log_normal(0.4)).collect();
    let effect = raw(&x, &y).evidence.effect.unwrap();
    let tested = |ratio: f64| raw(&scaled(&x, ratio / 1.05), &y).evidence.tests[0].clone();
    let middle = tested(effect.estimate);
    assert!(middle.z.abs() < 1e-3, "{}", middle.z);
    let (low, high) = (tested(effect.low.unwrap()).p, tested(effect.high.unwrap()).p_pass);
    assert!(close(low, 0.05, 1e-3) && close(high, 0.05, 1e-3), "{low} {high}");
}
