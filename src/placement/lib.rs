//! Which node runs which function of a workflow. Pure: randomness and time come from outside.
//!
//! Invariants, which `tests/placement/` asserts:
//!
//! 1. A function is placed only on a node that meets each of its requirements, is there, and isn't cordoned.
//! 2. A requirement that can't be read is refused: it never becomes a wider one.
//! 3. The same workflow, nodes, strategy and seed give the same placement.
//! 4. A draw is weighted by what nodes advertise, among those that may, and by nothing else.
//!
//! What many functions ask alike is worked out once: work for one more of a kind doesn't grow with the number of nodes, but for one that
//! asks for memory where nodes are nearly full, and for the strategies that compare nodes by what they have.

mod node;
mod place;
mod requirements;
mod why_not;
mod workflow;

pub use self::{
    node::{Node, NodeState, Position},
    place::{Areas, Lies, Placed, Placer, Strategy, place_all},
    requirements::{Requirements, RequirementsError},
    why_not::WhyNot,
    workflow::{Function, FunctionTypes, MAX_PARTS, MAX_WORKFLOW_BYTES, Resource, Workflow, WorkflowFault},
};
