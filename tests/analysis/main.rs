//! The statistics, against references, rules and a simulation.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]
#![allow(clippy::format_push_string, reason = "tables of what was answered grow line by line")]

mod boundaries;
#[path = "../shared/cases.rs"]
mod cases;
#[path = "../shared/counts.rs"]
mod counts;
mod dispersion;
mod dist;
mod early_pass;
mod extension;
mod forms;
mod judge;
mod limit_evidence;
mod mismatch;
mod power;
#[path = "../shared/random.rs"]
mod random;
mod rules;
mod simulation;
mod split;
mod values;
mod vectors;
mod words;
