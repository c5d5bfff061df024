use std::sync::Arc;

use traffic::{
    desired::{DesiredConfig, Number},
    health::{Effective, Health},
    observed::ObservedConfig,
};

use super::OnDrift;
use crate::{RouterError, names::Answers};

/// The most bytes that are told of what a router said.
const MAX_TEXT: usize = 500;

/// Something that is to be on its way to the router. Two that are equal are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Tell it what is to be in force, of this number.
    Apply(Number),
    /// Read what it does, for the how manyth time.
    Read(u64),
    /// Ask how many connections a variation has.
    Connections { service: String, variation: String },
}

/// What came about.
#[derive(Debug, Clone)]
pub enum Event {
    Ordered(Order),
    Names(Arc<Answers>),
    Health(Health),
    Applied { told: Arc<Effective>, applied: Result<(), Trouble> },
    Read(Result<ObservedConfig, Trouble>),
    Connections { service: String, variation: String, counted: Result<Option<u64>, Trouble> },
}

/// What whoever has a router led says.
#[derive(Debug, Clone)]
pub enum Order {
    /// This is to be in force from now on.
    Want(Box<DesiredConfig>),
    /// Tell when a variation that has no share any more has no connections either, or so many milliseconds have passed.
    Drain {
        service: String,
        variation: String,
        within_ms: u64,
    },
    /// Put what is wanted in force again, whatever it was left alone for.
    Repair,
    OnDrift(OnDrift),
}

/// Why something came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// One line, without secrets.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// It is tried again.
    Passes,
    /// It doesn't take what it is told, or that can't be written where it reads it. It is tried again.
    Refused,
    /// Somebody has told it a newer state.
    Older(Number),
}

impl Trouble {
    pub fn passing(text: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Passes, text: text.into() }
    }
}

impl From<&RouterError> for Trouble {
    fn from(error: &RouterError) -> Self {
        let kind = match error {
            RouterError::Older { newest, .. } => TroubleKind::Older(*newest),
            RouterError::Refused { .. } | RouterError::Unable { .. } | RouterError::File { .. } => {
                TroubleKind::Refused
            }
            RouterError::Locked { .. }
            | RouterError::Silent { .. }
            | RouterError::Away { .. }
            | RouterError::Nonsense { .. }
            | RouterError::Program { .. } => TroubleKind::Passes,
        };
        Self { kind, text: one_line(&error.to_string()) }
    }
}

/// Lines become one, of at most [`MAX_TEXT`] bytes, without what a terminal would obey.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    let mut line: String = line.chars().filter(|one| !one.is_control()).collect();
    if line.len() > MAX_TEXT {
        line.truncate(line.floor_char_boundary(MAX_TEXT));
        line.push('…');
    }
    line
}
