//! The proxy, through real sockets.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod control;
mod counts;
mod grpc;
mod handover;
mod http2;
mod http2_world;
mod log;
mod loss;
mod metrics;
mod tls;
mod world;
