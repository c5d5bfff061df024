//! Shares, tables and choices, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod adopt;
mod bucket_tables;
#[path = "../shared/cases.rs"]
mod cases;
mod choices;
mod desired;
mod haproxy;
mod hashes;
mod health;
mod log_lines;
mod nginx;
mod observed;
mod repeats;
mod states;
