//! Which node runs which function of a workflow. Pure: randomness and time come from outside.
//!
//! Invariants, which `tests/placement/` asserts:
//!
//! 1. A function is placed only on a node that meets each of its requirements, is there, and isn't cordoned.
//! 2. A requirement that can't be read is refused: it never becomes a wider one.
//! 3. The same functions, nodes, strategy and seed give the same placement.
//! 4. A draw is weighted by what nodes advertise, among those that may, and by nothing else.
//!
//! What many functions ask alike is worked out once: work for one more of a kind doesn't grow with the number of nodes, but for one that
//! asks for memory where nodes are nearly full.

mod node;
mod place;
mod requirements;
mod why_not;

pub use self::{
    node::{Node, NodeState},
    place::{Placed, Placer, Strategy},
    requirements::{Requirements, RequirementsError},
    why_not::WhyNot,
};
