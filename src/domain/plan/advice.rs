//! What is probably meant otherwise, as the children show it: an area with latitude first, a runtime that nobody has.

use std::collections::{BTreeMap, BTreeSet};

use super::{Candidate, Fleet, Plan, Why, exclusions::Rules, plan};
use language::{Strategy, Target, TargetArea};
use model::{Capabilities, ChildKey};

/// Most runtimes of children that are gathered.
const MAX_RUNTIMES: usize = 64;

/// Most kinds of routers that are gathered.
const MAX_KINDS: usize = 16;

/// What is odd about a strategy for these children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advice {
    /// Nobody lies in the target's area; so many children would, were latitude and longitude the other way round.
    pub swapped: Option<u32>,
    /// Runtimes that children have, where some lack one; empty where all who say what they have can run everything.
    pub runtimes: BTreeSet<String>,
    /// Agents that take part and are led in place: they route the calls of their functions by themselves, and judge.
    pub in_place: u32,
    /// All agents that take part.
    pub agents: u64,
    /// The kinds of routers that lead services, and how many routers are of each.
    pub routers: BTreeMap<String, u32>,
    /// Ports to which calls are taken over from other programs, by the place of their service in the strategy, and how many routers do so
    /// in which way.
    pub taken_over: BTreeMap<(usize, u16, Takeover), u32>,
    /// Ports of which other programs still take some of the calls, past how many routers.
    pub shared_ports: BTreeMap<(usize, u16), u32>,
    /// Ports that routers don't have, how many these are, and what one of them has. A release is refused by them.
    pub without_port: BTreeMap<(usize, u16), (u32, String)>,
}

/// How calls to a port that another program has come to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Takeover {
    /// It takes them there as well, until the other program ends that.
    Socket,
    /// The kernel sends them, and the other program goes on.
    Nftables,
}

/// Looks at a plan once more; what routers say of ports isn't known here. Costs another plan where nobody lies in the area, and a look at
/// all children where some lack a runtime; else next to nothing.
pub fn advise(strategy: &Strategy, fleet: &impl Fleet, plan: &Plan) -> Advice {
    let lacks = |why: &Why| matches!(why, Why::Runtime(..));
    let some_lack = plan.excluded.iter().any(|(why, _)| lacks(why)) || !plan.parts.is_empty();
    Advice {
        swapped: count_swapped(strategy, fleet, plan),
        runtimes: if some_lack { gather_runtimes(strategy, fleet) } else { BTreeSet::new() },
        in_place: count_in_place(strategy, fleet, plan),
        agents: plan.participants.agents,
        routers: if strategy.services.is_empty() { BTreeMap::new() } else { count_routers(fleet, plan) },
        taken_over: BTreeMap::new(),
        shared_ports: BTreeMap::new(),
        without_port: BTreeMap::new(),
    }
}

fn count_routers(fleet: &impl Fleet, plan: &Plan) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for child in plan.leaders() {
        let candidate = fleet.candidate(child).filter(|candidate| !candidate.is_manager);
        let kinds = candidate.and_then(|candidate| Some(&candidate.capabilities?.routers));
        for kind in kinds.into_iter().flatten() {
            if found.len() < MAX_KINDS || found.contains_key(kind) {
                *found.entry(kind.clone()).or_default() += 1;
            }
        }
    }
    found
}

fn count_in_place(strategy: &Strategy, fleet: &impl Fleet, plan: &Plan) -> u32 {
    let is_in_place = |(at, child): &(usize, &ChildKey)| {
        let leads = |child: Candidate<'_>| {
            !child.is_manager && child.capabilities.is_some_and(Capabilities::leads_itself)
        };
        plan.part(*at).lacks_of_its_own(strategy) == 0 && fleet.candidate(**child).is_some_and(leads)
    };
    plan.members.iter().enumerate().filter(is_in_place).count() as u32
}

fn count_swapped(strategy: &Strategy, fleet: &impl Fleet, planned: &Plan) -> Option<u32> {
    let target = strategy.target.as_ref()?;
    let area = target.area.as_ref()?;
    let outside = |why: &Why| matches!(why, Why::Outside | Why::NoArea);
    if !planned.members.is_empty() || !planned.excluded.iter().all(|(why, _)| outside(why)) {
        return None;
    }
    let TargetArea(polygons) = area;
    let corners = polygons.iter().flatten().flatten();
    if corners.into_iter().any(|[longitude, _]| longitude.abs() > 90.0) {
        return None;
    }
    let turned = polygons
        .iter()
        .map(|rings| rings.iter().map(|ring| ring.iter().map(|[x, y]| [*y, *x]).collect()).collect())
        .collect();
    let target = Target { area: Some(TargetArea(turned)), ..target.clone() };
    let turned = plan(&Strategy { target: Some(target), ..strategy.clone() }, fleet);
    let within = turned.excluded.iter().filter(|(why, _)| !outside(why)).map(|(_, tally)| tally.children);
    let children = turned.participants.children + within.sum::<u32>();
    (children > 0).then_some(children)
}

fn gather_runtimes(strategy: &Strategy, fleet: &impl Fleet) -> BTreeSet<String> {
    let rules = Rules::new(strategy);
    let mut found = BTreeSet::new();
    for (child, _) in fleet.areas().iter() {
        let candidate = fleet.candidate(child).filter(|candidate| rules.sees(candidate));
        let runtimes = candidate.and_then(|candidate| candidate.capabilities?.runtimes.as_ref());
        for runtime in runtimes.into_iter().flatten() {
            if found.len() < MAX_RUNTIMES {
                found.insert(runtime.clone());
            }
        }
    }
    found
}
