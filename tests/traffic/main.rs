//! Shares, tables and choices, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../shared/cases.rs"]
mod cases;
mod choices;
mod hashes;
mod health;
mod repeats;
mod seen;
mod states;
mod tables;
mod wanted;
