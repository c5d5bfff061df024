//! Functions and stages of one strategy, by index, each set in one word.

use crate::release::offer::Unit;
use language::Strategy;

/// A set of functions of one strategy, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FunctionSet(pub u64);

impl FunctionSet {
    pub const EMPTY: Self = Self(0);

    pub const fn of(function: usize) -> Self {
        Self(1 << function)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, function: usize) -> Self {
        Self(self.0 | 1 << function)
    }

    #[must_use]
    pub const fn without(self, function: usize) -> Self {
        Self(self.0 & !(1 << function))
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn contains(self, function: usize) -> bool {
        self.0 & (1 << function) != 0
    }

    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |function| self.contains(*function))
    }
}

/// A set of stages of one strategy, by index; there are at most [`language::MAX_STAGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageSet(pub u64);

impl StageSet {
    pub const EMPTY: Self = Self(0);

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, stage: u8) -> Self {
        Self(self.0 | 1 << stage)
    }

    pub const fn contains(self, stage: u8) -> bool {
        self.0 & (1 << stage) != 0
    }
}

/// Numbers the stages of the strategy, and after them the roll-outs, in one small space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u8);

/// The slots from here on are roll-outs of functions.
const FIRST_ROLLOUT_SLOT: u8 = 64;

impl StepIndex {
    pub const fn stage(index: usize) -> Self {
        Self(index as u8)
    }

    pub const fn rollout(function: u8) -> Self {
        Self(FIRST_ROLLOUT_SLOT + function)
    }

    /// The index of the stage in the strategy; `None` for a roll-out.
    pub const fn stage_index(self) -> Option<usize> {
        if self.0 < FIRST_ROLLOUT_SLOT { Some(self.0 as usize) } else { None }
    }

    /// The index of the subject that is rolled out; `None` for a stage.
    pub const fn rollout_index(self) -> Option<usize> {
        if self.0 < FIRST_ROLLOUT_SLOT { None } else { Some((self.0 - FIRST_ROLLOUT_SLOT) as usize) }
    }

    /// The index of the function that the stage tests or the roll-out changes.
    pub fn function(self, strategy: &Strategy) -> usize {
        match self.stage_index() {
            Some(stage) => strategy.stages.get(stage).map_or(0, |stage| stage.subject),
            None => usize::from(self.0 - FIRST_ROLLOUT_SLOT),
        }
    }
}

impl Unit {
    /// What every agent is offered first.
    pub const FIRST: Self = Self::Stage(0);

    /// Where it begins.
    pub const fn slot(self) -> StepIndex {
        match self {
            Self::Whole => StepIndex::stage(0),
            Self::Stage(stage) => StepIndex(stage),
            Self::Rollout(function) => StepIndex::rollout(function),
        }
    }
}
