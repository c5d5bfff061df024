//! What is asked of who leads a router.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::{MAX_ORDERS, MAX_TOLD_NAME_BYTES};
use crate::{
    WireError, number,
    read::{at_most, read, within},
};

/// Longest path of a configuration in an order, in bytes.
pub const MAX_ORDER_TEXT_BYTES: usize = 4_096;

/// The answer to `POST /traffic`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficAnswer {
    /// Those that were not answered yet, in the order of their numbers; at most [`MAX_ORDERS`]. One that comes again was lost on
    /// the way, or its answer was: what it asks for may be done twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderForm>,
}

/// What an operator asks of a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderForm {
    /// Never given again.
    #[serde(deserialize_with = "number::count")]
    pub number: u64,
    pub what: OrderWhat,
    /// For [`OrderWhat::Retire`] and [`OrderWhat::Adopt`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// For [`OrderWhat::Check`]: the path, on the agent's machine, of another main configuration; absent: that which is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The answer counts within so many milliseconds. Later, nobody asks for it any more.
    #[serde(deserialize_with = "number::count")]
    pub within_ms: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderWhat {
    /// Look whether the router takes its configuration, and what is ours there that belongs to nothing that is wanted.
    Check,
    /// Put what is wanted in force again, whatever the router was left alone for.
    Repair,
    /// Have it load its configuration anew, after a check.
    Reload,
    /// Drain a service, and remove what is ours of it.
    Retire,
    /// Read what the router does for a service today, and say which lines are to be added to its configuration so that it is led.
    Adopt,
}

impl OrderWhat {
    pub const ALL: [Self; 5] = [Self::Check, Self::Repair, Self::Reload, Self::Retire, Self::Adopt];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Repair => "repair",
            Self::Reload => "reload",
            Self::Retire => "retire",
            Self::Adopt => "adopt",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl TrafficAnswer {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// What isn't as it is documented here; it names the field.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let answer: Self = read(body)?;
        at_most("orders", answer.orders.len(), MAX_ORDERS)?;
        for order in &answer.orders {
            order
                .service
                .as_deref()
                .map_or(Ok(()), |name| within("orders.service", name, MAX_TOLD_NAME_BYTES))?;
            order
                .config
                .as_deref()
                .map_or(Ok(()), |path| within("orders.config", path, MAX_ORDER_TEXT_BYTES))?;
        }
        Ok(answer)
    }
}
