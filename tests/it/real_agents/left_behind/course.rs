//! How releases go.

use super::super::releases::{A_B, Kind, Stage, stages};

/// As short as a stage may be: everything else of a release is to come about often.
const SHORT: u64 = 50;
/// No such stage lasts to its end.
const LONG: u64 = 600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    RolledOut,
    /// The same, through two stages.
    InTwoStages,
    /// The new version fails every call.
    TakenBack,
    /// By an operator, while it has calls.
    Aborted,
    /// While it is fetched or started.
    AbortedAtOnce,
}

/// All ways, for functions of either form.
pub fn way(number: u32) -> Way {
    match number % 8 {
        0..=2 => Way::RolledOut,
        3 => Way::InTwoStages,
        4 | 5 => Way::TakenBack,
        6 => Way::Aborted,
        _ => Way::AbortedAtOnce,
    }
}

impl Way {
    pub fn stages(self) -> Vec<Stage> {
        match self {
            Self::RolledOut | Self::TakenBack => stages(Kind::AB, A_B, SHORT),
            Self::InTwoStages => stages(Kind::Wait, &[40, 60], SHORT),
            Self::Aborted | Self::AbortedAtOnce => stages(Kind::Wait, A_B, LONG),
        }
    }

    /// The state in which such a release ends.
    pub fn ends(self) -> &'static str {
        match self {
            Self::RolledOut | Self::InTwoStages => "Done",
            Self::TakenBack => "RolledBack",
            Self::Aborted | Self::AbortedAtOnce => "Aborted",
        }
    }

    pub fn is_well(self) -> bool {
        self != Self::TakenBack
    }
}
