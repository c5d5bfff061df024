//! Routers of others, through the public surface of the crate; the real ones, on free ports in temporary folders.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(dead_code, unused_imports, unused_macros, reason = "until each kind passes the suite")]
#![allow(async_fn_in_trait, reason = "of tests alone")]

mod conformance;
mod haproxy;
mod kinds;
mod loss;
mod world;
