//! A release that came from this manager's own parent.
//!
//! It is led by the same gates as any other. What differs:
//!
//! - where the parent says nothing of how, it is led with barriers over the whole subtree, so that the outcome for the
//!   subtree is one;
//! - after a stage of type `WaitForSignal` there is a barrier, also after the last stage of an offer that ends in a roll-back;
//!   it opens when the parent ends that stage, never by itself;
//! - waves open when the parent says so: with an offer that continues the one before;
//! - when a stage is over for all whose wave has begun, one summary of it goes up. That it has to is a [`Change`], stored in
//!   the commit that made it so; the numbers are read from the store when it is sent, but for those of the agents, which
//!   are of that very moment.
//!
//! An order to take a release back is none of its own: the release is rolled back, also one that was over, and then the
//! parent hears of it, under the id of that order.
//!
//! Deliberately not here: the calls to the parent (`parent`).

mod apply;
mod change;
mod command;
mod decide;
pub mod offered;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;

use serde::{Deserialize, Serialize};

use super::{
    change::Change as StateChange,
    gate::Gate,
    manager::Agents,
    pause::PausedBy,
    state::{End, Release, ReleaseState, State},
    strata::{counted, one_form},
    summary::{Histogram, Reported, Summary, Times},
};
use ::analysis::{Assignment, Values};
use language::{Action, Order, Rollout, StageKind, Strategy};
use model::{Now, StageStatus};

/// Where a release came from, and what was said of it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentOffer {
    /// The id of the parent's offer.
    pub offer: String,
    /// So many stages of the success path were reported; [`ALL_REPORTED`]: nothing more is to be said.
    #[serde(default)]
    pub reported: u8,
    /// Orders of the parent to take it back, which are to be answered when that is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undos: Vec<String>,
    /// The parent's own release is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// What it was told last, under this offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Said>,
}

/// The last stage that was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub stage: u8,
    pub status: StageStatus,
    pub agents: Agents,
    /// How often that was said anew of the agents.
    #[serde(default)]
    pub recounts: u32,
}

/// After a failure no later stage is reported.
const ALL_REPORTED: u8 = u8::MAX;

/// How a strategy from above is led: as it says, else with barriers over all.
pub fn led(strategy: Strategy) -> Strategy {
    let global = || Rollout { order: Order::GlobalIncremental, ..Rollout::default() };
    Strategy { rollout: Some(strategy.rollout.unwrap_or_else(global)), ..strategy }
}

/// The stage in which the parent believes this manager to be. It is asked whether that may end; where the stage needs no
/// signal, it is asked all the same, for so it is heard that the parent takes the release back.
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
    /// Paused because the parent said so, and nobody here. A release without a parent is nobody else's to resume, also where
    /// an earlier build stored those words of it.
    pub fn is_held(&self) -> bool {
        let by_parent = self.state.pause().is_some_and(|pause| matches!(pause.by, PausedBy::Parent { .. }));
        by_parent && self.parent.is_some()
    }

    /// Whether the parent's own release is paused, whatever is paused here.
    pub fn is_held_by_parent(&self) -> bool {
        self.parent.as_ref().is_some_and(|parent| parent.held) || self.is_held()
    }

    /// The stage of which the parent is asked.
    pub fn waits_for_parent(&self) -> Option<Waiting> {
        let parent = self.parent.as_ref().filter(|_| self.may_end_well())?;
        let path = self.strategy.success_path();
        let stage = *path.get(usize::from(parent.reported))?;
        let name = self.strategy.stages.get(stage)?.name.clone();
        let reached = self.gates.stand.reached.filter(|_| self.is_running()).map(|reached| reached.gate);
        let barrier = self.barrier_of_parent(stage);
        let is_ready = barrier.is_some_and(|barrier| reached == Some(Gate::Level(barrier)));
        Some(Waiting { offer: parent.offer.clone(), stage: stage as u8, name, is_ready })
    }

    /// The stage that follows the success of a stage.
    pub fn stage_after(&self, stage: u8) -> Option<&str> {
        match self.strategy.next(usize::from(stage), true) {
            Action::Stage(next) => Some(self.strategy.stages.get(next)?.name.as_str()),
            Action::Rollout | Action::Rollback => None,
        }
    }

    /// Whether it is not over, and not taken back.
    pub fn may_end_well(&self) -> bool {
        self.is_under_way() || self.state == ReleaseState::Planned
    }

    /// The barrier after a stage, if it is closed and only the parent opens it.
    pub(super) fn barrier_of_parent(&self, stage: usize) -> Option<u8> {
        let waits = self.strategy.stages.get(stage)?.kind == StageKind::WaitForSignal;
        let barrier = self.gates.levels.after_stage(stage);
        (waits && self.parent.is_some() && self.gates.stand.level <= barrier).then_some(barrier)
    }

    /// Whether a gate opens only when the parent says so.
    pub(super) fn wants_signal(&self, gate: Gate) -> bool {
        match gate {
            Gate::Wave(_) => self.keeps_waves_of_parent(),
            Gate::Level(level) => self.unreported().any(|stage| self.barrier_of_parent(stage) == Some(level)),
        }
    }

    /// The stages of the success path that the parent has not heard the end of. Of several, the last may have been reached
    /// by everybody before it is said that the first is over.
    fn unreported(&self) -> impl Iterator<Item = usize> {
        let parent = self.parent.as_ref().filter(|_| self.may_end_well());
        let reported = parent.map_or(usize::MAX, |parent| usize::from(parent.reported));
        self.strategy.success_path().into_iter().skip(reported)
    }

    /// The first closed barrier from this level on that only the parent opens.
    pub(super) fn signalled_from(&self, level: u8) -> u8 {
        self.gates.levels.signalled_from(level)
    }

    pub(super) fn keeps_waves_of_parent(&self) -> bool {
        let said = self.strategy.from_parent.as_ref().and_then(|said| said.waves);
        self.parent.is_some() && said.is_some()
    }

    /// Everybody whose wave has begun is done, and the parent opens the next.
    fn is_between_waves(&self) -> bool {
        self.keeps_waves_of_parent() && self.counts.awaited_now == 0 && !self.rolls_out_untested()
    }
}

/// What has to be said to the parent now.
pub(super) fn due(release: &Release, now: Now) -> Vec<StateChange> {
    let Some(parent) = &release.parent else { return Vec::new() };
    let path = release.strategy.success_path();
    if release.state.is_over() && usize::from(parent.reported) >= path.len() {
        // All is said. Later some prove the way back, or were tried again.
        let stands_otherwise = parent.said.is_some_and(|said| said.agents != release.agents());
        return stands_otherwise
            .then_some(StateChange::Parent(Change::Recounted { release: release.key }))
            .into_iter()
            .collect();
    }
    let left = path.iter().skip(usize::from(parent.reported));
    let said = |(stage, status): (&usize, StageStatus)| {
        StateChange::Parent(Change::StageReported { release: release.key, stage: *stage as u8, status, now })
    };
    match release.state {
        // What failed was the stage that was not reported yet; the later ones never were.
        ReleaseState::Over { end: End::RolledBack | End::Aborted, .. } => {
            left.take(1).map(|stage| said((stage, StageStatus::Failure))).collect()
        }
        ReleaseState::Over { .. } => left.map(|stage| said((stage, StageStatus::Completed))).collect(),
        ReleaseState::Running if release.is_between_waves() => {
            left.map(|stage| said((stage, StageStatus::Completed))).collect()
        }
        ReleaseState::Running if release.counts.trailing == 0 => {
            // The last stage is over when what follows it is.
            let before_last = path.len().saturating_sub(1).saturating_sub(usize::from(parent.reported));
            let front = release.gates.front();
            left.take(before_last)
                .take_while(|stage| release.gates.levels.of_stage(**stage) < front)
                .map(|stage| said((stage, StageStatus::Completed)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The orders to take a release back that can be answered now: no other release is still being taken back by the same.
pub(super) fn undone(state: &State, release: &Release) -> Vec<StateChange> {
    let ReleaseState::Over { end: End::RolledBack | End::Aborted, .. } = release.state else {
        return Vec::new();
    };
    let awaited = release.parent.iter().flat_map(|parent| &parent.undos);
    let others = |offer: &String| {
        let is_same = |other: &&Release| {
            let undos = other.parent.as_ref().map(|parent| parent.undos.as_slice()).unwrap_or_default();
            other.key != release.key && undos.contains(offer)
        };
        !state.releases.values().filter(is_same).any(|other| !other.state.is_over())
    };
    let key = release.key;
    let unconfirmed = release.counts.agents.unconfirmed;
    awaited
        .filter(|offer| others(offer))
        .map(|offer| {
            StateChange::Parent(Change::UndoReported { release: key, offer: offer.clone(), unconfirmed })
        })
        .collect()
}

impl ParentOffer {
    pub fn new(offer: String) -> Self {
        Self { offer, reported: 0, undos: Vec::new(), held: false, said: None }
    }

    /// Takes note that a stage was reported.
    fn report(&mut self, stage: u8, status: StageStatus, agents: Agents) {
        self.said = Some(Said { stage, status, agents, recounts: 0 });
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
        why: None,
        recount: None,
        effects: None,
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
