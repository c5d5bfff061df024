use analysis::{Histogram, values::GAMMA};
use call_metrics::{EXACT_TIMES, Recorder, Times};
use proptest::prelude::*;

/// Microseconds of every order, and those at the ends.
fn us() -> impl Strategy<Value = u32> {
    prop_oneof![0..20_u32, 0..100_000_u32, any::<u32>(), Just(0), Just(1), Just(u32::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::cases::cases(64) })]

    #[test]
    fn times_recorded_in_parts_and_merged_in_any_order_are_those_recorded_at_once(
        all in prop::collection::vec(us(), 0..3_000),
        cuts in prop::collection::vec(0..3_000_usize, 0..4),
        from_behind in any::<bool>(),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(all.len())).chain([0, all.len()]).collect();
        cuts.sort_unstable();
        let mut recorder = Recorder::default();
        let mut parts: Vec<Times> = cuts.windows(2).map(|cut| {
            all[cut[0]..cut[1]].iter().for_each(|us| recorder.record(*us));
            recorder.take()
        }).collect();
        if from_behind {
            parts.reverse();
        }
        let mut merged = Times::default();
        for part in &parts {
            merged.merge(part);
        }
        let whole = Times::of(all.clone());
        prop_assert_eq!(&merged, &whole);
        prop_assert_eq!(merged.exact().is_some(), all.len() <= EXACT_TIMES);
        prop_assert_eq!(merged.count(), all.len() as u64);
        prop_assert_eq!(merged.sum_us(), all.iter().copied().map(u64::from).sum::<u64>());
        prop_assert!(recorder.take().is_empty());
    }

    #[test]
    fn the_buckets_are_those_of_the_judgement_to_the_last_bit(all in prop::collection::vec(us(), 0..3_000)) {
        let mut expected = Histogram::new(GAMMA).unwrap();
        for us in &all {
            expected.record(f64::from(*us) / 1_000.0).unwrap();
        }
        let times = Times::of(all.clone());
        prop_assert_eq!(times.to_histogram().unwrap(), expected.clone());
        let values = times.to_values().unwrap();
        prop_assert_eq!(values.to_histogram(), expected);
        prop_assert_eq!(values.count(), all.len() as u64);
        let sum_ms = all.iter().copied().map(f64::from).sum::<f64>() / 1_000.0;
        prop_assert!((values.sum_ms().unwrap() - sum_ms).abs() <= 1e-9 * sum_ms + 1e-6);
    }

    #[test]
    fn times_that_travelled_are_the_same(all in prop::collection::vec(us(), 0..3_000)) {
        let times = Times::of(all);
        let text = serde_json::to_string(&times).unwrap();
        prop_assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), times);
    }
}

#[test]
fn buckets_out_of_order_or_beyond_all_times_are_refused() {
    for buckets in ["[[5, 1], [4, 1]]", "[[5, 1], [5, 1]]", "[[5, 0]]", "[[-696, 1]]", "[[1536, 1]]"] {
        let text = format!(r#"{{"zeros": 0, "buckets": {buckets}, "sum_us": 1}}"#);
        assert!(serde_json::from_str::<Times>(&text).is_err(), "{text}");
    }
}
