//! The one integration-test binary; folders mirror `src`.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod cli;
mod config;
mod crash;
mod engine;
mod fleet;
mod functions;
mod http;
mod layers;
mod replay;
mod store;
mod strategy;
mod wire;
mod world;
