//! The one integration-test binary; folders mirror `src`.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]
#![allow(clippy::format_push_string, reason = "tables of what was answered grow line by line")]

mod analysis;
mod cli;
mod config;
mod crash;
mod doors;
mod engine;
mod fleet;
mod forward;
mod frozen;
mod functions;
mod http;
mod judging;
mod layers;
mod link;
mod notify;
mod plan;
mod provider;
mod release;
mod replay;
mod sim;
mod store;
mod strategy;
mod tree;
mod wire;
mod world;
