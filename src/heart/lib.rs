//! The heart: who takes part, what happens next, and what this manager says to the one above. Pure: the time and everything
//! random are arguments.

pub mod link;
pub mod plan;
pub mod release;
