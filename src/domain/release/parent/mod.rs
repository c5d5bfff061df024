//! A release that came from this manager's own parent.
//!
//! It is led by the same gates as any other. What differs:
//!
//! - where the parent says nothing of how, it is led with barriers over the whole subtree, so that the outcome for the
//!   subtree is one;
//! - after a stage of type `WaitForSignal` there is a barrier, also after the last stage of an offer that ends in a roll-back;
//!   it opens when the parent ends that stage, never by itself;
//! - waves open when the parent says so: with an offer that continues the one before;
//! - when a stage is over for all whose wave has begun, one summary of it goes up. That it has to is a [`Change`], stored in
//!   the commit that made it so; the numbers are read from the store when it is sent, but for those of the agents, which
//!   are of that very moment.
//!
//! An order to take a release back is none of its own: the release is rolled back, also one that was over, and then the
//! parent hears of it, under the id of that order.
//!
//! Deliberately not here: the calls to the parent (`parent`).

mod aggregate;
mod apply;
mod change;
mod command;
mod decide;
mod due;
mod offer;
pub mod offered;
mod waits;

pub use aggregate::aggregate;
pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;
pub(super) use due::{due, undone};
pub use offer::{LastReport, ParentOffer};
pub use offered::led;
pub use waits::Waiting;
