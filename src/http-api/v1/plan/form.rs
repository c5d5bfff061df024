//! A plan as the API shows it.

use std::{collections::HashMap, sync::Arc};

use crate::{scope::Scope, v1::map::planned};
use domain::{
    children::Child,
    plan::{self, Bounds, Cover, Plan, Point, Shape, Tally, Why, metres_from, why_not},
    release::{
        command::LastSeen,
        liveness_check::{self, ReportedLiveness, SilenceLimits},
        power_analysis::Reporting,
        state::Snapshot,
    },
};
use engine::questions::children::place;
use language::{Group, Strategy};
use model::{ChildKey, FEATURE_INTERIM, Now, ReleaseKey, tenant};
use protocol::api::{
    self, PlannedAlpha, PlannedChild, PlannedExclusion, PlannedGroup, PlannedWave, WithoutSurface,
};

/// Most areas that are clipped at the target's border to tell how much of them lies inside: about a second of work.
const MAX_CLIPPED: usize = 20_000;

/// Children without surface that are named.
const MAX_NAMED: usize = 10;

/// Which children are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownChildren {
    None,
    Participants,
    All,
}

/// What is asked beside the plan.
#[derive(Debug, Clone)]
pub struct AskedListing {
    pub children: ShownChildren,
    pub areas: bool,
    /// Whether to count them by cell, of all whom this scope sees.
    pub map: Option<Scope>,
    pub after: Option<ChildKey>,
    pub limit: usize,
}

/// A plan, and what is still to be measured.
pub struct Planned {
    form: api::Plan,
    /// Areas of participants that lie only partly in the target's; `None`: too many.
    partly: Option<Vec<Arc<str>>>,
    bounds: Bounds,
    /// How those who take part report.
    pub reporting: Reporting,
}

impl Planned {
    /// With the sizes that take long to find.
    pub fn measured(self, strategy: &Strategy) -> api::Plan {
        let Self { mut form, partly, bounds, .. } = self;
        let Some(area) = strategy.target.as_ref().and_then(|target| target.area.as_ref()) else {
            return form;
        };
        let children = partly.as_ref().map_or(0, Vec::len);
        let cover = Cover::new(&area.polygons(), &bounds, children);
        form.target_km2 = Some(cover.km2());
        form.within_km2 = partly.map(|areas| {
            let beyond = areas
                .iter()
                .filter_map(|text| Shape::read(text))
                .map(|shape| (shape.km2() - cover.km2_of(&shape)).max(0.0));
            (form.participants.km2 - beyond.sum::<f64>()).max(0.0)
        });
        form
    }
}

/// `told`: what managers below say of who can take part, and those that say nothing.
pub fn plan(
    state: &Snapshot,
    seen: &dyn LastSeen,
    strategy: &Strategy,
    asked: &AskedListing,
    told: &(ReportedLiveness, Vec<ChildKey>),
    now: Now,
) -> Planned {
    let limits = SilenceLimits::of_strategy(strategy);
    let plan = plan::plan_of(strategy, state, |child, _| {
        liveness_check::of_child(state, seen, &told.0, limits, child, now)
    });
    let mut form = shown(state, strategy, asked, &plan);
    form.not_asked = not_asked(state, &told.1);
    form.waits_for = waits_for(state, strategy, now);
    let partly = (plan.partly.len() <= MAX_CLIPPED).then(|| {
        let member = |at: &u32| state.children.get(plan.members[*at as usize])?.area.clone();
        plan.partly.iter().filter_map(member).collect()
    });
    Planned { form, partly, bounds: state.children.areas().bounds(), reporting: reporting(state, &plan) }
}

/// Of a release that was submitted already: who has a part in it, and nobody else. Who would take part by now is no question any more, and
/// in one that is over nobody has.
pub fn under_way(state: &Snapshot, id: &str, strategy: &Strategy, asked: AskedListing) -> api::Plan {
    let release = state.release_by_id(id).filter(|release| !release.state.is_over());
    let mut plan = Plan::default();
    for child in release.into_iter().flat_map(|release| release.assignments.keys()) {
        plan.members.push(*child);
        plan.participants.children += 1;
        let agents = state.children.get(*child).map_or(0, Child::counted_agents);
        plan.participants.agents += u64::from(agents);
        plan.participants.km2 += state.children.areas().get(*child).map_or(0.0, plan::Entry::km2);
    }
    let children = match asked.children {
        ShownChildren::None => ShownChildren::None,
        ShownChildren::Participants | ShownChildren::All => ShownChildren::Participants,
    };
    shown(state, strategy, &AskedListing { children, ..asked }, &plan)
}

/// What a plan says by itself, without what takes long to find.
fn shown(state: &Snapshot, strategy: &Strategy, asked: &AskedListing, plan: &Plan) -> api::Plan {
    let (children, next) = match asked.children {
        ShownChildren::None => (Vec::new(), None),
        ShownChildren::Participants | ShownChildren::All => Listing::new(state, strategy, plan).page(asked),
    };
    let by_wave = plan.by_wave();
    let waves = plan.waves.iter().zip(by_wave).enumerate();
    let routers_from = plan.routers.as_ref().map(|routers| routers.waves_before);
    let of_group =
        |at: usize| routers_from.map(|first| if at < first { Group::Agents } else { Group::Routers });
    // Counts are of each group.
    let before = |at: usize| match (of_group(at), routers_from.and_then(|first| first.checked_sub(1))) {
        (Some(Group::Routers), Some(last)) => plan.waves.get(last).map_or(0, |wave| wave.agents),
        _ => 0,
    };
    api::Plan {
        id: strategy.id.to_string(),
        order: strategy.rollout.as_ref().map(|rollout| rollout.order.word().name().to_owned()),
        participants: group(&plan.participants),
        within_km2: None,
        target_km2: None,
        forwards_to: None,
        beyond_km2: None,
        partial: partial(strategy, plan),
        busy: plan.busy,
        silent: plan.liveness_checks.iter().map(|liveness| liveness.silent).fold(0, u32::saturating_add),
        not_asked: Vec::new(),
        waves: waves
            .map(|(at, (wave, (children, agents)))| PlannedWave {
                wave: at as u32 + 1,
                group: of_group(at).map(|group| group.name().to_owned()),
                amount: wave.amount.to_string(),
                children,
                agents,
                agents_so_far: wave.agents - before(at),
            })
            .collect(),
        alpha: alpha(strategy),
        takes: Vec::new(),
        conditions: Vec::new(),
        stages: super::stages::of(strategy),
        excluded: plan
            .excluded
            .iter()
            .map(|(why, tally)| PlannedExclusion { reason: why.text(strategy), group: group(tally) })
            .collect(),
        waits_for: Vec::new(),
        children,
        next,
        map: asked.map.as_ref().map(|scope| planned(state, scope, strategy, plan)),
        without_surface: without_surface(state, strategy),
        canary: None,
        warnings: Vec::new(),
    }
}

/// Agents of whose stages, or of whose managers' stages, there are reports while they go on.
fn reporting(state: &Snapshot, plan: &Plan) -> Reporting {
    let mut found = Reporting::default();
    for (key, liveness) in plan.members.iter().zip(&plan.liveness_checks) {
        let profile = state.children.get(*key).and_then(|child| child.profile.as_deref());
        let reports = profile.is_some_and(|profile| profile.capabilities.has(FEATURE_INTERIM));
        let of = if reports { &mut found.on_the_way } else { &mut found.once };
        *of += u64::from(liveness.all());
    }
    found
}

/// For what it would wait; what is somebody else's is said once, without a name.
fn waits_for(state: &Snapshot, strategy: &Strategy, now: Now) -> Vec<String> {
    let before = state.goes_before(strategy, ReleaseKey(state.next_release), now);
    let mut names: Vec<String> =
        before.map(|release| tenant::named(strategy.tenant(), &release.id).to_owned()).collect();
    names.dedup();
    names
}

/// Who takes no part for a reason that nobody would look for.
fn without_surface(state: &Snapshot, strategy: &Strategy) -> Option<WithoutSurface> {
    strategy.target.as_ref()?.area.as_ref()?;
    let mut found = WithoutSurface::default();
    for child in state.children.areas().without_surface() {
        let tenant = state.children.get(child).and_then(Child::tenant);
        if strategy.tenant().is_some() && tenant != strategy.tenant() {
            continue;
        }
        found.children += 1;
        if found.names.len() < MAX_NAMED
            && let Some(record) = state.children.get(child)
        {
            let name = record.profile.as_ref().and_then(|profile| profile.name.clone());
            found.names.push(name.unwrap_or_else(|| record.id.to_string()));
        }
    }
    (found.children > 0).then_some(found)
}

fn partial(strategy: &Strategy, plan: &Plan) -> u32 {
    plan.parts.iter().filter(|part| plan::Part(**part).lacks_of_its_own(strategy) > 0).count() as u32
}

/// Most managers that are named.
const MAX_MANAGERS_NAMED: usize = 100;

fn not_asked(state: &Snapshot, managers: &[ChildKey]) -> Vec<String> {
    let ids = managers.iter().filter_map(|key| Some(state.children.get(*key)?.id.to_string()));
    ids.take(MAX_MANAGERS_NAMED).collect()
}

/// Managers below that would take part: those that can be asked who of their agents can, and those that can't.
pub fn managers(state: &Snapshot, strategy: &Strategy) -> (Vec<ChildKey>, Vec<ChildKey>) {
    let of_kind = state.children.iter().filter(|(_, child)| child.kind().is_manager() && child.agents > 0);
    let managers: Vec<ChildKey> = of_kind.map(|(key, _)| key).collect();
    let area = strategy.target.as_ref().and_then(|target| target.area.as_ref());
    let cover =
        area.filter(|_| !managers.is_empty()).map(|area| state.children.areas().cover(&area.polygons()));
    let fits = managers
        .into_iter()
        .filter(|key| matches!(why_not(strategy, state, cover.as_ref(), *key), Some(Ok(_))));
    fits.partition(|key| liveness_check::is_askable(state, *key))
}

fn alpha(strategy: &Strategy) -> Vec<PlannedAlpha> {
    let shares = strategy.alpha_shares().into_iter().map(|share| PlannedAlpha {
        stage: share.stage.and_then(|stage| strategy.stages.get(stage)).map(|stage| stage.name.clone()),
        metric: share.metric.name.clone(),
        strategy: share.metric.strategy().to_owned(),
        alpha: share.alpha,
    });
    shares.collect()
}

fn group(tally: &Tally) -> PlannedGroup {
    PlannedGroup { children: tally.children, agents: tally.agents, km2: tally.km2 }
}

/// Children of a plan, one by one.
struct Listing<'a> {
    state: &'a Snapshot,
    strategy: &'a Strategy,
    plan: &'a Plan,
    cover: Option<Cover>,
}

impl<'a> Listing<'a> {
    fn new(state: &'a Snapshot, strategy: &'a Strategy, plan: &'a Plan) -> Self {
        let area = strategy.target.as_ref().and_then(|target| target.area.as_ref());
        let cover = area.map(|area| state.children.areas().cover(&area.polygons()));
        Self { state, strategy, plan, cover }
    }

    fn page(&self, asked: &AskedListing) -> (Vec<PlannedChild>, Option<String>) {
        let keys: Vec<ChildKey> = match asked.children {
            ShownChildren::None => Vec::new(),
            ShownChildren::Participants => {
                let from = self.plan.members.partition_point(|key| Some(*key) <= asked.after);
                self.plan.members[from..].iter().copied().take(asked.limit + 1).collect()
            }
            ShownChildren::All => {
                // An id whose place another has taken is nobody.
                let rest = self.state.children.after(asked.after);
                let tenant = self.strategy.tenant();
                let is_there = |child: &Child| tenant.is_none() || child.tenant() == tenant;
                let rest = rest.filter(|(_, child)| child.replaced.is_none() && is_there(child));
                rest.map(|(key, _)| key).take(asked.limit + 1).collect()
            }
        };
        let shown = &keys[..keys.len().min(asked.limit)];
        let next = shown.last().filter(|_| keys.len() > shown.len()).map(|key| key.0.to_string());
        let turns = self.turns(shown);
        let child = |key: &ChildKey| {
            let record = self.state.children.get(*key)?;
            let mut child = self.child(*key, record, turns.get(key).copied());
            if asked.areas {
                child.area = record.area.as_deref().and_then(|area| serde_json::from_str(area).ok());
            }
            Some(child)
        };
        (shown.iter().filter_map(child).collect(), next)
    }

    /// The places of some members in the order of locations, from 1.
    fn turns(&self, shown: &[ChildKey]) -> HashMap<ChildKey, u32> {
        let turns = (1..).zip(&self.plan.sequence);
        turns
            .map(|(turn, at)| (self.plan.members[*at as usize], turn))
            .filter(|(key, _)| shown.binary_search(key).is_ok())
            .collect()
    }

    fn child(&self, key: ChildKey, record: &Child, turn: Option<u32>) -> PlannedChild {
        let entry = self.state.children.areas().get(key);
        let member = self.plan.members.binary_search(&key).ok();
        let liveness = member.and_then(|at| self.plan.liveness_checks.get(at));
        let agents = liveness.map_or(record.counted_agents(), |liveness| liveness.all());
        let wave = member.filter(|_| !self.plan.waves.is_empty()).map(|at| self.plan.wave(at) as u32 + 1);
        let last = |at| (0..self.plan.waves.len()).find(|wave| self.plan.quota(at, *wave) == agents);
        let releases = record.open.iter().filter_map(|release| self.state.release(*release));
        let releases = releases.filter(|release| release.id != self.strategy.id);
        let names = releases.map(|release| tenant::named(self.strategy.tenant(), &release.id).to_owned());
        PlannedChild {
            child: record.id.to_string(),
            name: record.profile.as_ref().and_then(|profile| profile.name.clone()),
            place: place(self.state, key),
            kind: record.kind().name().to_owned(),
            agents,
            km2: entry.filter(|entry| entry.bounds().is_some()).map(plan::Entry::km2),
            takes_part: member.is_some(),
            reason: if member.is_some() { None } else { self.reason(key).map(|why| why.text(self.strategy)) },
            functions: member.and_then(|at| self.functions(at)),
            wave,
            last_wave: member.and_then(last).zip(wave).map(|(last, wave)| (last as u32 + 1).max(wave)),
            turn,
            metres: turn.and_then(|_| self.metres(record)),
            busy_with: names.collect(),
            area: None,
        }
    }

    fn reason(&self, key: ChildKey) -> Option<Why> {
        // Who fits, and yet takes no part, has nobody below that does.
        Some(why_not(self.strategy, self.state, self.cover.as_ref(), key)?.err().unwrap_or(Why::NobodyBelow))
    }

    fn functions(&self, at: usize) -> Option<Vec<String>> {
        let part = self.plan.part(at);
        let runs = self.strategy.subject_keys().enumerate().filter(|(at, _)| part.has(*at));
        let names: Vec<String> = runs.map(|(_, key)| key.to_owned()).collect();
        (names.len() < self.strategy.subjects_count()).then_some(names)
    }

    fn metres(&self, record: &Child) -> Option<f64> {
        let [x, y] = self.strategy.rollout.as_ref()?.order.start_at()?;
        Some(metres_from(Point { x, y }, &Shape::read(record.area.as_deref()?)?))
    }
}
