//! Times that merge exactly: whichever way they come together, and whatever somebody sends.

use analysis::{
    Clock, Rounding, Values,
    values::{MAX_CALLS, MAX_DISTINCT},
};
use proptest::prelude::*;

fn parts() -> impl Strategy<Value = Vec<Vec<f64>>> {
    let value = prop_oneof![
        4 => (0_u32..900).prop_map(|ms| f64::from(ms) / 3.0),
        1 => 0.001..100_000.0_f64,
        1 => Just(0.0)
    ];
    proptest::collection::vec(proptest::collection::vec(value, 0..400), 1..6)
}

fn of(values: &[f64]) -> Values {
    Values::of(values.iter().copied(), Clock::CONTINUOUS).unwrap()
}

fn merged<'a>(parts: impl IntoIterator<Item = &'a Values>) -> Values {
    let mut all = of(&[]);
    parts.into_iter().for_each(|part| all.merge(part).unwrap());
    all
}

fn written_and_read(values: &Values) -> Values {
    serde_json::from_str(&serde_json::to_string(values).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn neither_order_nor_how_the_parts_were_cut_matters(parts in parts()) {
        let whole = of(&parts.concat());
        let mut parts: Vec<Values> = parts.iter().map(|part| written_and_read(&of(part))).collect();
        prop_assert_eq!(&merged(&parts), &whole);
        let (some, others) = parts.split_at(parts.len() / 2);
        prop_assert_eq!(&merged([&merged(others), &merged(some)]), &whole);
        parts.reverse();
        prop_assert_eq!(&merged(&parts), &whole);
        prop_assert_eq!(&written_and_read(&whole), &whole);
    }

    #[test]
    fn they_are_exact_if_and_only_if_few_are_different(parts in parts()) {
        let mut all = parts.concat();
        let whole = of(&all);
        let sum: f64 = all.iter().sum();
        all.sort_by(f64::total_cmp);
        all.dedup();
        prop_assert_eq!(whole.exact().is_some(), all.len() <= MAX_DISTINCT);
        prop_assert!((whole.sum_ms().unwrap() - sum).abs() <= 1e-6 * (1.0 + sum));
    }

    #[test]
    fn what_came_since_is_what_was_added(before in parts(), more in parts()) {
        let (before, more) = (of(&before.concat()), of(&more.concat()));
        let now = merged([&before, &more]);
        let since = now.since(&before).unwrap();
        prop_assert_eq!(since.count(), more.count());
        prop_assert_eq!(since.to_histogram(), more.to_histogram());
        prop_assert!((since.sum_ms().unwrap() - more.sum_ms().unwrap()).abs() < 1e-3);
        prop_assert_eq!(merged([&before, &since]), now.clone());
        // Nothing is less than nothing.
        let is_none = before.since(&now).is_none();
        prop_assert_eq!(is_none, !more.is_empty());
    }

    #[test]
    fn nothing_that_is_sent_is_taken_for_more_than_it_is(text in "\\PC{0,80}", count in any::<u64>(), ms in any::<f64>()) {
        drop(serde_json::from_str::<Values>(&text));
        let sent = serde_json::json!({"exact": [[ms, count], [15, 2]], "step": ms});
        if let Ok(values) = serde_json::from_value::<Values>(sent) {
            prop_assert!(values.count() <= MAX_CALLS);
        }
    }
}

#[test]
fn the_coarser_clock_counts_and_one_that_is_not_known_is_coarser_than_all() {
    let nearest = |step| Clock::stepped(step, Rounding::Nearest);
    let down = Clock::stepped(1.0, Rounding::Down);
    for (a, b, both) in [
        (nearest(1.0), Clock::CONTINUOUS, nearest(1.0)),
        (nearest(1.0), nearest(0.001), nearest(1.0)),
        (nearest(1.0), down, Clock { step: Some(1.0), rounding: None }),
        (nearest(10.0), down, nearest(10.0)),
        (nearest(1.0), Clock::UNKNOWN, Clock::UNKNOWN),
    ] {
        assert_eq!((a.coarser(b), b.coarser(a)), (both, both));
    }
    // Who measured nothing changes nothing.
    let mut some = Values::of([3.0], Clock::CONTINUOUS).unwrap();
    some.merge(&Values::new(down).unwrap()).unwrap();
    assert_eq!(some.clock(), Clock::CONTINUOUS);
}

#[test]
fn values_are_written_as_others_can_write_them() {
    let values = Values::of([15.0, 16.5, 15.0, 0.0], Clock::stepped(0.5, Rounding::Nearest)).unwrap();
    insta::assert_snapshot!(serde_json::to_string(&values).unwrap(),
        @r#"{"exact":[[0.0,1],[15.0,2],[16.5,1]],"step":0.5,"rounding":"nearest"}"#);
    let plain: Values =
        serde_json::from_str(r#"{"exact": [[15, 2], [3, 0], [15, 1]], "of the future": 1}"#).unwrap();
    assert_eq!((plain.exact(), plain.clock()), (Some(&[(15.0, 3)][..]), Clock::UNKNOWN));
    assert_eq!((plain.mean_ms(), plain.quantile(0.95)), (Some(15.0), Some(15.0)));
}

#[test]
fn invalid_reported_values_are_refused_with_reason() {
    let many: Vec<(f64, u64)> = (1..=513).map(|ms| (f64::from(ms), 1)).collect();
    let sketch = |gamma: f64, bins: &str| {
        format!(
            r#"{{"sketch": {{"mapping": {{"gamma": {gamma}}}, "positiveValues": {{"binCounts": {bins}}}}}, "sum_ns": 1}}"#
        )
    };
    for (sent, words) in [
        (r#"{"exact": [[-1, 1]]}"#.to_owned(), "-1 ms is no time"),
        (r#"{"exact": [[1e-9, 1]]}"#.to_owned(), "is no time"),
        (r#"{"exact": [[1e300, 1]]}"#.to_owned(), "is no time"),
        (r#"{"exact": [[1, -1]]}"#.to_owned(), "expected u64"),
        (r#"{"exact": [[1, 281474976710656], [2, 1]]}"#.to_owned(), "2^48"),
        (r#"{"exact": [[1, 18446744073709551615]]}"#.to_owned(), "2^48"),
        (serde_json::json!({ "exact": many }).to_string(), "more than 512"),
        (r#"{"exact": [[1, 1]], "step": -1}"#.to_owned(), "the step -1"),
        (r#"{"exact": [[1, 1]], "step": 1e9}"#.to_owned(), "the step"),
        (r#"{"exact": [[1, 1]], "rounding": "up"}"#.to_owned(), "unknown variant `up`"),
        ("{}".to_owned(), "either as `exact` or as `sketch`"),
        (sketch(1.02, r#"{"300": 5}"#), "base 1.01"),
        (sketch(1.01, r#"{"9000": 5}"#), "is no time"),
        (sketch(1.01, r#"{"300": 5}"#), "the sum"),
    ] {
        let fault = serde_json::from_str::<Values>(&sent).unwrap_err().to_string();
        assert!(fault.contains(words), "{sent}: {fault}");
    }
}
