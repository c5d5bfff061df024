//! Shares, tables and choices, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod adopt;
#[path = "../shared/cases.rs"]
mod cases;
mod choices;
mod haproxy;
mod hashes;
mod health;
mod lines;
mod nginx;
mod repeats;
mod seen;
mod states;
mod tables;
mod wanted;
