//! Every child is judged, and whoever takes part has a turn.

use std::collections::BTreeMap;

use super::{
    Candidate, Cover, Entry, Fleet, Liveness, Needs, Part, Place, Plan, Tally, Why, exclusions::Rules, index,
    order, planned::Routers,
};
use language::{Amount, Group, Order, Strategy};
use model::{ChildKey, Cordon};

/// Plans a release over all children, as if all of them were heard of.
pub fn plan(strategy: &Strategy, fleet: &impl Fleet) -> Plan {
    plan_of(strategy, fleet, |_, entry| Liveness { live: entry.agents, silent: 0 })
}

/// Plans a release over all children. `liveness` says how many agents each of them stands for; one of a manager without any is
/// said only where that is known.
pub fn plan_of(
    strategy: &Strategy,
    fleet: &impl Fleet,
    liveness: impl Fn(ChildKey, &Entry) -> Liveness,
) -> Plan {
    let rules = Rules::new(strategy);
    let mut plan = Plan::default();
    let mut parts = Vec::new();
    let mut excluded: BTreeMap<Why, Tally> = BTreeMap::new();
    let (mut outside, mut unknown) = (Tally::default(), Tally::default());
    sift(&rules, fleet, |child, entry, judged| match judged {
        Ok((part, place, is_busy)) => {
            let agents = liveness(child, entry);
            if agents.all() == 0 && entry.agents > 0 {
                excluded.entry(Why::NobodyBelow).or_default().add(entry);
                return;
            }
            plan.members.push(child);
            plan.liveness_checks.push(agents);
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
    if strategy.is_hybrid() {
        part(strategy, &mut plan, &mut parts, fleet, &mut excluded);
    }
    if parts.iter().any(|part| *part != Part::ALL) {
        plan.parts = parts.into_iter().map(|part| part.0).collect();
    }
    excluded.insert(Why::Outside, outside);
    excluded.insert(Why::NoArea, unknown);
    plan.excluded = excluded.into_iter().filter(|(_, tally)| tally.children > 0).collect();
    match strategy.rollout.as_ref().map(|rollout| &rollout.order) {
        Some(Order::LocationSequential { start_at }) => order::order_by_location(&mut plan, fleet, *start_at),
        Some(Order::Waves(amounts)) => {
            // The parent counts the waves: one that can't be filled here keeps its number.
            let keeps_empty = strategy.from_parent.as_ref().is_some_and(|said| said.waves.is_some());
            order::cut_into_waves(&mut plan, amounts, keeps_empty);
        }
        Some(Order::Parallel | Order::GlobalIncremental) if strategy.is_hybrid() => {
            order::cut_into_waves(&mut plan, &[Amount::WHOLE], false);
        }
        Some(Order::Parallel | Order::GlobalIncremental) | None => {}
    }
    plan
}

/// Parts the members of a hybrid. Where one of the groups has nobody, the other has nothing to do: agents would change what no router
/// sends calls to, or routers send them where nobody has proven anything.
fn part(
    strategy: &Strategy,
    plan: &mut Plan,
    parts: &mut Vec<Part>,
    fleet: &impl Fleet,
    excluded: &mut BTreeMap<Why, Tally>,
) {
    let is_router = |part: &Part| part.group(strategy) == Group::Routers;
    let routers: Vec<u32> =
        (0..).zip(parts.iter()).filter(|(_, part)| is_router(part)).map(|(at, _)| at).collect();
    if !routers.is_empty() && routers.len() < parts.len() {
        plan.routers = Some(Routers { members: routers, ..Routers::default() });
        return;
    }
    for (child, part) in plan.members.iter().zip(parts.iter()) {
        let other = if is_router(part) { Group::Agents } else { Group::Routers };
        if let Some(entry) = fleet.areas().get(*child) {
            excluded.entry(Why::Alone(other)).or_default().add(entry);
        }
    }
    *plan = Plan::default();
    parts.clear();
}

/// Who can take part where this is needed: the same as those of a plan, in their order.
pub fn able(needs: &Needs, fleet: &impl Fleet, mut each: impl FnMut(ChildKey, &Entry, Result<(), Why>)) {
    let rules = Rules::of(needs);
    sift(&rules, fleet, |child, entry, judged| each(child, entry, judged.map(drop)));
}

/// Judges every child, in order of birth: what it runs, where it lies and whether it has a part in another release, or
/// why it takes no part.
fn sift(
    rules: &Rules<'_>,
    fleet: &impl Fleet,
    mut each: impl FnMut(ChildKey, &Entry, Result<(Part, Place, bool), Why>),
) {
    let areas = fleet.areas();
    let judge = |child: ChildKey, place: Place| {
        let candidate = fleet.candidate(child).filter(|candidate| rules.sees(candidate))?;
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
    let is_there =
        |child| rules.sees_all() || fleet.candidate(child).is_some_and(|candidate| rules.sees(&candidate));
    areas.place(&areas.cover(&area), text, |child, entry, place| match place {
        Place::Inside | Place::Partly => {
            if let Some(judged) = judge(child, place) {
                each(child, entry, judged);
            }
        }
        Place::Outside if is_there(child) => each(child, entry, Err(Why::Outside)),
        Place::Unknown if is_there(child) => each(child, entry, Err(Why::NoArea)),
        Place::Outside | Place::Unknown => {}
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
    judge(strategy, fleet, cover, child, &candidate)
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
    Some(judge(strategy, fleet, cover, child, &candidate)?.map(|(part, _)| part))
}

/// In which group of a hybrid a child has its part, wherever it lies; of another strategy there is one.
pub fn group_of(strategy: &Strategy, fleet: &impl Fleet, child: ChildKey) -> Group {
    match fit(strategy, fleet, None, child) {
        Some(Ok(part)) if strategy.is_hybrid() => part.group(strategy),
        Some(Ok(_) | Err(_)) | None => Group::Agents,
    }
}

fn judge(
    strategy: &Strategy,
    fleet: &impl Fleet,
    cover: Option<&Cover>,
    child: ChildKey,
    candidate: &Candidate<'_>,
) -> Option<Result<(Part, Place), Why>> {
    let rules = Rules::new(strategy);
    let entry = fleet.areas().get(child).filter(|_| rules.sees(candidate))?;
    let place = match cover {
        None => Place::Inside,
        Some(cover) => index::place(cover, child, entry, &|_| candidate.area),
    };
    Some(match place {
        Place::Outside => Err(Why::Outside),
        Place::Unknown => Err(Why::NoArea),
        Place::Inside | Place::Partly => rules.judge(fleet, child, candidate).map(|part| (part, place)),
    })
}
