//! What is asked of who leads a router.

use serde::{Deserialize, Serialize};

use super::limits::{MAX_ORDERS, MAX_TOLD_NAME_BYTES};
use crate::{
    WireError, number,
    read::{at_most, read, within},
};
use model::traffic::OrderWhat;

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
