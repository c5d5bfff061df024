//! Routers of others, through the public surface of the crate; the real ones where the machine has them.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod health;
mod kinds;
mod lead;
mod names;
