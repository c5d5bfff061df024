use std::fmt;

use traffic::{
    desired::{Name, Number, Target},
    health::{Departure, DepartureChange},
    observed::Difference,
};

use crate::names::Unresolved;

/// So many differences are told; of more only how many there are.
const MAX_DIFFERENCES: usize = 16;

/// What came about with a router. Each is written in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterEvent {
    /// What is wanted was read back, but for what departs from it because targets are away.
    InForce { number: Number, departures: Vec<Departure> },
    /// What stands in the way of that.
    Trouble { text: String },
    /// It can't be read.
    Away { text: String },
    /// It can be read again.
    Back,
    /// It does something else than it was told and did.
    Drift { differences: Differences, then: DriftAction },
    /// It does what it was told again, without having been told again.
    DriftOver { number: Number },
    /// Somebody else leads it by something newer.
    Superseded { by: Number, wanted: Number },
    /// Something was wanted that isn't newer than what is wanted already.
    Ignored { asked: Number, newest: Number },
    /// Targets are away, or back.
    Turn { turn: DepartureChange },
    /// It is no target of the variation any more: what is connected to it is to be drained.
    Leaving { service: Name, variation: Name, target: Target },
    /// The newest answer for a name isn't taken, and the one before counts.
    Stale { stale: Box<Unresolved> },
    /// A variation has no share any more and so many connections, as far as the router tells.
    Drained { service: String, variation: String, left: Option<u64> },
}

/// What is done about a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftAction {
    Repaired,
    Paused,
    PausedAfterRepairs,
    Accepted,
}

/// Some differences, each with both values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences {
    pub first: Vec<Difference>,
    /// How many there are beside those.
    pub more: usize,
}

impl From<&[Difference]> for Differences {
    fn from(all: &[Difference]) -> Self {
        let first: Vec<Difference> = all.iter().take(MAX_DIFFERENCES).cloned().collect();
        Self { more: all.len() - first.len(), first }
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.first.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))?;
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

impl fmt::Display for DriftAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repaired => "it is told again",
            Self::Paused => "it is left alone until it is repaired or told something else",
            Self::PausedAfterRepairs => {
                "it was repaired 3 times within an hour, and is left alone until it is repaired or told something else"
            }
            Self::Accepted => "that is accepted",
        })
    }
}

impl RouterEvent {
    /// Whether somebody is to look at it now.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        match self {
            Self::Turn { turn: DepartureChange::Departed(departure) } => departure.is_alarm(),
            Self::Drift { then, .. } => match then {
                DriftAction::Paused | DriftAction::PausedAfterRepairs => true,
                DriftAction::Repaired | DriftAction::Accepted => false,
            },
            Self::InForce { .. }
            | Self::Trouble { .. }
            | Self::Away { .. }
            | Self::Back
            | Self::DriftOver { .. }
            | Self::Superseded { .. }
            | Self::Ignored { .. }
            | Self::Turn { turn: DepartureChange::Returned(_) }
            | Self::Leaving { .. }
            | Self::Stale { .. }
            | Self::Drained { .. } => false,
        }
    }
}

impl fmt::Display for RouterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce { number, departures } if departures.is_empty() => {
                write!(f, "{number} is in force")
            }
            Self::InForce { number, departures } => {
                let texts: Vec<String> = departures.iter().map(ToString::to_string).collect();
                write!(f, "{number} is in force, but: {}", texts.join("; "))
            }
            Self::Trouble { text } => f.write_str(text),
            Self::Away { text } => write!(f, "it can't be read: {text}"),
            Self::Back => f.write_str("it can be read again"),
            Self::Drift { differences, then } => write!(f, "drift: {differences}; {then}"),
            Self::DriftOver { number } => write!(f, "it runs by {number} again"),
            Self::Superseded { by, wanted } => {
                write!(
                    f,
                    "it was told {by} by somebody else, which is newer than {wanted}; it isn't led from here"
                )
            }
            Self::Ignored { asked, newest } => write!(f, "{asked} isn't newer than {newest}, and is ignored"),
            Self::Turn { turn: DepartureChange::Departed(departure) } => departure.fmt(f),
            Self::Turn { turn: DepartureChange::Returned(departure) } => write!(f, "over: {departure}"),
            Self::Leaving { service, variation, target } => {
                write!(f, "{target} is no target of {variation} of {service} any more")
            }
            Self::Stale { stale } => write!(f, "{stale}; what is known counts"),
            Self::Drained { service, variation, left: Some(0) } => {
                write!(f, "{variation} of {service} is drained")
            }
            Self::Drained { service, variation, left: Some(left) } => {
                write!(f, "{variation} of {service} has {left} connections at the end of its drain")
            }
            Self::Drained { service, variation, left: None } => write!(
                f,
                "{variation} of {service} is at the end of its drain; how many connections are left isn't known"
            ),
        }
    }
}
