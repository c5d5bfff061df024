//! Where a child stands in one stage.

use std::fmt;

/// Status of a stage for one child. The order is that of the wire, 0 to 6; it never moves backwards within an
/// attempt.
///
/// ```mermaid
/// stateDiagram-v2
///     Pending --> InProgress
///     InProgress --> SuccessWaiting: WaitForSignal only
///     InProgress --> ShouldEnd: ended from above
///     SuccessWaiting --> ShouldEnd
///     InProgress --> Completed
///     InProgress --> Failure
///     InProgress --> Error
///     ShouldEnd --> Completed
///     ShouldEnd --> Failure
///     ShouldEnd --> Error
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StageStatus {
    /// Not begun.
    Pending = 0,
    /// The child was told of it.
    InProgress = 1,
    /// Minima met, conditions hold, waits for the signal to end.
    SuccessWaiting = 2,
    /// The signal to end is given.
    ShouldEnd = 3,
    /// Ended well.
    Completed = 4,
    /// Ended, the conditions did not hold.
    Failure = 5,
    /// Ended because something else went wrong.
    Error = 6,
}

impl StageStatus {
    /// Every status, in the order of the wire.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::InProgress,
        Self::SuccessWaiting,
        Self::ShouldEnd,
        Self::Completed,
        Self::Failure,
        Self::Error,
    ];

    /// The number on the wire, 0 to 6.
    pub const fn wire(self) -> u8 {
        self as u8
    }

    /// The status of a number on the wire.
    pub fn from_wire(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index).copied())
    }

    /// The status of a name as the older spelling has it: `Completed`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::SuccessWaiting => "SuccessWaiting",
            Self::ShouldEnd => "ShouldEnd",
            Self::Completed => "Completed",
            Self::Failure => "Failure",
            Self::Error => "Error",
        }
    }

    /// Whether the stage has ended for the child. What is over stays over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failure | Self::Error)
    }
}

impl fmt::Display for StageStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
