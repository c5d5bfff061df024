//! What it takes the whole program to test. What one member of the workspace can show alone is beside this folder.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]
#![allow(clippy::format_push_string, reason = "tables of what was answered grow line by line")]

mod ab;
#[path = "../shared/anchors.rs"]
mod anchors;
mod architecture;
#[path = "../shared/areas.rs"]
mod areas;
mod canaries;
#[path = "../shared/cases.rs"]
mod cases;
mod circles;
mod cli;
mod config;
mod crash;
#[path = "../shared/deadline.rs"]
mod deadline;
mod docs;
mod engine;
mod fleet;
mod forward;
mod hostile_input;
mod http;
mod judging;
mod layers;
#[path = "../shared/metrics.rs"]
mod metrics;
mod mirror;
mod model;
mod names;
mod notify;
#[path = "../shared/own_network.rs"]
mod own_network;
mod page;
mod plan;
#[path = "../shared/ports.rs"]
mod ports;
mod protocol;
mod provider;
#[path = "../shared/random.rs"]
mod random;
mod real_agents;
#[path = "../shared/reference.rs"]
mod reference;
#[path = "../shared/releases.rs"]
mod releases;
mod replay;
#[path = "../shared/reuse_port.rs"]
mod reuse_port;
#[path = "../shared/seed.rs"]
mod seed;
mod sim;
mod source;
mod store;
#[path = "../shared/structural_schemas.rs"]
mod structural_schemas;
#[path = "../shared/texts.rs"]
mod texts;
mod tree;
mod virtual_time;
mod world;
