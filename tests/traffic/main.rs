//! Shares, tables and choices, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod bucket_tables;
#[path = "../shared/cases.rs"]
mod cases;
mod choices;
mod desired;
mod hashes;
mod health;
mod observed;
mod repeats;
mod states;
