//! Simulated children against a small manager that records every call.

mod clock;
mod command;
mod deployed;
pub mod manager;
mod mixed;
mod modern;
mod numbers;
mod places;
mod stories;
mod whole;
