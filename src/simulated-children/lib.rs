//! **Simulated** children: thousands of them in one process, for the demo, for tests and for load.
//!
//! Nothing here runs a function. A child polls, downloads, unpacks, "sets up", counts calls that never took place
//! and reports their numbers; everything that shows its output has to say that it is simulated.
//!
//! Three kinds: [`FleetKind::Deployed`] imitates the agents that are out there, faults and all (`agent` lists the nine
//! points it imitates), [`FleetKind::Modern`] uses the optional additions of the protocol (`modern`), and [`FleetKind::Own`] takes
//! whole strategies besides (`own`).
//!
//! Invariants: a child's numbers are a function of the seed, its index and how long its own clock ran, never of
//! how fast the machine or the manager is. A child is one task with one connection, like the real ones. What
//! survives a child's restart is in `machine`, everything else is gone then.
//!
//! A tree of managers ([`tree`]) is one such fleet below each of its lowest managers.
//!
//! Deliberately not here: https, and the managers themselves.

mod agent;
mod area;
mod autonomous;
mod calls;
mod child;
mod client;
mod config;
mod error;
mod extended;
mod fleet;
mod interim;
mod limits;
mod machine;
mod offer;
mod offered;
mod report;
mod sessions;
mod summary;
mod times;
mod timing;
pub mod tree;

pub use area::{BoundingBox, area_of};
pub use calls::{Behaviour, Latency, StageCalls, Tally, Traffic};
pub use config::{Faults, FleetConfig, FleetKind};
pub use error::FleetError;
pub use fleet::{EndOfRun, PROGRESS_INTERVAL, run};
pub use limits::{MAX_AGENTS, MAX_PACE, MIN_PACE};
pub use offer::{Comparator, Condition, Minima, NextAction, Offer, OfferError, OfferStage, Statistic};
pub use report::{AgentReport, Exit, FleetReport, LiveVersion, Progress};
pub use sessions::MAX_SESSION_CALLS;
pub use timing::{CallClock, MAX_CLOCK_STEP, MIN_CLOCK_STEP};
