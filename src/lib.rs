//! Choirmaster: a hierarchical release manager for functions that run from the edge to the cloud.
//!
//! `src/ARCHITECTURE.md` tells how the parts work together and where to change what.

pub mod analysis;
pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
pub mod fleet;
pub mod forward;
pub mod functions;
pub mod http;
pub mod judging;
pub mod link;
pub mod model;
pub mod notify;
pub mod plan;
pub mod provider;
pub mod questions;
pub mod release;
pub mod store;
pub mod strategy;
pub mod uplink;
pub mod wire;
