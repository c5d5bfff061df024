//! What a router says that it does, and how that differs from what it is to do.

use std::collections::BTreeMap;

use crate::{
    Table,
    desired::{DesiredConfig, Number, Target},
};

/// What was read back from a running router; never from its files alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedConfig {
    /// By which wanted state it says that it runs; none where it runs by none of ours.
    pub number: Option<Number>,
    /// By the service's name.
    pub services: BTreeMap<String, SeenService>,
    /// What is marked as ours there and belongs to no service that was wanted: names as the router has them.
    pub left_over: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenService {
    /// In the order of the wanted state by which it runs.
    pub variations: Vec<SeenVariation>,
    /// Which buckets each has; none where the router tells shares alone.
    pub table: Option<Table>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenVariation {
    pub name: String,
    /// Units of 0.01 %.
    pub hundredths: u16,
    pub targets: Vec<SeenTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTarget {
    pub target: Target,
    /// Whether the router itself takes it to be there; none where it doesn't say.
    pub is_healthy: Option<bool>,
    /// Connections that it has there now; none where it doesn't say.
    pub connections: Option<u64>,
}

/// One thing in which a router differs from what it is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It runs by another wanted state, or by none of ours.
    Number { wanted: Number, seen: Option<Number> },
    /// It doesn't know the service.
    Missing { service: String },
    /// It knows one that isn't wanted.
    LeftOver { what: String },
    /// Its variations have other names, or others than wanted.
    Variations { service: String, wanted: Vec<String>, seen: Vec<String> },
    /// Shares differ, in units of 0.01 %.
    Shares { service: String, wanted: Vec<u16>, seen: Vec<u16> },
    /// Shares are alike, and other users get them.
    Buckets { service: String, differ: u16 },
    /// A variation leads elsewhere.
    Targets { service: String, variation: String, wanted: Vec<Target>, seen: Vec<Target> },
    /// Calls to others' ports come from elsewhere than wanted.
    TakenOver { wanted: String, seen: String },
}

/// All differences, in the order of the services' names. None: the router does what it is to do. One that has nothing of ours does what
/// is to be done for no service.
#[must_use]
pub fn differences(wanted: &DesiredConfig, seen: &ObservedConfig) -> Vec<Difference> {
    let mut found = Vec::new();
    let has_nothing = seen.number.is_none() && wanted.services().is_empty();
    if seen.number != Some(wanted.number) && !has_nothing {
        found.push(Difference::Number { wanted: wanted.number, seen: seen.number });
    }
    for service in wanted.services() {
        let name = service.name.as_str().to_owned();
        let Some(there) = seen.services.get(&name) else {
            found.push(Difference::Missing { service: name });
            continue;
        };
        let names: Vec<String> = service.variations.iter().map(|one| one.name.to_string()).collect();
        let there_names: Vec<String> = there.variations.iter().map(|one| one.name.clone()).collect();
        if names != there_names {
            found.push(Difference::Variations { service: name, wanted: names, seen: there_names });
            continue;
        }
        let shares = service.table.hundredths();
        let there_shares: Vec<u16> = there.variations.iter().map(|one| one.hundredths).collect();
        if shares != there_shares {
            found.push(Difference::Shares { service: name.clone(), wanted: shares, seen: there_shares });
        } else if let Some(table) = there.table.as_ref().filter(|table| **table != service.table)
            // Tables may differ in variations without a share alone.
            && let differ @ 1.. = service.table.moved_buckets(table)
        {
            found.push(Difference::Buckets { service: name.clone(), differ });
        }
        for (variation, there) in service.variations.iter().zip(&there.variations) {
            let in_order = |mut targets: Vec<Target>| {
                targets.sort_unstable();
                targets
            };
            let wanted = in_order(variation.targets.clone());
            let seen = in_order(there.targets.iter().map(|one| one.target.clone()).collect());
            if wanted != seen {
                let (service, variation) = (name.clone(), there.name.clone());
                found.push(Difference::Targets { service, variation, wanted, seen });
            }
        }
    }
    let unwanted = seen.services.keys().filter(|name| wanted.service(name).is_none());
    let left_over = unwanted.chain(&seen.left_over);
    found.extend(left_over.map(|what| Difference::LeftOver { what: what.clone() }));
    found
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percents = |shares: &[u16]| {
            let percents = shares.iter().map(|share| format!("{}", f64::from(*share) / 100.0));
            percents.collect::<Vec<_>>().join("/")
        };
        let list = |all: &[Target]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::Number { wanted, seen: Some(seen) } => {
                write!(f, "runs by {seen}, and is to run by {wanted}")
            }
            Self::Number { wanted, seen: None } => {
                write!(f, "runs by nothing of ours, and is to run by {wanted}")
            }
            Self::Missing { service } => write!(f, "{service} isn't there"),
            Self::LeftOver { what } => write!(f, "{what} is there and belongs to nothing that is wanted"),
            Self::Variations { service, wanted, seen } => {
                write!(
                    f,
                    "{service} has the variations {}, and is to have {}",
                    seen.join(", "),
                    wanted.join(", ")
                )
            }
            Self::Shares { service, wanted, seen } => {
                write!(f, "{service} is shared {} %, and is to be {} %", percents(seen), percents(wanted))
            }
            Self::Buckets { service, differ } => {
                write!(f, "{service} is shared as it is to be, but {differ} of 10000 buckets are another's")
            }
            Self::Targets { service, variation, wanted, seen } => write!(
                f,
                "{variation} of {service} leads to {}, and is to lead to {}",
                list(seen),
                list(wanted)
            ),
            Self::TakenOver { wanted, seen } => {
                write!(f, "calls are taken over as {seen}, and are to be as {wanted}")
            }
        }
    }
}
