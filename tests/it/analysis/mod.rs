//! The statistics, against references, rules and a simulation.

mod beyond;
mod boundaries;
mod dist;
mod early;
mod extension;
mod judge;
mod power;
pub mod random;
mod rules;
mod simulation;
mod split;
mod values;
mod vectors;
mod words;
