//! How much there may be of what.

use std::time::Duration;

use super::section::{Field, Section};
use domain::release::settings::Settings as Rules;
use http_api::child::{MAX_AGENTS, MAX_WAIT, MAX_WAITERS};

/// Connections at once, unless configured otherwise.
pub const DEFAULT_MAX_CONNECTIONS: usize = 50_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_children: usize,
    pub max_adopted: usize,
    pub max_agents: usize,
    pub max_open_releases: usize,
    pub max_connections: usize,
    pub max_wait: Duration,
    pub max_waiters: usize,
    pub offer_jitter: Duration,
}

/// Longest wait that can be allowed, in milliseconds: what lies between gives up on calls that take longer.
const LONGEST_WAIT_MS: u64 = 10 * 60 * 1000;

/// Longest jitter that can be set, in milliseconds. It is cut to a part of the time that children have to fetch an offer.
const LONGEST_JITTER_MS: u64 = 60 * 60 * 1000;

impl Default for Limits {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            max_children: rules.max_children,
            max_adopted: rules.max_adopted,
            max_agents: MAX_AGENTS as usize,
            max_open_releases: rules.max_open_releases,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_wait: MAX_WAIT,
            max_waiters: MAX_WAITERS,
            offer_jitter: rules.offer_jitter,
        }
    }
}

impl Section for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Self {
            max_children,
            max_adopted,
            max_agents,
            max_open_releases,
            max_connections,
            max_wait,
            max_waiters,
            offer_jitter,
        } = self;
        vec![
            Field::within("max_children", max_children, 1, 10_000_000),
            Field::within("max_adopted", max_adopted, 0, 10_000_000),
            Field::within("max_agents", max_agents, 1, 10_000_000),
            Field::within("max_open_releases", max_open_releases, 1, 100_000),
            Field::within("max_connections", max_connections, 1, 1_000_000),
            Field::within("max_wait", max_wait, 0, LONGEST_WAIT_MS),
            Field::within("max_waiters", max_waiters, 0, 1_000_000),
            Field::within("offer_jitter", offer_jitter, 0, LONGEST_JITTER_MS),
        ]
    }
}
