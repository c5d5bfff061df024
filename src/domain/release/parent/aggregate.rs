//! One summary of what many children report of a stage.

use crate::release::{
    strata::{counted, one_form},
    summary::{Histogram, Reported, Summary, Times, Variation},
};
use analysis::{Assignment, Values};
use model::StageStatus;

/// One summary of many: the minimum of minima, the maximum of maxima, sums of calls and errors; medians and rates
/// weighted by calls, equally where not every child reports them, exact where every child reports them. Children
/// without a successful call count in no time.
pub fn aggregate(status: StageStatus, of: &[Summary]) -> Summary {
    let sum = |count: fn(&Summary) -> Option<u64>| -> Option<u64> {
        of.iter().map(count).try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))
    };
    let (f1_calls, f2_calls) = (sum(|s| s.f1_calls), sum(|s| s.f2_calls));
    let (f1_errors, f2_errors) = (sum(|s| s.f1_errors), sum(|s| s.f2_errors));
    let f1_values = values(of, |s| (s.f1_values.as_deref(), s.f1_histogram.as_deref(), s.f1_times_summary));
    let f2_values = values(of, |s| (s.f2_values.as_deref(), s.f2_histogram.as_deref(), s.f2_times_summary));
    let f1_histogram = merged(of, |s| s.f1_histogram.as_deref(), |s| s.f1_times_summary);
    let f2_histogram = merged(of, |s| s.f2_histogram.as_deref(), |s| s.f2_times_summary);
    let median = |values: &Option<Values>, histogram: &Option<Reported>| match (values, histogram) {
        (Some(values), _) => values.quantile(0.5),
        (None, histogram) => histogram.as_ref().and_then(|histogram| histogram.quantile(0.5)),
    };
    let (f1_median, f2_median) = (median(&f1_values, &f1_histogram), median(&f2_values, &f2_histogram));
    Summary {
        stage_name: None,
        says_next: None,
        status,
        agents: None,
        proxy_times: times(of, |s| s.proxy_times, |s| Some(s.f1_calls? + s.f2_calls?), None),
        f1_times_summary: times(of, |s| s.f1_times_summary, |s| s.f1_calls, f1_median),
        f2_times_summary: times(of, |s| s.f2_times_summary, |s| s.f2_calls, f2_median),
        f1_err_rate: rate(of, |s| (s.f1_err_rate, s.f1_times_summary), |s| s.f1_calls),
        f2_err_rate: rate(of, |s| (s.f2_err_rate, s.f2_times_summary), |s| s.f2_calls),
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram: f1_histogram.map(Box::new),
        f2_histogram: f2_histogram.map(Box::new),
        f1_values: f1_values.map(Box::new),
        f2_values: f2_values.map(Box::new),
        assignment: Assignment::default(),
        strata: Vec::new(),
        variations: variations(of),
        why: None,
        recount: None,
        failures: None,
        effects: None,
    }
}

/// What all children counted of each variation together, by its name, in the order in which the first child has them. Times are
/// those of all, or none: of a child that tells none of a variation it had calls of, nobody knows them.
fn variations(of: &[Summary]) -> Vec<Variation> {
    let mut sums: Vec<(Variation, Vec<Option<Reported>>)> = Vec::new();
    for one in of.iter().flat_map(|summary| &summary.variations) {
        let place = sums.iter().position(|(sum, _)| sum.name == one.name).unwrap_or_else(|| {
            sums.push((Variation { name: one.name.clone(), ..Variation::default() }, Vec::new()));
            sums.len() - 1
        });
        let (sum, times) = &mut sums[place];
        sum.calls = sum.calls.saturating_add(one.calls);
        sum.errors = sum.errors.saturating_add(one.errors);
        if one.calls > one.errors {
            times.push(one.histogram.as_deref().cloned());
        }
    }
    let with_times = |(sum, times): (Variation, Vec<Option<Reported>>)| Variation {
        histogram: sketches(&times).map(Reported::Sketch).map(Box::new),
        ..sum
    };
    sums.into_iter().map(with_times).collect()
}

/// All of them as one, if each is a sketch and they fit together.
fn sketches(times: &[Option<Reported>]) -> Option<analysis::Histogram> {
    let sketch = |reported: &Option<Reported>| match reported {
        Some(Reported::Sketch(sketch)) => Some(sketch.clone()),
        Some(Reported::Bounds(_)) | None => None,
    };
    let (first, others) = times.split_first()?;
    let mut sum = sketch(first)?;
    for other in others {
        sum.merge(&sketch(other)?).ok()?;
    }
    Some(sum)
}

/// The mean of values by their weights; by equal weights if one is not known. `None` if nothing has a weight.
fn mean(values: &[(f64, Option<u64>)]) -> Option<f64> {
    let equal = values.iter().any(|(_, weight)| weight.is_none());
    let weight = |weight: Option<u64>| if equal { 1.0 } else { weight.unwrap_or_default() as f64 };
    let total: f64 = values.iter().map(|(_, of)| weight(*of)).sum();
    let sum: f64 = values.iter().map(|(value, of)| value * weight(*of)).sum();
    (total > 0.0).then(|| sum / total)
}

fn rate(of: &[Summary], rate: fn(&Summary) -> (f64, Times), calls: fn(&Summary) -> Option<u64>) -> f64 {
    // No error and no successful call: there was none, and that says nothing.
    let said = of.iter().filter(|summary| {
        let (rate, times) = rate(summary);
        rate > 0.0 || times.minimum >= 0.0 || calls(summary).is_some()
    });
    let values: Vec<_> = said.map(|summary| (rate(summary).0, calls(summary))).collect();
    mean(&values).unwrap_or_default().clamp(0.0, 1.0)
}

/// What stands for no successful call.
const NO_CALL: Times = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };

fn times(
    of: &[Summary],
    times: fn(&Summary) -> Times,
    calls: fn(&Summary) -> Option<u64>,
    exact: Option<f64>,
) -> Times {
    let with_calls: Vec<(Times, Option<u64>)> = of
        .iter()
        .map(|summary| (times(summary), calls(summary)))
        .filter(|(times, _)| times.minimum >= 0.0)
        .collect();
    if with_calls.is_empty() {
        return NO_CALL;
    }
    let minimum = with_calls.iter().map(|(times, _)| times.minimum).fold(f64::INFINITY, f64::min);
    let maximum = with_calls.iter().map(|(times, _)| times.maximum).fold(minimum, f64::max);
    let medians: Vec<_> = with_calls.iter().map(|(times, calls)| (times.median, *calls)).collect();
    let median = exact.or_else(|| mean(&medians));
    Times { median: median.unwrap_or(minimum).clamp(minimum, maximum), minimum, maximum }
}

/// Times in both forms, and the least and the largest of them.
type Told<'s> = (Option<&'s Values>, Option<&'s Reported>, Times);

/// All times together, if every child reports them in one form or the other and any of them as values.
fn values(of: &[Summary], times: for<'s> fn(&'s Summary) -> Told<'s>) -> Option<Values> {
    let all: Vec<_> = of.iter().map(times).collect();
    all.iter().find_map(|(values, ..)| *values)?;
    let mut forms = all.into_iter().map(|(values, histogram, times)| match values {
        Some(values) => Some(values.clone()),
        None => counted(histogram?, times),
    });
    let mut sum = forms.next()??;
    for next in forms {
        sum.merge(&next?).ok()?;
    }
    Some(sum)
}

/// `None` unless every child reports one. All with the same bounds keep them, others are brought to one form.
fn merged(
    of: &[Summary],
    histogram: for<'s> fn(&'s Summary) -> Option<&'s Reported>,
    times: fn(&Summary) -> Times,
) -> Option<Reported> {
    let all = of.iter().map(histogram).collect::<Option<Vec<_>>>()?;
    if let Some(sum) = same_bounds(&all) {
        return Some(sum);
    }
    let mut forms = all.iter().zip(of).map(|(histogram, summary)| one_form(histogram, times(summary)));
    let mut sum = forms.next()??;
    for next in forms {
        sum.merge(&next?).ok()?;
    }
    Some(Reported::Sketch(sum))
}

fn same_bounds(all: &[&Reported]) -> Option<Reported> {
    let mut sum: Option<Histogram> = None;
    for next in all {
        let Reported::Bounds(next) = next else { return None };
        let Some(sum) = &mut sum else {
            sum = Some(next.clone());
            continue;
        };
        if next.bounds_ms != sum.bounds_ms || next.counts.len() != sum.counts.len() {
            return None;
        }
        for (count, more) in sum.counts.iter_mut().zip(&next.counts) {
            *count = count.saturating_add(*more);
        }
    }
    sum.map(Reported::Bounds)
}
