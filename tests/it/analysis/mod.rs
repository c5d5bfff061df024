//! The statistics, against references, rules and a simulation.

mod boundaries;
mod random;
mod simulation;
mod vectors;
