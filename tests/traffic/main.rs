//! Shares, tables and choices, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod choices;
mod haproxy;
mod hashes;
mod nginx;
mod repeats;
mod tables;
