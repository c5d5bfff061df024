//! Simulated children against a small manager that records every call.

mod clock;
mod command;
mod deployed;
mod manager;
mod mixed;
mod modern;
mod numbers;
mod places;
mod stories;
mod whole;
