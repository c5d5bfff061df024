//! Whose turn is when: waves of agents, and locations from near to far.

use super::{
    AreaIndex, Fleet, Plan, Point,
    edges::{Edges as _, Where},
    shape::Shape,
};
use crate::strategy::{Amount, Round};

/// Mean radius of the Earth in metres, for distances.
const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// A wave, cumulative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wave {
    /// As the strategy has it.
    pub amount: Amount,
    /// Agents that have had their turn after it.
    pub agents: u32,
}

impl Plan {
    /// The wave (from 0) in which a member has its turn, and with it its first agents; `at` is its index in `members`.
    pub fn wave(&self, at: usize) -> usize {
        let before = self.before.get(at).copied().unwrap_or(0);
        self.waves.partition_point(|wave| wave.agents <= before).min(self.waves.len().saturating_sub(1))
    }

    /// How many of a member's `agents` have had their turn after a wave (from 0). An agent has its turn in one wave; a
    /// child manager's agents may be spread over several, and that is its quota in each.
    pub fn quota(&self, at: usize, agents: u32, wave: usize) -> u32 {
        let (Some(before), Some(wave)) = (self.before.get(at), self.waves.get(wave)) else { return agents };
        wave.agents.saturating_sub(*before).min(agents)
    }

    /// Members that begin in each wave, and agents whose turn is in it.
    pub fn by_wave(&self) -> Vec<(u32, u32)> {
        let mut last = 0;
        let agents = self.waves.iter().map(|wave| wave.agents - std::mem::replace(&mut last, wave.agents));
        let mut counts: Vec<(u32, u32)> = agents.map(|agents| (0, agents)).collect();
        for at in 0..self.members.len() {
            if let Some((children, _)) = counts.get_mut(self.wave(at)) {
                *children += 1;
            }
        }
        counts
    }
}

/// The oldest children first: an order that nobody has to look up, and that the next release has again.
pub(super) fn in_waves(plan: &mut Plan, areas: &AreaIndex, amounts: &[Amount]) {
    let mut total: u32 = 0;
    plan.before = plan
        .members
        .iter()
        .map(|child| {
            let agents = areas.get(*child).map_or(0, |entry| entry.agents);
            let before = total;
            total = total.saturating_add(agents);
            before
        })
        .collect();
    let mut last = 0;
    for amount in amounts {
        let agents = amount.of(total, Round::Up).max(last + 1).min(total);
        if agents > last {
            plan.waves.push(Wave { amount: *amount, agents });
            last = agents;
        }
    }
    // Managers that have no agents yet still have their turn.
    if plan.waves.is_empty() && !plan.members.is_empty() {
        plan.waves.push(Wave { amount: Amount::WHOLE, agents: total });
    }
}

/// Nearest first, ties by id; whose place is unknown comes last.
pub(super) fn by_location(plan: &mut Plan, fleet: &impl Fleet, start: [f64; 2]) {
    let start = Point { x: start[0], y: start[1] };
    let mut turns: Vec<(f64, &str, u32)> = plan
        .members
        .iter()
        .enumerate()
        .map(|(at, child)| {
            let candidate = fleet.candidate(*child);
            let shape = candidate.and_then(|candidate| candidate.area).and_then(Shape::read);
            let distance = shape.map_or(f64::INFINITY, |shape| metres_from(start, &shape));
            (distance, candidate.map_or("", |candidate| candidate.id), at as u32)
        })
        .collect();
    turns.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    plan.sequence = turns.into_iter().map(|(_, _, at)| at).collect();
}

/// Metres from a point to an area, 0 within it. The nearest point of each edge is found in the plane that is true to
/// scale at the point's latitude, its distance by the haversine formula on the sphere.
pub fn metres_from(start: Point, area: &Shape) -> f64 {
    let turns = [-720.0, -360.0, 0.0, 360.0, 720.0];
    let same_places = turns.map(|turn| Point { x: start.x + turn, y: start.y });
    if same_places.iter().any(|start| area.place(*start) != Where::Outside) {
        return 0.0;
    }
    let shrink = start.y.to_radians().cos();
    let mut nearest = f64::INFINITY;
    for start in same_places {
        for edge in area.segments() {
            let (dx, dy) = ((edge.to.x - edge.from.x) * shrink, edge.to.y - edge.from.y);
            let (px, py) = ((start.x - edge.from.x) * shrink, start.y - edge.from.y);
            let length = dx * dx + dy * dy;
            let share = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
            let on_edge = Point {
                x: edge.from.x + (edge.to.x - edge.from.x) * share,
                y: edge.from.y + (edge.to.y - edge.from.y) * share,
            };
            nearest = nearest.min(haversine_m(start, on_edge));
        }
    }
    nearest
}

fn haversine_m(a: Point, b: Point) -> f64 {
    let (dy, dx) = ((b.y - a.y).to_radians() / 2.0, (b.x - a.x).to_radians() / 2.0);
    let h = dy.sin().powi(2) + a.y.to_radians().cos() * b.y.to_radians().cos() * dx.sin().powi(2);
    2.0 * EARTH_RADIUS_M * h.sqrt().clamp(0.0, 1.0).asin()
}
