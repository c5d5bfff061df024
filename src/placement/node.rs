use std::collections::BTreeSet;

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// A UUID in small letters; no other one has it.
    pub id: Box<str>,
    pub state: NodeState,
    /// It is a manager, and has what the nodes below it have together. Which of them may run something that manager says.
    pub has_nodes_below: bool,
    /// It doesn't say which runtimes, or which labels, those have.
    pub may_have_any_runtime: bool,
    pub may_have_any_label: bool,
    /// `key=value`, or `key` alone where the value is empty.
    pub labels: BTreeSet<String>,
    /// What runs functions there.
    pub runtimes: BTreeSet<String>,
    /// Classes of the resources that it provides.
    pub resources: BTreeSet<String>,
    /// It runs in a trusted execution environment.
    pub is_tee: bool,
    /// It has a trusted platform module.
    pub has_tpm: bool,
    /// Processors, cores of each, and their clock in MHz; 0 where it doesn't say.
    pub cpus: u32,
    pub cores: u32,
    pub mhz: u32,
    /// MiB that functions may have; none where it doesn't say.
    pub memory_mib: Option<u64>,
    /// The middle of its area; none where it has none.
    pub at: Option<Position>,
}

/// Whether it may be given anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeState {
    #[default]
    Ready,
    /// An operator has said that nothing new comes to it.
    Cordoned,
    /// It has said nothing for too long.
    Silent,
}

/// A place on the globe, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    pub east: f64,
    pub north: f64,
}

impl Position {
    /// Grows with the distance on the globe: the square of the chord, of a globe of radius 1.
    pub(crate) fn apart(self, other: Self) -> f64 {
        let point = |at: Self| {
            let (east, north) = (at.east.to_radians(), at.north.to_radians());
            [north.cos() * east.cos(), north.cos() * east.sin(), north.sin()]
        };
        point(self).iter().zip(point(other)).map(|(one, two)| (one - two).powi(2)).sum()
    }
}

impl Node {
    /// How often it is drawn beside others: processors × cores × MHz. What isn't advertised counts as 1.
    #[must_use]
    pub fn weight(&self) -> f64 {
        let advertised = |number: u32| f64::from(number.max(1));
        advertised(self.cpus) * advertised(self.cores) * advertised(self.mhz)
    }
}
