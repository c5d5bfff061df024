//! How far a release is open: its waves and barriers, and who must say yes before they open.

mod apply;
mod change;
mod command;
mod decide;
mod shares;
mod winner;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::{approve, decide, newcomers, promote, promote_to_gate};
pub use shares::shared;
