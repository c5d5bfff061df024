//! The agent: its mind in a world of words, its runtimes with real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod conformance;
mod content;
mod core;
mod download;
mod control;
mod functions;
mod link;
mod judge;
mod measure;
mod process;
mod runners;
mod scripted;
mod world;
