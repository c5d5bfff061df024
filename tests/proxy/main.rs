//! The proxy, through real sockets.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod below;
mod bodies;
mod calls;
#[path = "../shared/cases.rs"]
mod cases;
mod control;
mod counts;
#[path = "../shared/deadline.rs"]
mod deadline;
mod drains;
mod flows;
mod grpc;
mod handover;
mod http2;
mod http2_limits;
mod http2_world;
mod lies;
mod limits;
mod listen;
mod log;
mod loss;
mod metrics;
mod pools;
#[path = "../shared/ports.rs"]
mod ports;
mod repeats;
#[path = "../shared/reuse_port.rs"]
mod reuse_port;
mod shadow;
mod smuggling;
mod tables;
mod tls;
mod upgrades;
mod world;
