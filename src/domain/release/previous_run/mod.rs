//! When the stages of a release were, for later releases that are compared with it (`PREVIOUS`).
//!
//! A stage is timed for each wave by itself, from the first child that begins it to the first that ends it well: in
//! between all who are in it are in it. The release as a whole is timed step by step: by waves, or by levels where all
//! children move together. Times are of the wall, for whoever is asked what was measured then knows no other.
//!
//! Invariant: they follow from changes alone, so that a restart finds them as they were. Not here: what is made of them
//! (`judging`).

mod note;
mod time;

pub(super) use note::note;
pub use time::{MAX_TIMES, Time, Timed};
