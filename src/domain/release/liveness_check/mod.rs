//! Who can take part when a wave opens, and who has their turn then.
//!
//! A plan counts agents that a manager below says it has; how many of them can take part only that manager knows. So the
//! release is planned, and each wave opened, with what its managers answer:
//!
//! ```text
//! time to start, or a wave's gate reached ─▶ Change::TurnoutAsked ─▶ the shell asks ─▶ Command::Turnout ─▶ start | open
//!                                                     └─▶ no answer within [`ASKED_FOR`] ─▶ "at most": as they were planned
//! ```
//!
//! Who has nothing in hand anywhere and was not heard of for `silent_after` is silent. When a wave opens its places go to
//! those who are live, in their order, and who is silent comes last: in the last wave, whenever they call again.
//!
//! Invariants: what has begun keeps its wave; nobody has their turn earlier because somebody was asked twice; that
//! something is being asked is not stored: after a restart it is asked again.

mod candidates;
mod proven;
mod reports;
mod silence;
mod waves;

pub use candidates::{is_askable, of_child};
pub use reports::{ASKED_FOR, ManagerReports, ReportedLiveness};
pub use silence::{SilenceLimit, SilenceLimits};
