use std::collections::BTreeSet;

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// No other one has it.
    pub id: Box<str>,
    pub state: NodeState,
    /// As the node says them.
    pub labels: BTreeSet<String>,
    /// Types of functions that it runs.
    pub runtimes: BTreeSet<String>,
    /// Classes of resources that it offers.
    pub resources: BTreeSet<String>,
    /// It runs in a trusted execution environment.
    pub is_tee: bool,
    /// It has a trusted platform module.
    pub has_tpm: bool,
    /// Processors, cores of each, and their clock in MHz; 0 where it doesn't say.
    pub cpus: f64,
    pub cores: f64,
    pub mhz: f64,
    /// MiB that functions may have; none where it doesn't say.
    pub memory_mib: Option<u64>,
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

impl Node {
    /// How often it is drawn beside others: processors × cores × MHz. What isn't a positive number counts as 1, also where that is the
    /// product.
    #[must_use]
    pub fn weight(&self) -> f64 {
        let advertised = |number: f64| if number.is_finite() && number > 0.0 { number } else { 1.0 };
        let weight = advertised(self.cpus) * advertised(self.cores) * advertised(self.mhz);
        advertised(weight)
    }
}
