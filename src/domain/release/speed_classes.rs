//! In which class of speed each child is: by what it measured in the last release of the function that ended well before
//! this one began.
//!
//! Invariant: a class follows from what was stored before the release began, so it is the same at every look, on every
//! level and after a restart, and nothing that comes out of the release changes it.
//!
//! Deliberately not here: what a class is ([`analysis::speed_classes`]), and how the earlier release is read (`engine`).

use super::{state::Release, strata::Strata, summary::Summary};
use analysis::{Values, speed_classes::class_of};
use model::ChildKey;

/// A child whose clock has fewer steps to its median has no class: of children that are alike a coarse clock tells less than
/// of many that differ.
const LEAST_STEPS: f64 = 16.0;

/// A child whose times came in buckets of a larger ratio has no class.
const MAX_WIDTH: f64 = 1.02;

/// By what the history of a release's children is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Begun {
    /// Its function.
    pub function: String,
    /// When the release began, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Release {
    /// By what the history of the children in a stage is found; `None`: it hasn't begun.
    pub fn begun(&self, stage: usize) -> Option<Begun> {
        let function = self.strategy.subject_key(self.strategy.stages.get(stage)?.subject)?;
        Some(Begun { function: self.strategy.history_key(function), at_ms: self.started?.wall_ms })
    }
}

/// Children with their classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes(Vec<(ChildKey, u8)>);

impl Classes {
    /// Takes in what a child reported of a stage that gave the new version `split` percent of the calls. Children come in the
    /// order of their keys, and what counts of a child is the last report that tells its speed.
    pub fn note(&mut self, child: ChildKey, summary: &Summary, split: u8) {
        let Some(class) = speed(summary, split).and_then(class_of) else { return };
        match self.0.last_mut() {
            Some((last, of)) if *last == child => *of = class,
            _ => self.0.push((child, class)),
        }
    }

    pub fn of(&self, child: ChildKey) -> Option<u8> {
        let at = self.0.binary_search_by_key(&child, |(of, _)| *of).ok()?;
        Some(self.0[at].1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The median of the base version's times in milliseconds, or of the new one's where that had no calls. `None`: of a manager, or
/// where times are known too coarsely.
fn speed(summary: &Summary, split: u8) -> Option<f64> {
    if summary.agents.is_some() {
        return None;
    }
    let times = Strata::of([summary], split).total().times?;
    let median = |values: &Values| {
        let median = values.quantile(0.5)?;
        let is_fine = values.width().is_none_or(|width| width <= MAX_WIDTH)
            && values.clock().step.is_some_and(|step| step * LEAST_STEPS <= median);
        is_fine.then_some(median)
    };
    times.iter().find(|side| !side.is_empty()).and_then(median)
}
