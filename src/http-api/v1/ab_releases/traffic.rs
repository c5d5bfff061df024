//! `GET /api/v1/ab-releases/{id}/traffic`.

use std::collections::BTreeMap;

use axum::{Json, extract::State};

use super::lookup::{Progress, ServiceRelease, find};
use crate::{
    Context,
    context::PATIENCE,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::{time::rfc3339, traffic::form::entry},
};
use ab_releases::{Recorded, percent, share_of, subject_of};
use domain::{
    release::{assignment::Assignment, state::Snapshot},
    traffic::{self, Variation, measured},
};
use engine::json_columns;
use model::ReleaseKey;
use protocol::{
    ab_releases::{ABTraffic, BackendShare, CurrentSplit, RouterShare, TrafficDistribution, TrafficHistory},
    api::TrafficEntry,
};
use store::TrafficFilter;

/// Most routers that are named.
const MAX_ROUTERS: usize = 1_000;

/// Most entries of the history.
const MAX_HISTORY: u32 = 1_000;

/// Shows how calls are shared now, over all routers and by each, and how that came about.
#[utoipa::path(get, path = "/api/v1/ab-releases/{id}/traffic", operation_id = "ab_release_traffic",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    responses((status = 200, body = ABTraffic)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<ABTraffic>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    let (key, recorded) = (ReleaseKey(found.row.release_key), found.recorded.clone());
    let (routers, sums) = ctx
        .engine
        .read_apart(PATIENCE, move |state| {
            let sums = traffic::sums(state.traffic.of_release(key).map(|(_, service)| service));
            (routers(state, key, &recorded), sums)
        })
        .await?;
    let shares = share_of(&found.recorded, &found.now.course().shares(&found.recorded));
    let backends = found.recorded.variations.iter().map(|variation| {
        let sum = sums.iter().find(|sum| sum.variation == variation.name);
        let seen = sum.and_then(|sum| sum.seen);
        BackendShare {
            name: variation.name.clone(),
            weight: shares.get(&variation.name).copied().unwrap_or_default(),
            lowest: seen.map(|(lowest, _)| percent(lowest)),
            highest: seen.map(|(_, highest)| percent(highest)),
            healthy_targets: sum.and_then(|sum| sum.healthy),
            total_targets: sum.map_or(variation.targets, |sum| sum.targets),
        }
    });
    let distribution = TrafficDistribution {
        backends: backends.collect(),
        timestamp: rfc3339(ctx.engine.clock().now().wall_ms),
    };
    let mut history = told(&ctx, key).await?;
    if history.is_empty() {
        history = ordered(&found);
    }
    Ok(Json(ABTraffic { current_split: CurrentSplit { distribution, routers }, history }))
}

/// What each router has in hand.
fn routers(state: &Snapshot, key: ReleaseKey, recorded: &Recorded) -> Vec<RouterShare> {
    let Some(release) = state.release(key) else { return Vec::new() };
    let Some(subject) = subject_of(&release.strategy) else { return Vec::new() };
    let now = Progress::of(release);
    // In a hybrid there are agents, too, who give nobody's calls to variations.
    let leads = |part: &Assignment| !part.lacks_in(&release.strategy).contains(subject);
    let members = release.assignments.range(..).filter(|(_, part)| leads(part));
    let each = members.take(MAX_ROUTERS).filter_map(|(child, part)| {
        let router = state.children.get(*child)?.id.as_str().to_owned();
        let place = part.slot.stage_index().filter(|_| part.fetched && !part.status.is_over());
        let stage = recorded.stages.iter().find(|stage| place == Some(usize::from(stage.place)));
        let shares = stage.map_or_else(|| recorded.all_stable(), |stage| now.course().shares_in(stage));
        let stage = stage.map(|stage| stage.name.clone());
        let tells =
            state.traffic.get(*child).and_then(|router| router.services().find(|service| service.is_of(key)));
        let all: u64 = tells.iter().flat_map(|of| &of.variations).filter_map(|one| one.calls).sum();
        let of_each = |share: &dyn Fn(&Variation) -> Option<u16>| {
            let each = tells?.variations.iter().map(|one| Some((one.name.clone(), percent(share(one)?))));
            each.collect::<Option<BTreeMap<_, _>>>()
        };
        Some(RouterShare {
            router,
            stage,
            wanted: share_of(recorded, &shares),
            seen: of_each(&|one| one.seen),
            measured: of_each(&|one| measured(one.calls?, all)),
            generation: tells.map(|service| service.generation),
        })
    });
    each.collect()
}

/// The newest of what routers told of it, in the order of time.
async fn told(ctx: &Context, release: ReleaseKey) -> Result<Vec<TrafficHistory>, Problem> {
    let filter =
        TrafficFilter { before: None, release_key: Some(release.0), service: None, limit: MAX_HISTORY };
    let rows = ctx.engine.reader().traffic_history(filter).await?;
    let mut all: Vec<TrafficHistory> = Vec::new();
    for row in rows.iter().rev() {
        match json_columns::traffic::entry(row) {
            Ok(found) => all.push(shown(entry(found))),
            Err(error) => ctx.engine.unreadable().note(&error),
        }
    }
    Ok(all)
}

fn shown(entry: TrafficEntry) -> TrafficHistory {
    let measured = entry.measured.map(|measured| {
        let of_each = measured.variations.into_iter().filter_map(|(name, of)| Some((name, of.share?)));
        of_each.collect()
    });
    TrafficHistory {
        timestamp: entry.timestamp,
        router: Some(entry.router),
        generation: Some(entry.generation),
        wanted: Some(entry.to.clone()),
        from: entry.from,
        to: entry.to,
        seen: Some(entry.seen),
        measured,
        by: entry.by,
    }
}

/// Where no router tells: a change of shares for each stage that has begun, and one for the end.
fn ordered(found: &ServiceRelease) -> Vec<TrafficHistory> {
    let recorded = &found.recorded;
    let mut from = share_of(recorded, &recorded.all_stable());
    let mut all = Vec::new();
    let mut add = |at: i64, to: BTreeMap<String, f64>, by: &str| {
        let from = std::mem::replace(&mut from, to.clone());
        if from != to {
            let (timestamp, wanted) = (rfc3339(at), Some(to.clone()));
            let (router, generation, by) = (None, None, by.to_owned());
            all.push(TrafficHistory {
                timestamp,
                router,
                generation,
                from,
                to,
                wanted,
                seen: None,
                measured: None,
                by,
            });
        }
    };
    for (place, at) in found.now.begun() {
        if let Some(stage) = recorded.stages.iter().find(|stage| stage.place == place) {
            add(at, share_of(recorded, &stage.shares), STRATEGY);
        }
    }
    if let Some(at) = found.now.ended {
        let to = share_of(recorded, &found.now.course().shares(recorded));
        add(at, to, found.now.ended_by().unwrap_or(STRATEGY));
    }
    all
}

/// Who changes shares where nobody does.
const STRATEGY: &str = "strategy";
