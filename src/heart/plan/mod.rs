//! Who takes part in a release, in which wave or order, and why each of the others does not.
//!
//! [`plan`] is pure and deterministic: the same strategy over the same children gives the same plan, whoever asks
//! and whenever. It tells for everybody why: [`why_not`] gives the reason for one child, by the same rules.
//!
//! - An area takes part if its inside and the target's share more than a border. Planar, as RFC 7946; places that
//!   are a turn around the globe apart are the same place.
//! - A child runs a function if it has the runtimes of both versions; one that reports none has all. Unless the
//!   target allows parts, it must run all functions.
//! - Labels of operators win over those that a child reports.
//! - Agents are what is counted: an agent is one, a child release manager as many as it says.
//!
//! Not here: what is offered to whom and when (the heart decides), liveness, whether a child is busy: it is told,
//! but keeps nobody out.

mod advice;
mod clip;
mod cover;
mod edges;
mod index;
mod kept;
mod needs;
mod order;
mod shape;
mod why;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use advice::{Advice, advise};
pub use clip::clipped;
pub use cover::{Cover, Lies};
pub use edges::{Point, Segment};
pub use index::{AreaIndex, ENTRY_BYTES, Entry, Place};
pub use kept::KeptCover;
pub use needs::Needs;
pub use order::{Filled, Wave, cut, metres_from};
pub use shape::{Bounds, Shape};
pub use why::{Part, Why};

use language::{Order, Strategy};
use model::{Capabilities, ChildKey, Cordon};

/// A child, as far as a plan depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub cordon: Cordon,
    /// `None`: it reports nothing, so it has every runtime.
    pub capabilities: Option<&'a Capabilities>,
    /// Labels that operators gave.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// GeoJSON.
    pub area: Option<&'a str>,
    /// Whether it has a part in another release.
    pub is_busy: bool,
    /// Whether it stands for the children that it has itself: what it doesn't say of them is not known.
    pub is_manager: bool,
}

/// The children, however they are kept.
pub trait Fleet {
    /// Each of them is in there.
    fn areas(&self) -> &AreaIndex;
    fn candidate(&self, child: ChildKey) -> Option<Candidate<'_>>;

    /// Whether a child has not proven that it is back from an earlier release of a function. Asked only of those that have
    /// a part in another release.
    fn owes(&self, _child: ChildKey, _function: &str) -> bool {
        false
    }
}

/// Children, agents and square kilometres of some group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub children: u32,
    pub agents: u64,
    pub km2: f64,
}

impl Tally {
    fn add(&mut self, entry: &Entry) {
        self.add_with(entry, entry.agents);
    }

    fn add_with(&mut self, entry: &Entry, agents: u32) {
        self.children += 1;
        self.agents += u64::from(agents);
        self.km2 += entry.km2();
    }
}

/// How many agents a child stands for, by whether they are heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Turnout {
    pub live: u32,
    /// They have nothing in hand, and were not heard of for too long.
    pub silent: u32,
}

impl Turnout {
    pub const fn all(self) -> u32 {
        self.live.saturating_add(self.silent)
    }
}

/// Who takes part, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Ascending.
    pub members: Vec<ChildKey>,
    pub participants: Tally,
    /// Participants that have a part in another release, too, and have their turn after that.
    pub busy: u32,
    /// Indices of members of whose areas only a part may lie in the target's.
    pub partly: Vec<u32>,
    /// For each member the functions that it runs, as a set of indices; empty where everybody runs all.
    pub parts: Vec<u64>,
    /// In the order of [`Why`].
    pub excluded: Vec<(Why, Tally)>,
    /// For `location_sequential`: indices of `members` in the order of their turns. Else empty.
    pub sequence: Vec<u32>,
    /// For `waves`: who has had their turn after each. Waves that would hold nobody are left out. Else empty.
    pub waves: Vec<Wave>,
    /// For `waves`: live agents of the members before each member. Else empty.
    pub before: Vec<u32>,
    /// The agents of each member.
    pub turnouts: Vec<Turnout>,
    /// For `location_sequential`: so many of the sequence are live; the others have their turn together, last.
    pub live: u32,
}

impl Plan {
    /// The functions that a member runs; `at` is its index in `members`.
    pub fn part(&self, at: usize) -> Part {
        self.parts.get(at).map_or(Part::ALL, |set| Part(*set))
    }
}

/// Plans a release over all children, as if all of them were heard of.
pub fn plan(strategy: &Strategy, fleet: &impl Fleet) -> Plan {
    plan_of(strategy, fleet, |_, entry| Turnout { live: entry.agents, silent: 0 })
}

/// Plans a release over all children. `turnout` says how many agents each of them stands for; one of a manager without any is
/// said only where that is known.
pub fn plan_of(
    strategy: &Strategy,
    fleet: &impl Fleet,
    turnout: impl Fn(ChildKey, &Entry) -> Turnout,
) -> Plan {
    let rules = why::Rules::new(strategy);
    let mut plan = Plan::default();
    let mut parts = Vec::new();
    let mut excluded: BTreeMap<Why, Tally> = BTreeMap::new();
    let (mut outside, mut unknown) = (Tally::default(), Tally::default());
    sift(&rules, fleet, |child, entry, judged| match judged {
        Ok((part, place, is_busy)) => {
            let agents = turnout(child, entry);
            if agents.all() == 0 && entry.agents > 0 {
                excluded.entry(Why::NobodyBelow).or_default().add(entry);
                return;
            }
            plan.members.push(child);
            plan.turnouts.push(agents);
            plan.participants.add_with(entry, agents.all());
            plan.busy += u32::from(is_busy);
            if place == Place::Partly {
                plan.partly.push(plan.members.len() as u32 - 1);
            }
            parts.push(part);
        }
        Err(Why::Outside) => outside.add(entry),
        Err(Why::NoArea) => unknown.add(entry),
        Err(why) => excluded.entry(why).or_default().add(entry),
    });
    if parts.iter().any(|part| *part != Part::ALL) {
        plan.parts = parts.into_iter().map(|part| part.0).collect();
    }
    excluded.insert(Why::Outside, outside);
    excluded.insert(Why::NoArea, unknown);
    plan.excluded = excluded.into_iter().filter(|(_, tally)| tally.children > 0).collect();
    match strategy.rollout.as_ref().map(|rollout| &rollout.order) {
        Some(Order::LocationSequential { start_at }) => order::by_location(&mut plan, fleet, *start_at),
        Some(Order::Waves(amounts)) => {
            // The parent counts the waves: one that can't be filled here keeps its number.
            let keeps_empty = strategy.from_parent.as_ref().is_some_and(|said| said.waves.is_some());
            order::in_waves(&mut plan, amounts, keeps_empty);
        }
        Some(Order::Parallel | Order::GlobalIncremental) | None => {}
    }
    plan
}

/// Who can take part where this is needed: the same as those of a plan, in their order.
pub fn able(needs: &Needs, fleet: &impl Fleet, mut each: impl FnMut(ChildKey, &Entry, Result<(), Why>)) {
    let rules = why::Rules::of(needs);
    sift(&rules, fleet, |child, entry, judged| each(child, entry, judged.map(drop)));
}

/// Judges every child, in order of birth: what it runs, where it lies and whether it has a part in another release, or
/// why it takes no part.
fn sift(
    rules: &why::Rules<'_>,
    fleet: &impl Fleet,
    mut each: impl FnMut(ChildKey, &Entry, Result<(Part, Place, bool), Why>),
) {
    let areas = fleet.areas();
    let judge = |child: ChildKey, place: Place| {
        let candidate = fleet.candidate(child)?;
        Some(rules.judge(fleet, child, &candidate).map(|part| (part, place, candidate.is_busy)))
    };
    let Some(area) = rules.area() else {
        for (child, entry) in areas.iter() {
            if let Some(judged) = judge(child, Place::Inside) {
                each(child, entry, judged);
            }
        }
        return;
    };
    let text = |child| fleet.candidate(child).and_then(|candidate| candidate.area);
    areas.place(&areas.cover(&area), text, |child, entry, place| match place {
        Place::Inside | Place::Partly => {
            if let Some(judged) = judge(child, place) {
                each(child, entry, judged);
            }
        }
        Place::Outside => each(child, entry, Err(Why::Outside)),
        Place::Unknown => each(child, entry, Err(Why::NoArea)),
    });
}

/// What a single child would do in a release, by the rules of [`plan`]. For many children prepare the target's
/// [`Cover`] once.
pub fn why_not(
    strategy: &Strategy,
    fleet: &impl Fleet,
    cover: Option<&Cover>,
    child: ChildKey,
) -> Option<Result<(Part, Place), Why>> {
    let candidate = fleet.candidate(child)?;
    judged(strategy, fleet, cover, child, &candidate)
}

/// What a child would do in a release that has begun, or what would keep it out, where neither that it is cordoned nor that
/// it owes something is a reason; `None` for one that is not known.
pub fn fit(
    strategy: &Strategy,
    fleet: &impl Fleet,
    cover: Option<&Cover>,
    child: ChildKey,
) -> Option<Result<Part, Why>> {
    let candidate = Candidate { cordon: Cordon::Open, is_busy: false, ..fleet.candidate(child)? };
    Some(judged(strategy, fleet, cover, child, &candidate)?.map(|(part, _)| part))
}

fn judged(
    strategy: &Strategy,
    fleet: &impl Fleet,
    cover: Option<&Cover>,
    child: ChildKey,
    candidate: &Candidate<'_>,
) -> Option<Result<(Part, Place), Why>> {
    let entry = fleet.areas().get(child)?;
    let place = match cover {
        None => Place::Inside,
        Some(cover) => index::place(cover, child, entry, &|_| candidate.area),
    };
    Some(match place {
        Place::Outside => Err(Why::Outside),
        Place::Unknown => Err(Why::NoArea),
        Place::Inside | Place::Partly => {
            why::Rules::new(strategy).judge(fleet, child, candidate).map(|part| (part, place))
        }
    })
}
