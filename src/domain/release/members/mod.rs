//! What becomes of each child in a release: its offers, its reports, what it is left running.
//!
//! The rules of one child's part are those of [`super::assignment`]; here is what concerns the release around it.

mod apply;
mod call;
mod change;
mod command;
mod decide;
mod end_stage;
mod fetch;
mod operate;
mod report;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;
pub use fetch::{NoOffer, form, peek};
