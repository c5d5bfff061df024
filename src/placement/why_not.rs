use std::{collections::BTreeSet, fmt};

use super::{Node, NodeState, Requirements, place::Lies};

/// Why a node may not run a function: the first reason, in the order in which these stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    Silent,
    Cordoned,
    /// It runs nothing of this runtime.
    Runtime(String),
    /// It isn't one of those that are named.
    NotNamed,
    Label(String),
    /// It provides no resource of this class.
    Resource(String),
    /// Its area doesn't meet that which is asked for.
    Outside,
    /// It has no area.
    NoArea,
    Tee,
    Tpm,
    /// It has less than so many MiB left.
    Memory(u64),
    /// It doesn't say how much memory it has.
    NoMemory,
    /// It has as many functions as a node may have.
    Full,
}

impl WhyNot {
    /// None: it may, as far as that doesn't change with what is placed.
    pub(crate) fn of(node: &Node, lies: Lies, asked: &Requirements) -> Option<Self> {
        let missing =
            |has: &BTreeSet<String>, wanted: &BTreeSet<String>| wanted.difference(has).next().cloned();
        match node.state {
            NodeState::Silent => return Some(Self::Silent),
            NodeState::Cordoned => return Some(Self::Cordoned),
            NodeState::Ready => {}
        }
        let lacks = |runtime: &&String| !node.runtimes.contains(*runtime) && !node.may_have_any_runtime;
        if let Some(runtime) = asked.runtime.as_ref().filter(lacks) {
            return Some(Self::Runtime(runtime.clone()));
        }
        if !asked.nodes.is_empty() && !asked.nodes.contains(&*node.id) && !node.has_nodes_below {
            return Some(Self::NotNamed);
        }
        let label = missing(&node.labels, &asked.labels).filter(|_| !node.may_have_any_label);
        if let Some(label) = label {
            return Some(Self::Label(label));
        }
        if let Some(class) = missing(&node.resources, &asked.resources) {
            return Some(Self::Resource(class));
        }
        match lies {
            Lies::Outside => return Some(Self::Outside),
            Lies::Unknown => return Some(Self::NoArea),
            Lies::Inside => {}
        }
        if asked.tee && !node.is_tee {
            return Some(Self::Tee);
        }
        (asked.tpm && !node.has_tpm).then_some(Self::Tpm)
    }

    /// The same with the MiB that functions may still have there.
    pub(crate) fn with_memory(
        node: &Node,
        lies: Lies,
        left_mib: Option<u64>,
        asked: &Requirements,
    ) -> Option<Self> {
        let lacks = match left_mib {
            _ if asked.memory_mib == 0 => None,
            Some(left) if left >= asked.memory_mib => None,
            Some(_) => Some(Self::Memory(asked.memory_mib)),
            None => Some(Self::NoMemory),
        };
        Self::of(node, lies, asked).or(lacks)
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
            Self::Resource(class) => write!(f, "it provides no resource {class}"),
            Self::Outside => f.write_str("it is outside of the area"),
            Self::NoArea => f.write_str("it has no area"),
            Self::Tee => f.write_str("it runs in no trusted execution environment"),
            Self::Tpm => f.write_str("it has no trusted platform module"),
            Self::Memory(asked) => write!(f, "it has less than {asked} MiB left"),
            Self::Full => f.write_str("it has as many functions as a node may have"),
            Self::NoMemory => f.write_str("it doesn't say how much memory it has"),
        }
    }
}
