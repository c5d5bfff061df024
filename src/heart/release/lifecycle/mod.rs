//! The course of a release as a whole: submitted, started, paused, resumed, taken back, tried again, ended, removed.

mod apply;
mod change;
mod command;
mod decide;
mod submit;

pub(super) use apply::apply;
pub use change::{Change, Membership, Submitted};
pub use command::Command;
pub(super) use decide::{decide, goes_on_as_another, retry, roll_back};
pub(super) use submit::lacks_of;
pub use submit::membership;
