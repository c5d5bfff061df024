//! What a child is shown as on a map: of a release, or of the whole fleet.
//!
//! The one list from which the API, the legend and the table of the page take numbers and names.

use crate::{Cordon, name_variants};

/// What a child is shown as. The number is that of the wire, and stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MapState {
    /// It has no part in the release.
    NoPart = 0,
    /// It has begun nothing in this attempt: its wave is not open, it is not heard of, or it is busy.
    Waiting = 1,
    /// It has done its stage and waits for the signal to end it.
    Held = 2,
    Doing = 3,
    Done = 4,
    Failed = 5,
    /// It began and was not heard of in time.
    TimedOut = 6,
    /// It was offered its part and never fetched it.
    Unreachable = 7,
    /// Its result never came, and it does something else now.
    Lost = 8,
    /// It is to go back to the base version, and has not proven yet that it did.
    TakingBack = 9,
    /// It proved that it runs the base version again.
    TakenBack = 10,
    /// It did not prove in time that it is back; nobody waits for it any longer.
    Unconfirmed = 11,
    /// It had no calls, or too few.
    Untested = 12,
    /// It was to take part and does not.
    Excluded = 13,
    /// Of the fleet: it called lately.
    Heard = 14,
    /// Of the fleet: it has not called for longer than a child that is there.
    Silent = 15,
    Cordoned = 16,
    Drained = 17,
}

name_variants!(MapState {
    NoPart => "no_part",
    Waiting => "waiting",
    Held => "held",
    Doing => "doing",
    Done => "done",
    Failed => "failed",
    TimedOut => "timed_out",
    Unreachable => "unreachable",
    Lost => "lost",
    TakingBack => "taking_back",
    TakenBack => "taken_back",
    Unconfirmed => "unconfirmed",
    Untested => "untested",
    Excluded => "excluded",
    Heard => "heard",
    Silent => "silent",
    Cordoned => "cordoned",
    Drained => "drained",
});

impl MapState {
    /// What a child of the fleet is shown as.
    pub const fn of_fleet(cordon: Cordon, is_silent: bool) -> Self {
        match cordon {
            Cordon::Cordoned => Self::Cordoned,
            Cordon::Drained => Self::Drained,
            Cordon::Open if is_silent => Self::Silent,
            Cordon::Open => Self::Heard,
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The state of a number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// What a person reads.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoPart => "no part",
            Self::Waiting => "waiting",
            Self::Held => "held before the end of its stage",
            Self::Doing => "doing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "fell silent",
            Self::Unreachable => "not reached",
            Self::Lost => "lost",
            Self::TakingBack => "being taken back",
            Self::TakenBack => "taken back",
            Self::Unconfirmed => "not proven to be back",
            Self::Untested => "untested",
            Self::Excluded => "takes no part any more",
            Self::Heard => "heard",
            Self::Silent => "silent",
            Self::Cordoned => "cordoned",
            Self::Drained => "drained",
        }
    }

    /// Whether it says that something went wrong.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::TimedOut | Self::Unreachable | Self::Lost | Self::Unconfirmed => true,
            Self::NoPart
            | Self::Waiting
            | Self::Held
            | Self::Doing
            | Self::Done
            | Self::TakingBack
            | Self::TakenBack
            | Self::Untested
            | Self::Excluded
            | Self::Heard
            | Self::Silent
            | Self::Cordoned
            | Self::Drained => false,
        }
    }
}
