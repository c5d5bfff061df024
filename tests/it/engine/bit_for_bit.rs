//! What was measured comes back from its rows as it was, whatever numbers it holds.

use analysis::{Assignment, Clock, Histogram, Sample, Stratum as Judged, Values};
use domain::release::{
    analysis::{Metered, Run},
    manager::Agents,
    summary::{Histogram as Bounds, Reported, Stratum, Summary, Times},
};
use engine::json_columns;
use proptest::{collection, option, prelude::*};

use super::json_columns::{RUN, analysis_run, report};
use crate::store::rows::summary;

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |value| value.is_finite())
}

fn floats(max: usize) -> impl Strategy<Value = Vec<f64>> {
    collection::vec(finite(), 0..max)
}

prop_compose! {
    fn any_times()(median in finite(), minimum in finite(), maximum in finite()) -> Times {
        Times { median, minimum, maximum }
    }
}

/// Response times that were told exactly.
fn any_values() -> impl Strategy<Value = Box<Values>> {
    let clock = prop_oneof![Just(Clock::UNKNOWN), Just(Clock::CONTINUOUS)];
    let values = collection::vec(0.0..1e6_f64, 0..20);
    (values, clock).prop_map(|(values, clock)| Box::new(Values::of(values, clock).unwrap()))
}

fn any_histogram() -> impl Strategy<Value = Box<Reported>> {
    let bounds = (floats(8), collection::vec(any::<u64>(), 0..9))
        .prop_map(|(bounds_ms, counts)| Reported::Bounds(Bounds { bounds_ms, counts }));
    let sketch = collection::vec(0.01..1e4_f64, 0..20).prop_map(|values| {
        let mut sketch = Histogram::new(1.02).unwrap();
        for value in values {
            sketch.record(value).unwrap();
        }
        Reported::Sketch(sketch)
    });
    prop_oneof![bounds, sketch].prop_map(Box::new)
}

prop_compose! {
    fn any_stratum()(split in option::of(any::<u8>()), interval in any::<u32>(), group in option::of(any::<u8>()),
        class in option::of(any::<u8>()), assignment in option::of(Just(Assignment::User)),
        numbers in any::<[Option<u64>; 4]>(), f1_histogram in option::of(any_histogram()),
        f2_histogram in option::of(any_histogram()), f1_values in option::of(any_values()),
        f2_values in option::of(any_values())) -> Stratum {
        let [f1_calls, f2_calls, f1_errors, f2_errors] = numbers;
        Stratum { split, interval, assignment, group, class, f1_calls, f2_calls, f1_errors, f2_errors,
            f1_histogram, f2_histogram, f1_values, f2_values }
    }
}

prop_compose! {
    /// Each field of it is made up; the rest is as [`summary`] has it.
    fn any_summary()(proxy_times in any_times(), f1_times_summary in any_times(), f2_times_summary in any_times(),
        rates in (finite(), finite()), whole in any_stratum(), strata in collection::vec(any_stratum(), 0..3),
        agents in option::of(any::<u32>()), recount in option::of(any::<u32>())) -> Summary {
        let plain = json_columns::summary(&report(summary(&[1.0; 11], None, None))).unwrap();
        let agents = agents.map(|participants| Agents { participants, ..Agents::default() });
        Summary { proxy_times, f1_times_summary, f2_times_summary, f1_err_rate: rates.0, f2_err_rate: rates.1,
            f1_calls: whole.f1_calls, f2_calls: whole.f2_calls, f1_errors: whole.f1_errors,
            f2_errors: whole.f2_errors, f1_histogram: whole.f1_histogram, f2_histogram: whole.f2_histogram,
            f1_values: whole.f1_values, f2_values: whole.f2_values,
            assignment: whole.assignment.unwrap_or_default(), strata, agents, recount, ..plain }
    }
}

/// Every float of a summary that is a field of its own or a bound, by its bits.
fn bits(summary: &Summary) -> Vec<u64> {
    let times = [summary.proxy_times, summary.f1_times_summary, summary.f2_times_summary];
    let times = times.into_iter().flat_map(|of| [of.median, of.minimum, of.maximum]);
    let whole = [&summary.f1_histogram, &summary.f2_histogram];
    let apart = summary.strata.iter().flat_map(|of| [&of.f1_histogram, &of.f2_histogram]);
    let bounds = whole.into_iter().chain(apart).flatten().filter_map(|of| match &**of {
        Reported::Bounds(bounds) => Some(bounds.bounds_ms.clone()),
        Reported::Sketch(_) => None,
    });
    let all = times.chain([summary.f1_err_rate, summary.f2_err_rate]).chain(bounds.flatten());
    all.map(f64::to_bits).collect()
}

proptest! {
    #[test]
    fn a_report_comes_back_from_its_row_bit_for_bit(summary in any_summary()) {
        let kept = json_columns::received(summary.clone()).unwrap();
        let back = json_columns::summary(&report(kept.text.clone())).unwrap();
        prop_assert_eq!(bits(&back), bits(&summary));
        prop_assert_eq!(&back, &summary);
        // So that a repeat of it is known after a restart.
        prop_assert_eq!(json_columns::received(back).unwrap(), kept);
    }

    #[test]
    fn the_room_that_a_stratum_takes_is_that_of_its_text(stratum in any_stratum()) {
        let plain = json_columns::summary(&report(summary(&[1.0; 11], None, None))).unwrap();
        let bare = json_columns::received(plain.clone()).unwrap().text.len();
        let one = json_columns::received(Summary { strata: vec![stratum.clone()], ..plain }).unwrap().text.len();
        prop_assert_eq!(one - bare, json_columns::stratum_bytes(&stratum) + r#","strata":[]"#.len());
    }

    #[test]
    fn a_run_comes_back_from_its_row_bit_for_bit(base in floats(50), new in floats(50)) {
        let samples = [base, new].map(Sample::Values);
        let [baseline, canary] = samples.clone();
        let strata = vec![Judged::new("Canary", 0, baseline, canary)];
        let plain = json_columns::run(&analysis_run(RUN)).unwrap();
        let run = Run { metrics: vec![Metered { strata, ..Metered::default() }], ..plain };
        let text = json_columns::run_text(&run).unwrap();
        let back = json_columns::run(&analysis_run(&text)).unwrap();
        let found = [&back.metrics[0].strata[0].baseline, &back.metrics[0].strata[0].canary];
        for (found, sample) in found.into_iter().zip(&samples) {
            let (Sample::Values(found), Sample::Values(sample)) = (found, sample) else { panic!("{found:?}") };
            prop_assert!(found.iter().map(|value| value.to_bits()).eq(sample.iter().map(|value| value.to_bits())));
        }
        prop_assert_eq!(json_columns::run_text(&back).unwrap(), text);
        prop_assert_eq!(back, run);
    }
}
