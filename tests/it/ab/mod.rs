//! Progressive delivery: every call, field, state and event of that interface, on real managers with routers that are played.

mod agents;
mod calls;
mod course;
mod hybrid;
mod names;
pub mod player;
mod table;
mod tenants;
mod views;
