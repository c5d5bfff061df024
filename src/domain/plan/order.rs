//! Whose turn is when: waves of agents, and locations from near to far.

use super::{
    Fleet, Liveness, Plan, Wave,
    edges::{Edges as _, Point, Where},
    shape::Shape,
};
use language::{Amount, Round};

/// Mean radius of the Earth in metres, for distances.
const EARTH_RADIUS_M: f64 = 6_371_008.8;

impl Plan {
    /// The wave (from 0) in which a member has its turn, and with it its first agents; `at` is its index in `members`.
    pub fn wave(&self, at: usize) -> usize {
        let last = self.last_wave(at);
        let before = self.before.get(at).copied().unwrap_or(0);
        match self.liveness_checks.get(at) {
            Some(Liveness { live: 0, silent: 1.. }) => last,
            _ => self.waves.partition_point(|wave| wave.agents <= before).min(last),
        }
    }

    /// How many of a member's agents have had their turn after a wave (from 0). An agent has its turn in one wave; a
    /// child manager's agents may be spread over several, and that is its quota in each. Those that are silent come last.
    pub fn quota(&self, at: usize, wave: usize) -> u32 {
        let Some(liveness) = self.liveness_checks.get(at) else { return 0 };
        let (Some(before), Some(of)) = (self.before.get(at), self.waves.get(wave)) else {
            return liveness.all();
        };
        if wave >= self.last_wave(at) {
            return liveness.all();
        }
        of.agents.saturating_sub(*before).min(liveness.live)
    }

    /// The last wave of a member's group.
    fn last_wave(&self, at: usize) -> usize {
        let end = match &self.routers {
            Some(routers) if !self.is_router(at) => routers.waves_before,
            Some(_) | None => self.waves.len(),
        };
        end.saturating_sub(1)
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

/// The oldest children first: an order that nobody has to look up, and that the next release has again. Who is silent has its
/// turn with the last wave, so that nobody waits for them, unless everybody is: then the order is as if nobody were.
///
/// In a hybrid this is so of agents and of routers, each by itself.
pub(super) fn cut_into_waves(plan: &mut Plan, amounts: &[Amount], keeps_empty: bool) {
    plan.before = vec![0; plan.members.len()];
    let (routers, agents): (Vec<usize>, Vec<usize>) =
        (0..plan.members.len()).partition(|at| plan.is_router(*at));
    let passed = cut_group(plan, &agents, amounts, keeps_empty, 0);
    let waves_before = plan.waves.len();
    if plan.routers.is_some() {
        cut_group(plan, &routers, amounts, keeps_empty, passed);
    }
    if let Some(routers) = &mut plan.routers {
        routers.waves_before = waves_before;
    }
}

/// Cuts the waves of some members, whose indices these are and before whom so many agents have their turn. Gives how many have had it
/// then.
fn cut_group(plan: &mut Plan, group: &[usize], amounts: &[Amount], keeps_empty: bool, passed: u32) -> u32 {
    let liveness_checks = || group.iter().filter_map(|at| plan.liveness_checks.get(*at));
    let all_silent = liveness_checks().all(|liveness| liveness.live == 0);
    let sum = |of: fn(&Liveness) -> u32| liveness_checks().map(of).fold(0, u32::saturating_add);
    let total = sum(|liveness| liveness.all());
    let live = if all_silent { total } else { sum(|liveness| liveness.live) };
    let mut before = passed;
    for at in group {
        let Some(liveness) = plan.liveness_checks.get_mut(*at) else { continue };
        if all_silent {
            *liveness = Liveness { live: liveness.silent, silent: 0 };
        }
        if let Some(place) = plan.before.get_mut(*at) {
            *place = before;
        }
        before = before.saturating_add(liveness.live);
    }
    let waves = cut(amounts, Filled { total, live, so_far: 0 }, keeps_empty);
    let of_all = |wave: Wave| Wave { agents: passed.saturating_add(wave.agents), ..wave };
    let is_empty = waves.is_empty();
    plan.waves.extend(waves.into_iter().map(of_all));
    let all = passed.saturating_add(total);
    // Managers that have no agents yet still have their turn.
    if is_empty && !group.is_empty() {
        plan.waves.push(Wave { amount: Amount::WHOLE, agents: all });
    }
    // Who is silent comes after all who are live, and before the next group.
    all
}

/// How many agents there are, how many of them are heard of and yet to come, and how many have had their turn.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    pub total: u32,
    pub live: u32,
    pub so_far: u32,
}

/// The waves that are to come, cumulative, each at least one larger than the one before; all but the last hold only those
/// that are heard of. One that would hold nobody is left out, unless it `keeps_empty` ones.
pub fn cut(amounts: &[Amount], of: Filled, keeps_empty: bool) -> Vec<Wave> {
    let (mut waves, mut last) = (Vec::new(), of.so_far);
    let mut wanted = of.so_far;
    for amount in amounts {
        wanted = amount.of(of.total, Round::Up).max(wanted.saturating_add(1)).min(of.total);
        let agents = if wanted == of.total { wanted } else { wanted.min(of.so_far.saturating_add(of.live)) };
        if agents > last || (keeps_empty && last < of.total) {
            waves.push(Wave { amount: *amount, agents });
            last = agents;
        }
    }
    waves
}

/// Nearest first, ties by id; whose place is unknown comes last, and after them all who are silent.
pub(super) fn order_by_location(plan: &mut Plan, fleet: &impl Fleet, start: [f64; 2]) {
    let start = Point { x: start[0], y: start[1] };
    let silent: Vec<bool> =
        plan.liveness_checks.iter().map(|liveness| liveness.live == 0 && liveness.silent > 0).collect();
    let all_silent = |is_router: bool| {
        (0..silent.len())
            .filter(|at| plan.is_router(*at) == is_router)
            .all(|at| silent.get(at) == Some(&true))
    };
    let all_silent = [all_silent(false), all_silent(true)];
    let mut turns: Vec<(bool, bool, f64, &str, u32)> = plan
        .members
        .iter()
        .enumerate()
        .map(|(at, child)| {
            let candidate = fleet.candidate(*child);
            let shape = candidate.and_then(|candidate| candidate.area).and_then(Shape::read);
            let distance = shape.map_or(f64::INFINITY, |shape| metres_from(start, &shape));
            let is_router = plan.is_router(at);
            let is_last = silent[at] && !all_silent[usize::from(is_router)];
            (is_router, is_last, distance, candidate.map_or("", |candidate| candidate.id), at as u32)
        })
        .collect();
    let by_place = |a: &f64, b: &f64| a.total_cmp(b);
    turns.sort_by(|a, b| {
        (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| by_place(&a.2, &b.2)).then_with(|| a.3.cmp(b.3))
    });
    let live = |routers: bool| {
        turns.iter().filter(|(is_router, is_last, ..)| *is_router == routers && !is_last).count() as u32
    };
    let of_routers = live(true);
    plan.live = live(false);
    if let Some(routers) = &mut plan.routers {
        routers.live = of_routers;
    }
    plan.sequence = turns.into_iter().map(|(.., at)| at).collect();
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
