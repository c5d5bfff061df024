//! `rollout`: in which order the manager leads a release through its children, and when it stops.

mod read;

use std::time::Duration;

use model::name_variants;
use serde::{Deserialize, Serialize};

pub(super) use self::read::{RolloutDraft, read, resolve};
use super::{
    amount::{Amount, Round},
    analysis::Analysis,
};

/// Who has nothing in hand and was not heard of for so long is silent, unless the strategy says otherwise.
pub const SILENT_AFTER: Duration = Duration::from_mins(1);

/// The manager is in charge: one stage an offer, limits over the whole fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    pub order: Order,
    pub max_failed: Amount,
    pub max_timed_out: Amount,
    pub max_unreachable: Amount,
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub max_untested: Amount,
    #[serde(default, skip_serializing_if = "is_usual")]
    pub no_calls: NoCalls,
    #[serde(default, skip_serializing_if = "is_left")]
    pub untested: Untested,
    /// What follows when a limit is passed.
    pub on_failure: OnLimit,
    /// So many agents must have succeeded before the next wave opens; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_succeeded: Option<Amount>,
    /// Who has nothing in hand and was not heard of for so long has its turn last; `None`: [`SILENT_AFTER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_after: Option<Duration>,
    /// Most agents that have an offer in hand at once; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_progress: Option<u32>,
    /// After a wave, a stage or a location, before the next.
    pub soak: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub late_joiners: LateJoiners,
    /// Whether whoever acts on the release says why.
    #[serde(default, skip_serializing_if = "Notes::is_optional")]
    pub notes: Notes,
    /// It starts then, in milliseconds since 1970; `None`: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<i64>,
    /// By what the whole release is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

impl Rollout {
    /// For some of the stages, whose indices these are, as a strategy of their own.
    pub(super) fn of_stages(self, kept: &[usize]) -> Self {
        let approval = self.approval.and_then(|approval| {
            let ApprovalOf::Stages(stages) = &approval.of else { return Some(approval) };
            let place = |stage: &usize| kept.iter().position(|kept| kept == stage);
            let stages: Vec<usize> = stages.iter().filter_map(place).collect();
            (!stages.is_empty()).then_some(Approval { of: ApprovalOf::Stages(stages), ..approval })
        });
        Self { approval, ..self }
    }

    pub fn silent_after_ms(&self) -> u64 {
        self.silent_after.unwrap_or(SILENT_AFTER).as_millis() as u64
    }

    /// Whether, although each goes at its own pace, the roll-out begins nowhere before enough have passed their tests. Who
    /// gets there has passed its own, so one alone need not be waited for.
    pub fn withholds_rollout(&self) -> bool {
        let is_more = self.min_succeeded.is_some_and(|amount| amount != Amount::Count(1));
        self.order.is_free() && is_more
    }

    /// How many of `planned` agents must have succeeded where `opened` have had their turn; never none.
    pub fn must_succeed(&self, planned: u32, opened: u32) -> u32 {
        let wanted = self.min_succeeded.map_or(1, |amount| amount.of(planned, Round::Up));
        wanted.min(opened).max(1)
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            order: Order::Parallel,
            max_failed: Amount::Count(0),
            max_timed_out: Amount::Count(0),
            max_unreachable: Amount::WHOLE,
            max_untested: Amount::WHOLE,
            no_calls: NoCalls::default(),
            untested: Untested::default(),
            on_failure: OnLimit::Rollback,
            min_succeeded: None,
            silent_after: None,
            max_in_progress: None,
            soak: Duration::ZERO,
            approval: None,
            late_joiners: LateJoiners::Exclude,
            notes: Notes::Optional,
            start_ms: None,
            analysis: None,
        }
    }
}

const fn whole() -> Amount {
    Amount::WHOLE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_whole(limit: &Amount) -> bool {
    *limit == Amount::WHOLE
}

fn is_usual(no_calls: &NoCalls) -> bool {
    *no_calls == NoCalls::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_left(untested: &Untested) -> bool {
    *untested == Untested::default()
}

/// How long a stage may go without the calls it needs, unless the strategy says otherwise.
pub const NO_CALLS: Duration = Duration::from_hours(1);

/// When a stage is ended that does not get the calls it needs. Until then one that ended without any call of the new
/// version is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoCalls {
    /// Counted from when its minimum duration is over.
    After(Duration),
    /// It has as much time as any stage.
    Never,
}

impl Default for NoCalls {
    fn default() -> Self {
        Self::After(NO_CALLS)
    }
}

/// What agents get that were left untested, when the others have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untested {
    /// The base version stays.
    #[default]
    Leave,
    Rollout,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Every child at once, each through all stages at its own pace.
    Parallel,
    /// One location through all its stages, then the next; nearest to `start_at` (longitude, latitude) first.
    LocationSequential { start_at: [f64; 2] },
    /// Stage k+1 starts nowhere before stage k has passed everywhere.
    GlobalIncremental,
    /// Growing groups; cumulative, the last is 100 %.
    Waves(Vec<Amount>),
}

/// An order by its word alone, without what belongs to it. `OrderForm` in the module `schema` documents each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderWord {
    Parallel,
    LocationSequential,
    GlobalIncremental,
    Waves,
}

name_variants!(OrderWord {
    Parallel => "parallel",
    LocationSequential => "location_sequential",
    GlobalIncremental => "global_incremental",
    Waves => "waves",
});

impl OrderWord {
    /// Whether each child goes through all stages at its own pace as soon as it can.
    pub const fn is_free(self) -> bool {
        match self {
            Self::Parallel => true,
            Self::LocationSequential | Self::GlobalIncremental | Self::Waves => false,
        }
    }

    /// Whether groups begin one after the other, of which a manager below may be in several.
    pub const fn is_in_waves(self) -> bool {
        match self {
            Self::Waves => true,
            Self::Parallel | Self::LocationSequential | Self::GlobalIncremental => false,
        }
    }
}

impl Order {
    /// The word by which it is written.
    pub const fn word(&self) -> OrderWord {
        match self {
            Self::Parallel => OrderWord::Parallel,
            Self::LocationSequential { .. } => OrderWord::LocationSequential,
            Self::GlobalIncremental => OrderWord::GlobalIncremental,
            Self::Waves(_) => OrderWord::Waves,
        }
    }

    /// Whether each child goes through all stages at its own pace as soon as it can.
    pub const fn is_free(&self) -> bool {
        self.word().is_free()
    }

    /// Whether no stage starts anywhere before the one before it has passed everywhere.
    pub const fn has_barriers(&self) -> bool {
        match self {
            Self::GlobalIncremental => true,
            Self::Parallel | Self::LocationSequential { .. } | Self::Waves(_) => false,
        }
    }

    /// Whether each location has a turn of its own.
    pub const fn is_by_location(&self) -> bool {
        match self {
            Self::LocationSequential { .. } => true,
            Self::Parallel | Self::GlobalIncremental | Self::Waves(_) => false,
        }
    }

    /// Whether groups begin one after the other, of which a manager below may be in several.
    pub const fn is_in_waves(&self) -> bool {
        self.word().is_in_waves()
    }

    /// Where it starts: the (longitude, latitude) from which distances decide who comes first. `None`: they decide nothing.
    pub const fn start_at(&self) -> Option<[f64; 2]> {
        match self {
            Self::LocationSequential { start_at } => Some(*start_at),
            Self::Parallel | Self::GlobalIncremental | Self::Waves(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    #[default]
    Rollback,
    Pause,
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateJoiners {
    #[default]
    Exclude,
    Include,
}

/// Whether an action of a person has a note that says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    #[default]
    Optional,
    /// Without one, nothing is done.
    Required,
}

impl Notes {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    const fn is_optional(&self) -> bool {
        matches!(self, Self::Optional)
    }
}

/// Somebody must say yes; no answer in time rolls the release back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub of: ApprovalOf,
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOf {
    /// Before each wave but the first: who submits a release wants that one.
    Waves,
    /// Before the new version is rolled out anywhere.
    Rollout,
    /// Before each of these stages; ascending indices into the strategy's stages.
    Stages(Vec<usize>),
}
