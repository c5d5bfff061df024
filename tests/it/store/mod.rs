//! The stores: one suite of stories on both, and what only one of them can be put through.

mod conformance;
pub mod everything;
mod holder;
mod lease;
pub mod place;
mod power_loss;
mod precedents;
pub mod rows;
mod short;
mod statements;
mod strategies;
mod transfer;
mod url;
