use std::fmt;

use super::{Node, NodeState, Requirements};

/// Why a node may not run a function: the first reason, in the order in which these stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    Silent,
    Cordoned,
    Runtime(String),
    /// It isn't one of those that are named.
    NotNamed,
    Label(String),
    Resource(String),
    Tee,
    Tpm,
    /// It has so many MiB left, of which nobody knows where it doesn't say how many it has.
    Memory {
        left: Option<u64>,
    },
}

impl WhyNot {
    /// None: it may. `left`: MiB that functions may still have there.
    #[must_use]
    pub fn of(node: &Node, left: Option<u64>, asked: &Requirements) -> Option<Self> {
        Self::whatever_is_left(node, asked).or_else(|| {
            let is_enough = asked.memory_mib == 0 || left.is_some_and(|left| left >= asked.memory_mib);
            (!is_enough).then_some(Self::Memory { left })
        })
    }

    /// The same as far as it doesn't change with what is placed.
    pub(super) fn whatever_is_left(node: &Node, asked: &Requirements) -> Option<Self> {
        let missing = |has: &std::collections::BTreeSet<String>,
                       wanted: &std::collections::BTreeSet<String>| {
            wanted.difference(has).next().cloned()
        };
        match node.state {
            NodeState::Silent => return Some(Self::Silent),
            NodeState::Cordoned => return Some(Self::Cordoned),
            NodeState::Ready => {}
        }
        if !node.runtimes.contains(&asked.runtime) {
            return Some(Self::Runtime(asked.runtime.clone()));
        }
        if !asked.nodes.is_empty() && !asked.nodes.contains(&*node.id) {
            return Some(Self::NotNamed);
        }
        if let Some(label) = missing(&node.labels, &asked.labels) {
            return Some(Self::Label(label));
        }
        if let Some(class) = missing(&node.resources, &asked.resources) {
            return Some(Self::Resource(class));
        }
        if asked.tee && !node.is_tee {
            return Some(Self::Tee);
        }
        (asked.tpm && !node.has_tpm).then_some(Self::Tpm)
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("it has said nothing for too long"),
            Self::Cordoned => f.write_str("it is cordoned"),
            Self::Runtime(runtime) => write!(f, "it runs no {runtime}"),
            Self::NotNamed => f.write_str("node_id_match_any doesn't name it"),
            Self::Label(label) => write!(f, "it has no label {label}"),
            Self::Resource(class) => write!(f, "it offers no {class}"),
            Self::Tee => f.write_str("it runs in no trusted execution environment"),
            Self::Tpm => f.write_str("it has no trusted platform module"),
            Self::Memory { left: Some(left) } => write!(f, "it has {left} MiB left"),
            Self::Memory { left: None } => f.write_str("it doesn't say how much memory it has"),
        }
    }
}
