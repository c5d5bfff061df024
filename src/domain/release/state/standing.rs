//! Where a release stands, and how it ended.

use crate::release::{clock::ReleaseMs, pause::Pause};
use model::name_variants;

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    DoneWithFailures,
    /// By its own rules: too many children ended badly, or nobody approved in time.
    RolledBack,
    /// By an operator, or because another release took its place.
    Aborted,
    /// Nobody could take part, so nothing was released.
    NoParticipants,
    /// Nothing failed, and nobody was tested, for want of calls.
    Untested,
}

name_variants!(End {
    Done => "Done",
    DoneWithFailures => "DoneWithFailures",
    RolledBack => "RolledBack",
    Aborted => "Aborted",
    NoParticipants => "NoParticipants",
    Untested => "DoneUntested",
});

/// Where a release stands.
///
/// ```mermaid
/// stateDiagram-v2
///     [*] --> Planned: submitted
///     Planned --> Running: its time has come, and nothing it conflicts with runs any more
///     Planned --> Aborted
///     Running --> AwaitingApproval: a gate is reached that somebody must approve of
///     AwaitingApproval --> Running: approve, or the gate is reached no more
///     AwaitingApproval --> Paused: pause
///     AwaitingApproval --> RollingBack: abort, or no approval in time
///     Running --> Paused: pause, or a limit is passed
///     Paused --> Running: resume
///     Running --> RollingBack: abort, or a limit is passed
///     Paused --> RollingBack: abort
///     RollingBack --> Aborted: every undo confirmed or overdue
///     RollingBack --> RolledBack: every undo confirmed or overdue, if it was by a limit or for want of an approval; unproven while undos are overdue
///     Running --> Done
///     Done --> RollingBack: the parent takes it back
///     Running --> DoneWithFailures
///     Running --> NoParticipants: nobody could take part
///     Running --> DoneUntested: nobody was tested, for want of calls
///     NoParticipants --> Planned: submitted or retried once more
///     DoneWithFailures --> Running: retry
///     Done --> Running: retry of those that were left untested
///     DoneUntested --> Running: retry of those that were left untested
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseState {
    Planned,
    Running,
    Paused(Pause),
    AwaitingApproval {
        /// What for, in words.
        what: String,
        since: ReleaseMs,
    },
    RollingBack {
        reason: String,
        /// How it ends then.
        end: End,
    },
    Over {
        end: End,
        /// Agents that have not proven that they run the base version again.
        unconfirmed: u32,
    },
}

/// One table, by which states are named and listed: none can be left out.
macro_rules! name_states {
    ($($state:pat => $name:expr,)*) => {
        impl ReleaseState {
            /// Every name that [`Self::name`] gives.
            pub const NAMES: [&str; [$($name),*].len()] = [$($name),*];

            /// As shown and stored.
            pub const fn name(&self) -> &'static str {
                match self {
                    $($state => $name,)*
                }
            }
        }
    };
}

name_states! {
    Self::Planned => "Planned",
    Self::Running => "Running",
    Self::Paused(_) => "Paused",
    Self::AwaitingApproval { .. } => "AwaitingApproval",
    Self::RollingBack { .. } => "RollingBack",
    Self::Over { end: End::Done, .. } => End::Done.name(),
    Self::Over { end: End::DoneWithFailures, .. } => End::DoneWithFailures.name(),
    Self::Over { end: End::RolledBack, unconfirmed: 0 } => End::RolledBack.name(),
    Self::Over { end: End::RolledBack, .. } => "RolledBackUnproven",
    Self::Over { end: End::Aborted, .. } => End::Aborted.name(),
    Self::Over { end: End::NoParticipants, .. } => End::NoParticipants.name(),
    Self::Over { end: End::Untested, .. } => End::Untested.name(),
}

impl ReleaseState {
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }

    /// Whether it goes forward: nothing holds it but its own gates and who must approve of them.
    pub const fn is_going(&self) -> bool {
        match self {
            Self::Running | Self::AwaitingApproval { .. } => true,
            Self::Planned | Self::Paused(_) | Self::RollingBack { .. } | Self::Over { .. } => false,
        }
    }

    /// Whether it has begun and may yet end well: it goes forward, or somebody may let it go on.
    pub const fn is_under_way(&self) -> bool {
        match self {
            Self::Running | Self::AwaitingApproval { .. } | Self::Paused(_) => true,
            Self::Planned | Self::RollingBack { .. } | Self::Over { .. } => false,
        }
    }

    /// Whether its children go back to what was before it, or were told to in the end.
    pub const fn is_taken_back(&self) -> bool {
        match self {
            Self::RollingBack { .. } | Self::Over { end: End::RolledBack | End::Aborted, .. } => true,
            Self::Planned
            | Self::Running
            | Self::Paused(_)
            | Self::AwaitingApproval { .. }
            | Self::Over {
                end: End::Done | End::DoneWithFailures | End::NoParticipants | End::Untested,
                ..
            } => false,
        }
    }

    pub const fn pause(&self) -> Option<&Pause> {
        match self {
            Self::Paused(pause) => Some(pause),
            Self::Planned
            | Self::Running
            | Self::AwaitingApproval { .. }
            | Self::RollingBack { .. }
            | Self::Over { .. } => None,
        }
    }
}
