//! The agent, with real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod conformance;
mod functions;
mod limits;
mod process;
mod runners;
mod tinyfaas;
mod webhook;
mod world;
