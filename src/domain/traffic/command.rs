//! What is told of routers, and asked of them.

use super::{Service, Variation};
use model::traffic::{DriftThen, OpenPorts, OrderWhat, RouterPhase};

/// About a router.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// What its agent says.
    Report {
        child: String,
        report: Box<Report>,
    },
    Order {
        child: String,
        asked: OrderAsked,
    },
}

/// The whole of what an agent says of its router.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub told: RouterReport,
    /// Each name once, at most [`super::MAX_SERVICES`]. What is known here alone (`release`, `since`, `standing`) is empty.
    pub services: Vec<Service>,
    /// In the order of their numbers.
    pub drifts: Vec<ToldDrift>,
    pub answers: Vec<ToldOrder>,
}

/// Of the router itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterReport {
    pub kind: String,
    pub version: Option<String>,
    pub phase: RouterPhase,
    pub trouble: Option<String>,
    pub is_reached: bool,
    pub repairs: u32,
    pub ports: Option<Vec<OpenPorts>>,
    pub takeover_trouble: Option<String>,
    pub untold: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldDrift {
    /// Grows from drift to drift.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    pub service: Option<String>,
    pub wanted: String,
    pub seen: String,
    pub then: DriftThen,
}

/// An order that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldOrder {
    pub number: u64,
    pub is_ok: bool,
    pub text: String,
    pub left_over: Vec<String>,
}

/// What an operator asks of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderAsked {
    pub what: OrderWhat,
    pub service: Option<String>,
    pub config: Option<String>,
    /// The answer counts within so many milliseconds of serving time.
    pub within_ms: u64,
    pub by: String,
}

impl Service {
    /// One of which only the name and variations are known.
    #[must_use]
    pub fn told(name: String, variations: Vec<Variation>) -> Self {
        Self {
            name,
            epoch: 0,
            generation: 0,
            offer: None,
            release: None,
            is_standing: false,
            variations,
            led: std::sync::Arc::default(),
            seen_ms: None,
            measured_ms: None,
            since: model::Now { wall_ms: 0, served_ms: 0 },
            standing: None,
        }
    }
}
