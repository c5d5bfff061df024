//! The domain: who takes part, what happens next, and what this manager says to the one above. Pure: the time and everything
//! random are arguments.

pub mod children;
mod names;
pub mod parent;
pub mod plan;
pub mod release;
pub mod traffic;
pub mod workflows;
