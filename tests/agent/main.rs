//! The agent: its state machine in a world of words, its runtimes with real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod abilities;
mod alarms;
mod calls;
#[path = "../shared/cases.rs"]
mod cases;
mod conformance;
mod content;
mod control;
mod download;
mod drive;
mod events;
mod functions;
mod judge;
mod limits;
mod link;
mod measure;
mod oci;
#[path = "../shared/own_network.rs"]
mod own_network;
#[path = "../shared/ports.rs"]
mod ports;
mod process;
mod reports;
#[path = "../shared/reuse_port.rs"]
mod reuse_port;
mod runners;
mod scripted;
mod shared_proxy;
mod state_machine;
mod stop;
mod takeover;
mod tinyfaas;
mod wasm;
mod webhook;
mod world;
