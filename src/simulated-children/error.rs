//! Why a fleet can't start.

use super::{
    calls,
    limits::{MAX_AGENTS, MAX_PACE, MIN_PACE},
    sessions::MAX_SESSION_CALLS,
    timing::{MAX_CLOCK_STEP, MIN_CLOCK_STEP},
};

/// Why a fleet can't start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error("{0:?} is no address of a manager: it looks like http://127.0.0.1:8080, without a path")]
    Url(String),
    #[error("a fleet has 1 to {MAX_AGENTS} children, not {0}")]
    Agents(usize),
    #[error(
        "the pace is from {MIN_PACE} to {MAX_PACE}: 0.1 lets the clocks of the children run ten times as fast"
    )]
    Pace,
    #[error("the share `{0}` is from 0 to 1 (0 % to 100 %)")]
    Share(&'static str),
    #[error("the rate of calls is from 0 to {max} a second", max = calls::MAX_CALLS_PER_SECOND)]
    CallsPerSecond,
    #[error("a session has from 1 to {MAX_SESSION_CALLS} calls")]
    SessionCalls,
    #[error("the step of a clock is from {MIN_CLOCK_STEP:?} to {MAX_CLOCK_STEP:?}")]
    Clock,
    #[error("the spread is WEST,SOUTH,EAST,NORTH in degrees, west of east and south of north")]
    Spread,
}
