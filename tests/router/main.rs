//! Routers of others, through the public surface of the crate; the real ones, on free ports in temporary folders.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(async_fn_in_trait, reason = "of tests alone")]

mod conformance;
mod haproxy;
mod kinds;
mod loss;
mod nginx;
mod world;
