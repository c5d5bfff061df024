//! The proxy, through real sockets.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod control;
mod counts;
mod handover;
mod log;
mod metrics;
mod loss;
mod world;
