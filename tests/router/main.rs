//! Routers of others, through the public surface of the crate; the real ones, on free ports in temporary folders.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(async_fn_in_trait, reason = "of tests alone")]

mod abilities;
mod adopted;
mod aws_alb;
mod conformance;
mod controller;
mod custom;
mod haproxy;
mod health;
mod kinds;
mod log_lines;
mod loss;
mod measure;
mod names;
mod nginx;
#[allow(dead_code, reason = "not all tests need all of it")]
#[path = "../shared/ports.rs"]
mod ports;
mod traefik;
mod world;
