//! The statistics, against references, rules and a simulation.

mod boundaries;
mod judge;
pub mod random;
mod rules;
mod simulation;
mod split;
mod values;
mod vectors;
