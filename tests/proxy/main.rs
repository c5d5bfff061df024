//! The proxy, through real sockets.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

mod calls;
mod grpc;
mod http2;
mod http2_world;
mod tls;
mod world;
