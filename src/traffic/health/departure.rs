use std::{collections::HashMap, fmt};

use crate::desired::{Name, Target};

/// One thing in which a router is to do something else than what is wanted of it, because targets are away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departure {
    /// A variation gets nothing, and the stable one what was meant for it.
    Emptied {
        service: Name,
        variation: Name,
        /// Units of 0.01 %; 0 where only a header asks for it. In force is 0.
        wanted: u16,
        /// None of its targets was proven bad: they are to be proven good before they get anything.
        is_unproven: bool,
    },
    /// A variation has fewer targets than wanted.
    TakenOut { service: Name, variation: Name, wanted: Vec<Target>, serving: Vec<Target> },
    /// All targets of the stable variation are unhealthy, and it serves on all of them.
    StableDown { service: Name, variation: Name, targets: Vec<Target> },
}

/// How departures came about or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DepartureChange {
    /// It began, or has other values than before.
    Departed(Departure),
    /// It is over: what is wanted is to be in force again.
    Returned(Departure),
}

impl Departure {
    #[must_use]
    pub fn service(&self) -> &Name {
        match self {
            Self::Emptied { service, .. }
            | Self::TakenOut { service, .. }
            | Self::StableDown { service, .. } => service,
        }
    }

    #[must_use]
    pub fn variation(&self) -> &Name {
        match self {
            Self::Emptied { variation, .. }
            | Self::TakenOut { variation, .. }
            | Self::StableDown { variation, .. } => variation,
        }
    }

    /// Whether somebody is to look at it now.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        match self {
            Self::StableDown { .. } => true,
            Self::Emptied { .. } | Self::TakenOut { .. } => false,
        }
    }

    /// What it is about: there is at most one of each.
    fn key(&self) -> (&Name, &Name, std::mem::Discriminant<Self>) {
        (self.service(), self.variation(), std::mem::discriminant(self))
    }
}

/// What came about between two effective states: first what is over, then what began.
#[must_use]
pub fn turns(before: &[Departure], after: &[Departure]) -> Vec<DepartureChange> {
    let by_key = |all| -> HashMap<_, &Departure> {
        let all: &[Departure] = all;
        all.iter().map(|one| (one.key(), one)).collect()
    };
    let (were, are) = (by_key(before), by_key(after));
    let over =
        before.iter().filter(|old| !are.contains_key(&old.key())).cloned().map(DepartureChange::Returned);
    let begun =
        after.iter().filter(|new| were.get(&new.key()) != Some(new)).cloned().map(DepartureChange::Departed);
    over.chain(begun).collect()
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Target]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::Emptied { service, variation, wanted, is_unproven } => {
                let percent = f64::from(*wanted) / 100.0;
                let why =
                    if *is_unproven { "no target is proven healthy yet" } else { "no target is healthy" };
                write!(f, "{variation} of {service} gets 0 % where {percent} % is wanted: {why}")
            }
            Self::TakenOut { service, variation, wanted, serving } => {
                let (there, all) = (serving.len(), wanted.len());
                let out: Vec<Target> =
                    wanted.iter().filter(|target| !serving.contains(target)).cloned().collect();
                write!(f, "{variation} of {service} has {there} of {all} targets: without {}", list(&out))
            }
            Self::StableDown { service, variation, targets } => write!(
                f,
                "{variation} of {service} is the stable variation and has no healthy target; it serves on all of them: {}",
                list(targets)
            ),
        }
    }
}
