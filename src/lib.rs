//! Choirmaster: a hierarchical release manager for functions that run from the edge to the cloud.
//!
//! `src/ARCHITECTURE.md` tells how the parts work together and where to change what.

#[cfg(feature = "manager")]
pub mod app;
pub mod cli;
#[cfg(feature = "manager")]
pub mod config;
pub mod strategies;
