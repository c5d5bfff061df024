use std::{collections::BTreeMap, fmt};

use model::{name_variants, steps};

use super::{Node, Position, Requirements, WhyNot, Workflow};

/// How one of several nodes that may is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// By chance, weighted by [`Node::weight`].
    #[default]
    Random,
    /// The next one after the last that was chosen, with wrap-around, among those that may.
    RoundRobin,
    /// The one with the fewest functions.
    Spread,
    /// The one nearest to what it exchanges events with; of equally near ones that with the fewest functions. One whose place isn't
    /// known comes last.
    Nearest,
}

name_variants!(Strategy {
    Random => "random",
    RoundRobin => "round_robin",
    Spread => "spread",
    Nearest => "nearest",
});

/// How a node lies to an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// Its area and this one have something in common.
    Inside,
    Outside,
    /// It has no area.
    Unknown,
}

/// Says how all nodes lie to an area.
pub trait Areas: fmt::Debug {
    /// In the order of the nodes. `area`: [`Requirements::area`].
    fn lie(&self, area: &str) -> Vec<Lies>;
}

/// Where a function or a resource comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The place of the node among all.
    At(usize),
    Nowhere,
}

impl Placed {
    /// The place of the node among all.
    #[must_use]
    pub const fn node(self) -> Option<usize> {
        match self {
            Self::At(node) => Some(node),
            Self::Nowhere => None,
        }
    }
}

/// Places functions, one after the other, on nodes that don't change meanwhile.
#[derive(Debug)]
pub struct Placer<'n> {
    nodes: &'n [Node],
    areas: &'n dyn Areas,
    strategy: Strategy,
    /// Functions of each node.
    functions: Vec<u32>,
    /// MiB that they take.
    taken_mib: Vec<u64>,
    /// The node that was chosen last.
    last: Option<usize>,
    /// Who may run what is asked for alike, whatever memory it takes.
    eligible: BTreeMap<Requirements, Eligible>,
    /// How many nodes all of these have.
    held: usize,
}

/// Functions and resources of one node, which it is told of all together.
const MOST_OF_A_NODE: u32 = 5_000;

/// Nodes that are remembered for all kinds of requirements together: some tens of megabytes.
const MOST_HELD: usize = 4_000_000;

/// Nodes that may, whatever memory is left there.
#[derive(Debug, Default)]
struct Eligible {
    /// In the order of all.
    nodes: Vec<u32>,
    /// The weights of them and of all before.
    sums: Vec<f64>,
}

impl<'n> Placer<'n> {
    /// `last`: the node that was chosen last, as [`Self::last`] gave it.
    #[must_use]
    pub fn new(nodes: &'n [Node], areas: &'n dyn Areas, strategy: Strategy, last: Option<usize>) -> Self {
        let (functions, taken_mib) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        Self { nodes, areas, strategy, functions, taken_mib, last, eligible: BTreeMap::new(), held: 0 }
    }

    /// A function runs at a node already.
    pub fn note(&mut self, node: usize, asked: &Requirements) {
        if let (Some(functions), Some(taken)) = (self.functions.get_mut(node), self.taken_mib.get_mut(node)) {
            *functions = functions.saturating_add(1);
            *taken = taken.saturating_add(asked.memory_mib);
        }
    }

    /// How nodes are chosen from now on.
    pub const fn choose_by(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// The node that was chosen last.
    #[must_use]
    pub const fn last(&self) -> Option<usize> {
        self.last
    }

    /// Chooses a node for a function. `near`: nodes of what it exchanges events with. `draw`: evenly from 0 to below 1, another one each
    /// time.
    pub fn place(&mut self, asked: &Requirements, near: &[usize], draw: f64) -> Placed {
        self.place_elsewhere(asked, near, draw, None)
    }

    /// As [`Self::place`], on another node than one.
    pub fn place_elsewhere(
        &mut self,
        asked: &Requirements,
        near: &[usize],
        draw: f64,
        than: Option<usize>,
    ) -> Placed {
        let Some(node) = self.choose(asked, near, draw, than) else { return Placed::Nowhere };
        self.note(node, asked);
        self.last = Some(node);
        Placed::At(node)
    }

    /// The next node after one that may run what is asked for, with wrap-around, and never that one itself.
    pub fn place_after(&mut self, asked: &Requirements, after: usize) -> Placed {
        let kind = self.find_eligible(asked);
        let Some(all) = self.eligible.get(&kind) else { return Placed::Nowhere };
        steps::take(all.nodes.len());
        let may = |node: &usize| *node != after && self.has_room(*node, asked);
        let later = all.nodes().filter(|node| *node > after).find(may);
        let Some(node) = later.or_else(|| all.nodes().find(may)) else { return Placed::Nowhere };
        self.note(node, asked);
        self.last = Some(node);
        Placed::At(node)
    }

    /// Chooses a node for a resource: any that may is as likely as another.
    pub fn place_resource(&mut self, asked: &Requirements, draw: f64) -> Placed {
        self.place_resource_elsewhere(asked, draw, None)
    }

    /// As [`Self::place_resource`], on another node than one.
    pub fn place_resource_elsewhere(
        &mut self,
        asked: &Requirements,
        draw: f64,
        than: Option<usize>,
    ) -> Placed {
        let kind = self.find_eligible(asked);
        let Some(all) = self.eligible.get(&kind) else { return Placed::Nowhere };
        let may = |node: &usize| Some(*node) != than && self.has_room(*node, asked);
        let with_room: Vec<usize> = all.nodes().filter(may).collect();
        let at = (draw * with_room.len() as f64) as usize;
        let Some(node) = with_room.get(at).or(with_room.last()).copied() else { return Placed::Nowhere };
        if let Some(taken) = self.taken_mib.get_mut(node) {
            *taken = taken.saturating_add(asked.memory_mib);
        }
        Placed::At(node)
    }

    /// Why each node may not now, by its place among all; those that may left out.
    #[must_use]
    pub fn why_not(&self, asked: &Requirements) -> Vec<(usize, WhyNot)> {
        steps::take(self.nodes.len());
        let each = self.nodes.iter().zip(self.lie(asked)).enumerate();
        let why = |(at, (node, lies)): (usize, (&Node, Lies))| {
            let is_full = self.functions.get(at).is_some_and(|functions| *functions >= MOST_OF_A_NODE);
            let full = is_full.then_some(WhyNot::Full);
            Some((at, WhyNot::with_memory(node, lies, self.left_mib(at), asked).or(full)?))
        };
        each.filter_map(why).collect()
    }

    fn lie(&self, asked: &Requirements) -> Vec<Lies> {
        asked.area.as_ref().map_or_else(|| vec![Lies::Inside; self.nodes.len()], |area| self.areas.lie(area))
    }

    /// Has [`Self::eligible`] hold who may, whatever memory is left there, and answers under which key: requirements that are alike but for
    /// their memory are one.
    fn find_eligible(&mut self, asked: &Requirements) -> Requirements {
        let kind = Requirements { memory_mib: 0, ..asked.clone() };
        if !self.eligible.contains_key(&kind) {
            steps::take(self.nodes.len());
            let each = self.nodes.iter().zip(self.lie(asked)).enumerate();
            let may = each.filter(|(_, (node, lies))| WhyNot::of(node, *lies, asked).is_none());
            let all = Eligible::from_nodes(self.nodes, may.map(|(at, _)| at));
            if self.held > MOST_HELD {
                (self.held, self.eligible) = (0, BTreeMap::new());
            }
            self.held += all.nodes.len() + 1;
            self.eligible.insert(kind.clone(), all);
        }
        kind
    }

    fn choose(
        &mut self,
        asked: &Requirements,
        near: &[usize],
        draw: f64,
        except: Option<usize>,
    ) -> Option<usize> {
        let kind = self.find_eligible(asked);
        let all = self.eligible.get(&kind)?;
        steps::take(1);
        let (chosen, draw) = self.of(all, near, draw)?;
        let may = |node: usize| Some(node) != except && self.has_room(node, asked);
        if may(chosen) {
            return Some(chosen);
        }
        // Who was chosen has no memory left. Where in its part of all the draw fell is as even as the draw was.
        steps::take(all.nodes.len());
        let others = Eligible::from_nodes(self.nodes, all.nodes().filter(|node| may(*node)));
        self.of(&others, near, draw).map(|(node, _)| node)
    }

    fn left_mib(&self, node: usize) -> Option<u64> {
        let has = self.nodes.get(node)?.memory_mib?;
        Some(has.saturating_sub(self.taken_mib.get(node).copied().unwrap_or_default()))
    }

    fn has_room(&self, node: usize, asked: &Requirements) -> bool {
        let has_place = self.functions.get(node).is_some_and(|functions| *functions < MOST_OF_A_NODE);
        has_place && self.has_memory(node, asked)
    }

    fn has_memory(&self, node: usize, asked: &Requirements) -> bool {
        asked.memory_mib == 0 || self.left_mib(node).is_some_and(|left| left >= asked.memory_mib)
    }

    /// One of them, and what is left of the draw: evenly from 0 to below 1, too.
    fn of(&self, all: &Eligible, near: &[usize], draw: f64) -> Option<(usize, f64)> {
        let fewest = |node: &usize| self.functions.get(*node).copied();
        let node = match self.strategy {
            Strategy::Random => {
                let drawn = draw * *all.sums.last()?;
                let at = all.sums.partition_point(|before| *before <= drawn).min(all.nodes.len() - 1);
                let before =
                    at.checked_sub(1).and_then(|before| all.sums.get(before)).copied().unwrap_or(0.0);
                let part = all.sums.get(at).map_or(0.0, |after| (drawn - before) / (after - before));
                return Some((all.node(at)?, part.clamp(0.0, 1.0)));
            }
            Strategy::RoundRobin => {
                let is_before = |node: &u32| self.last.is_some_and(|last| *node as usize <= last);
                let after = all.nodes.partition_point(is_before);
                all.node(after).or_else(|| all.node(0))
            }
            Strategy::Spread => all.nodes().min_by_key(fewest),
            Strategy::Nearest => {
                let position = |node: &usize| self.nodes.get(*node)?.at;
                let from: Vec<Position> = near.iter().filter_map(position).collect();
                let apart = |node: &usize| {
                    let at = position(node)?;
                    Some(from.iter().map(|from| from.apart(at).sqrt()).sum::<f64>())
                };
                let far = |node: &usize| if from.is_empty() { 0.0 } else { apart(node).unwrap_or(f64::MAX) };
                let each = all.nodes().map(|node| (far(&node), fewest(&node), node));
                let nearest = each.min_by(|one, two| one.0.total_cmp(&two.0).then(one.1.cmp(&two.1)));
                nearest.map(|(_, _, node)| node)
            }
        };
        if matches!(self.strategy, Strategy::Spread | Strategy::Nearest) {
            steps::take(all.nodes.len());
        }
        Some((node?, draw))
    }
}

impl Eligible {
    fn from_nodes(nodes: &[Node], all: impl Iterator<Item = usize>) -> Self {
        let mut sum = 0.0;
        let each = all.map(|at| {
            sum += nodes.get(at).map_or(0.0, Node::weight);
            (at as u32, sum)
        });
        let (nodes, sums) = each.unzip();
        Self { nodes, sums }
    }

    fn nodes(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().map(|node| *node as usize)
    }

    fn node(&self, at: usize) -> Option<usize> {
        self.nodes.get(at).map(|node| *node as usize)
    }
}

/// Places a workflow: its resources, then its functions, in their order. `draw`: evenly from 0 to below 1, another number at each call.
///
/// One for each resource, and one for each function.
pub fn place_all(
    workflow: &Workflow,
    placer: &mut Placer<'_>,
    mut draw: impl FnMut() -> f64,
) -> (Vec<Placed>, Vec<Placed>) {
    let mut by_name = BTreeMap::new();
    let mut resources = Vec::with_capacity(workflow.resources.len());
    for resource in &workflow.resources {
        let placed = placer.place_resource(&resource.requirements, draw());
        by_name.extend(placed.node().map(|node| (&*resource.name, node)));
        resources.push(placed);
    }
    let neighbours = workflow.neighbours();
    let mut functions = Vec::with_capacity(workflow.functions.len());
    for function in &workflow.functions {
        let of = neighbours.get(&*function.name).into_iter().flatten();
        let near: Vec<usize> = of.filter_map(|name| by_name.get(name).copied()).collect();
        let placed = placer.place(&function.requirements, &near, draw());
        by_name.extend(placed.node().map(|node| (&*function.name, node)));
        functions.push(placed);
    }
    (resources, functions)
}
