//! Where a child stands in one stage.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name_variants;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

// In the order of the wire, whose numbers are indices into `ALL`.
name_variants!(StageStatus {
    Pending => "Pending",
    InProgress => "InProgress",
    SuccessWaiting => "SuccessWaiting",
    ShouldEnd => "ShouldEnd",
    Completed => "Completed",
    Failure => "Failure",
    Error => "Error",
});

impl StageStatus {
    /// The number on the wire, 0 to 6.
    pub const fn wire(self) -> u8 {
        self as u8
    }

    /// The status of a number on the wire.
    pub fn from_wire(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index).copied())
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
