use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Node, Requirements, WhyNot};

/// How one of several nodes that may is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// By chance, weighted by [`Node::weight`].
    #[default]
    Random,
    /// The next one after the last that was chosen, with wrap-around, among those that may.
    RoundRobin,
    /// The one with the fewest functions.
    Spread,
}

/// Where a function comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The place of the node among all.
    At(usize),
    Nowhere,
}

/// Places functions, one after the other, on nodes that don't change meanwhile.
#[derive(Debug)]
pub struct Placer<'n> {
    nodes: &'n [Node],
    strategy: Strategy,
    /// Functions of each node.
    functions: Vec<u32>,
    /// MiB that they take.
    taken_mib: Vec<u64>,
    /// The node that was chosen last.
    last: Option<usize>,
    /// Who may run what is asked for alike.
    may: BTreeMap<Requirements, Eligible>,
}

/// Nodes that may, whatever memory is left there.
#[derive(Debug, Default)]
struct Eligible {
    /// In the order of all.
    nodes: Vec<usize>,
    /// The weights of them and of all before.
    sums: Vec<f64>,
}

impl<'n> Placer<'n> {
    /// `last`: the node that was chosen last, as [`Self::last`] gave it.
    #[must_use]
    pub fn new(nodes: &'n [Node], strategy: Strategy, last: Option<usize>) -> Self {
        let (functions, taken_mib) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        Self { nodes, strategy, functions, taken_mib, last, may: BTreeMap::new() }
    }

    /// A function runs at a node already.
    pub fn note(&mut self, node: usize, asked: &Requirements) {
        if let (Some(functions), Some(taken)) = (self.functions.get_mut(node), self.taken_mib.get_mut(node)) {
            *functions = functions.saturating_add(1);
            *taken = taken.saturating_add(asked.memory_mib);
        }
    }

    /// The node that was chosen last.
    #[must_use]
    pub const fn last(&self) -> Option<usize> {
        self.last
    }

    /// Chooses a node. `draw`: evenly from 0 to below 1, another one for each function.
    pub fn place(&mut self, asked: &Requirements, draw: f64) -> Placed {
        if !self.may.contains_key(asked) {
            self.may.insert(asked.clone(), Eligible::of(self.nodes, asked));
        }
        let Some(all) = self.may.get(asked) else { return Placed::Nowhere };
        let chosen = self.choose(all, draw).filter(|node| self.has_room(*node, asked)).or_else(|| {
            // Who was chosen has no memory left, or nobody may.
            let with_room = all.nodes.iter().copied().filter(|node| self.has_room(*node, asked));
            self.choose(&Eligible::from_nodes(self.nodes, with_room.collect()), draw)
        });
        let Some(node) = chosen else { return Placed::Nowhere };
        self.note(node, asked);
        self.last = Some(node);
        Placed::At(node)
    }

    /// Why each node may not run it now, those that may left out.
    pub fn why_not<'p>(&'p self, asked: &'p Requirements) -> impl Iterator<Item = (&'n Node, WhyNot)> + 'p {
        let each = self.nodes.iter().enumerate();
        each.filter_map(|(at, node)| Some((node, WhyNot::of(node, self.left_mib(at), asked)?)))
    }

    fn left_mib(&self, node: usize) -> Option<u64> {
        let has = self.nodes.get(node)?.memory_mib?;
        Some(has.saturating_sub(self.taken_mib.get(node).copied().unwrap_or_default()))
    }

    fn has_room(&self, node: usize, asked: &Requirements) -> bool {
        asked.memory_mib == 0 || self.left_mib(node).is_some_and(|left| left >= asked.memory_mib)
    }

    fn choose(&self, all: &Eligible, draw: f64) -> Option<usize> {
        match self.strategy {
            Strategy::Random => {
                let sum = *all.sums.last()?;
                let at = all.sums.partition_point(|before| *before <= draw * sum);
                all.nodes.get(at).or(all.nodes.last()).copied()
            }
            Strategy::RoundRobin => {
                let after = self.last.map_or(0, |last| all.nodes.partition_point(|node| *node <= last));
                all.nodes.get(after).or(all.nodes.first()).copied()
            }
            Strategy::Spread => all.nodes.iter().copied().min_by_key(|node| self.functions.get(*node)),
        }
    }
}

impl Eligible {
    fn of(nodes: &[Node], asked: &Requirements) -> Self {
        let may = |node: &&Node| WhyNot::whatever_is_left(node, asked).is_none();
        let all = nodes.iter().enumerate().filter(|(_, node)| may(node)).map(|(at, _)| at);
        Self::from_nodes(nodes, all.collect())
    }

    fn from_nodes(nodes: &[Node], all: Vec<usize>) -> Self {
        let mut sum = 0.0;
        let sums = all.iter().map(|at| {
            sum += nodes.get(*at).map_or(0.0, Node::weight);
            sum
        });
        Self { sums: sums.collect(), nodes: all }
    }
}
