//! A release that came from this manager's own parent.
//!
//! It is led by the same gates as any other. What differs:
//!
//! - it is led with barriers over the whole subtree even where the parent says nothing of how, so that the outcome for the
//!   subtree is one;
//! - the barrier after a stage of type `WaitForSignal` opens when the parent ends that stage, never by itself; there is
//!   one also after the last stage of an offer that ends in a roll-back;
//! - when a stage is over for all, one summary of it goes up. That it has to is a [`Change`], stored in the commit that
//!   made it so; the numbers are read from the store when it is sent.
//!
//! An order to take a release back is a release like any other: a stage in which the new version is the base version.
//! What runs of the same functions from above is rolled back before it.
//!
//! Deliberately not here: the calls to the parent (`uplink`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    assignment::Slot,
    change::Change,
    gate::Gate,
    offer::Piece,
    state::{End, Release, ReleaseState},
    summary::{Histogram, Summary, Times},
};
use crate::{
    model::{Now, StageStatus},
    strategy::{Order, Rollout, StageKind, Strategy},
};

/// Where a release came from, and what was said of it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    /// The id of the parent's offer.
    pub offer: String,
    /// So many stages of the success path were reported; [`ALL_REPORTED`]: nothing more is to be said.
    #[serde(default)]
    pub reported: u8,
}

/// The reason of a pause that the parent asked for.
pub const HELD: &str = "the manager above paused it";

/// After a failure no later stage is reported.
const ALL_REPORTED: u8 = u8::MAX;

/// How a strategy from above is led: as it says, else with barriers over all.
pub fn led(strategy: Strategy) -> Strategy {
    let global = || Rollout { order: Order::GlobalIncremental, ..Rollout::default() };
    Strategy { rollout: Some(strategy.rollout.unwrap_or_else(global)), ..strategy }
}

/// The stage in which the parent believes this manager to be, where it waits for a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub offer: String,
    /// Index in the strategy.
    pub stage: u8,
    pub name: String,
    /// Every child still in it is ready to end it.
    pub is_ready: bool,
}

impl Release {
    /// Paused because the parent said so, and nobody here.
    pub fn is_held(&self) -> bool {
        matches!(&self.state, ReleaseState::Paused { reason, .. } if self.upstream.is_some() && reason == HELD)
    }

    /// The stage that only the parent can end.
    pub fn waits_above(&self) -> Option<Waiting> {
        let upstream = self.upstream.as_ref().filter(|_| self.is_running())?;
        let path = self.strategy.success_path();
        let stage = *path.get(usize::from(upstream.reported))?;
        let found = self.strategy.stages.get(stage)?;
        let barrier = self.gates.levels.after_stage(stage);
        if found.kind != StageKind::WaitForSignal || self.gates.stand.level > barrier {
            return None;
        }
        let reached = self.gates.stand.reached.map(|reached| reached.gate);
        Some(Waiting {
            offer: upstream.offer.clone(),
            stage: stage as u8,
            name: found.name.clone(),
            is_ready: reached == Some(Gate::Level(barrier)),
        })
    }

    /// Whether a gate opens only when the parent says so.
    pub(super) fn wants_signal(&self, gate: Gate) -> bool {
        let Gate::Level(level) = gate else { return false };
        self.waits_above()
            .is_some_and(|waiting| self.gates.levels.after_stage(usize::from(waiting.stage)) == level)
    }

    /// Where the results of a stage are: a strategy that is nothing but a roll-out is run as one.
    pub fn slot_of(&self, stage: usize) -> Slot {
        match super::assignment::first_piece(&self.strategy) {
            Piece::Rollout(function) => Slot::rollout(function),
            _ => Slot::stage(stage),
        }
    }
}

/// What has to be said to the parent now.
pub(super) fn due(release: &Release, now: Now) -> Vec<Change> {
    let Some(upstream) = &release.upstream else { return Vec::new() };
    let path = release.strategy.success_path();
    let left = path.iter().skip(usize::from(upstream.reported));
    let said = |(stage, status): (&usize, StageStatus)| Change::StageReported {
        release: release.key,
        stage: *stage as u8,
        status,
        now,
    };
    match release.state {
        // What failed was the stage that was not reported yet; the later ones never were.
        ReleaseState::Over { end: End::RolledBack | End::Aborted, .. } => {
            left.take(1).map(|stage| said((stage, StageStatus::Failure))).collect()
        }
        ReleaseState::Over { .. } => left.map(|stage| said((stage, StageStatus::Completed))).collect(),
        ReleaseState::Running if release.counts.trailing == 0 => {
            // The last stage is over when what follows it is.
            let before_last = path.len().saturating_sub(1).saturating_sub(usize::from(upstream.reported));
            let front = release.gates.front();
            left.take(before_last)
                .take_while(|stage| release.gates.levels.of_piece(Piece::Stage(**stage as u8)) < front)
                .map(|stage| said((stage, StageStatus::Completed)))
                .collect()
        }
        _ => Vec::new(),
    }
}

impl Upstream {
    /// Takes note that a stage was reported.
    pub(super) fn report(&mut self, status: StageStatus) {
        self.reported =
            if status == StageStatus::Completed { self.reported.saturating_add(1) } else { ALL_REPORTED };
    }
}

/// One summary of many: the minimum of minima, the maximum of maxima, sums of calls and errors; medians and rates
/// weighted by calls, equally where not every child reports them, exact where every child reports them. Children
/// without a successful call count in no time.
pub fn aggregate(status: StageStatus, of: &[Summary]) -> Summary {
    let sum = |count: fn(&Summary) -> Option<u64>| -> Option<u64> {
        of.iter().map(count).try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))
    };
    let (f1_calls, f2_calls) = (sum(|s| s.f1_calls), sum(|s| s.f2_calls));
    let (f1_errors, f2_errors) = (sum(|s| s.f1_errors), sum(|s| s.f2_errors));
    let f1_histogram = merged(of, |s| s.f1_histogram.as_deref());
    let f2_histogram = merged(of, |s| s.f2_histogram.as_deref());
    Summary {
        stage_name: None,
        status,
        proxy_times: times(of, |s| s.proxy_times, |s| Some(s.f1_calls? + s.f2_calls?), None),
        f1_times_summary: times(of, |s| s.f1_times_summary, |s| s.f1_calls, f1_histogram.as_ref()),
        f2_times_summary: times(of, |s| s.f2_times_summary, |s| s.f2_calls, f2_histogram.as_ref()),
        f1_err_rate: rate(of, |s| s.f1_err_rate, |s| s.f1_calls),
        f2_err_rate: rate(of, |s| s.f2_err_rate, |s| s.f2_calls),
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram: f1_histogram.map(Box::new),
        f2_histogram: f2_histogram.map(Box::new),
    }
}

/// The mean of values by their weights; by equal weights if one is not known. `None` if nothing has a weight.
fn mean(values: &[(f64, Option<u64>)]) -> Option<f64> {
    let equal = values.iter().any(|(_, weight)| weight.is_none());
    let weight = |weight: Option<u64>| if equal { 1.0 } else { weight.unwrap_or_default() as f64 };
    let total: f64 = values.iter().map(|(_, of)| weight(*of)).sum();
    let sum: f64 = values.iter().map(|(value, of)| value * weight(*of)).sum();
    (total > 0.0).then(|| sum / total)
}

fn rate(of: &[Summary], rate: fn(&Summary) -> f64, calls: fn(&Summary) -> Option<u64>) -> f64 {
    let values: Vec<_> = of.iter().map(|summary| (rate(summary), calls(summary))).collect();
    mean(&values).unwrap_or_default().clamp(0.0, 1.0)
}

/// What stands for no successful call.
const NO_CALL: Times = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };

fn times(
    of: &[Summary],
    times: fn(&Summary) -> Times,
    calls: fn(&Summary) -> Option<u64>,
    exact: Option<&Histogram>,
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
    let median = exact.and_then(|histogram| histogram.quantile(0.5)).or_else(|| mean(&medians));
    Times { median: median.unwrap_or(minimum).clamp(minimum, maximum), minimum, maximum }
}

/// `None` unless every child reports one, all with the same bounds.
fn merged(of: &[Summary], histogram: for<'s> fn(&'s Summary) -> Option<&'s Histogram>) -> Option<Histogram> {
    let mut all = of.iter().map(histogram);
    let mut sum: Cow<'_, Histogram> = Cow::Borrowed(all.next()??);
    for next in all {
        let next =
            next.filter(|next| next.bounds_ms == sum.bounds_ms && next.counts.len() == sum.counts.len())?;
        for (count, more) in sum.to_mut().counts.iter_mut().zip(&next.counts) {
            *count = count.saturating_add(*more);
        }
    }
    Some(sum.into_owned())
}
