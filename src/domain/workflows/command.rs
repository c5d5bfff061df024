//! What is asked about workflows.

use std::sync::Arc;

use super::{Above, Phase, Secret};

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `chance`: where draws begin.
    Start {
        new: Box<NewWorkflow>,
        chance: u64,
    },
    Stop {
        id: String,
    },
    /// How one of several nodes is chosen for its parts from now on; none: as the configuration says.
    SetStrategy {
        id: String,
        strategy: Option<placement::Strategy>,
    },
    /// A function is to run on the first of these nodes that may run it.
    Move {
        id: String,
        /// The function, as the workflow calls it.
        part: String,
        /// Ids of children.
        nodes: Vec<String>,
    },
    /// What the parent has placed here is to be something else.
    SetAbove {
        id: String,
        above: Arc<Above>,
    },
    /// The whole of what runs on a node.
    Report {
        child: String,
        told: Vec<Told>,
    },
    /// Time has passed: parts that wait are tried again, and nodes that are gone are looked for.
    Look {
        chance: u64,
    },
}

/// A workflow that is to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflow {
    pub id: String,
    pub definition: Arc<placement::Workflow>,
    /// The definition as it was posted, and which runtime runs which type of functions.
    pub text: Arc<str>,
    pub types: Arc<placement::FunctionTypes>,
    pub archive: Option<[u8; 32]>,
    pub secret: Secret,
    /// How one of several nodes is chosen; none: as the configuration says.
    pub strategy: Option<placement::Strategy>,
    /// A UUID for each part, resources first.
    pub logical: Vec<Box<str>>,
    /// Of a part that the parent has placed here.
    pub above: Option<Arc<Above>>,
    pub by: String,
}

/// An instance, as its node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub id: Box<str>,
    pub phase: Phase,
    /// Where its events are taken, if that isn't where its node takes them.
    pub url: Option<Box<str>>,
}
