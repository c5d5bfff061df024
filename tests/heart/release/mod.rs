//! The heart, driven without any shell: rules as stories, and properties over arbitrary sequences of commands.

mod analysis;
mod by_itself;
mod ending;
mod frozen;
mod gates;
mod history;
mod managers;
mod measured;
mod model;
mod one_stage;
mod partial;
mod pause;
mod precedent;
mod properties;
mod prospect;
mod queue;
mod recount;
mod replan;
mod rules;
mod skip;
mod steps;
mod strata;
mod succession;
mod turnout;
mod untested;
mod upstream;
pub mod world;
