//! The agent: its mind in a world of words, its runtimes with real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod conformance;
mod core;
mod functions;
mod process;
mod runners;
mod world;
