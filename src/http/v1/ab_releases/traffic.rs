//! `GET /api/v1/ab-releases/{id}/traffic`.

use std::collections::BTreeMap;

use axum::{Json, extract::State};

use super::found::{Found, find};
use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, scope::Scope, v1::time::rfc3339};
use heart::release::state::Snapshot;
use model::ReleaseKey;
use progressive::{Recorded, share_of};
use wire::progressive::{
    ABTraffic, BackendShare, CurrentSplit, RouterShare, TrafficDistribution, TrafficHistory,
};

/// Most routers that are named.
const MAX_ROUTERS: usize = 1_000;

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
    let routers = ctx.engine.read(PATIENCE, move |state| routers(state, key, &recorded)).await?;
    let shares = share_of(&found.recorded, &found.now.course().shares(&found.recorded));
    let backends = found.recorded.variations.iter().map(|variation| BackendShare {
        name: variation.name.clone(),
        weight: shares.get(&variation.name).copied().unwrap_or_default(),
        healthy_targets: None,
        total_targets: variation.targets,
    });
    let distribution = TrafficDistribution {
        backends: backends.collect(),
        timestamp: rfc3339(ctx.engine.clock().now().wall_ms),
    };
    let history = history(&found);
    Ok(Json(ABTraffic { current_split: CurrentSplit { distribution, routers }, history }))
}

/// What each router has in hand.
fn routers(state: &Snapshot, release: ReleaseKey, recorded: &Recorded) -> Vec<RouterShare> {
    let Some(release) = state.release(release) else { return Vec::new() };
    let each = release.assignments.range(..).take(MAX_ROUTERS).filter_map(|(child, part)| {
        let router = state.children.get(*child)?.id.as_str().to_owned();
        let place = part.slot.stage_index().filter(|_| part.fetched && !part.status.is_over());
        let stage = recorded.stages.iter().find(|stage| place == Some(usize::from(stage.place)));
        let shares = stage.map_or_else(|| recorded.all_stable(), |stage| stage.shares.clone());
        let stage = stage.map(|stage| stage.name.clone());
        Some(RouterShare { router, stage, wanted: share_of(recorded, &shares) })
    });
    each.collect()
}

/// A change of shares for each stage that has begun, and one for the end.
fn history(found: &Found) -> Vec<TrafficHistory> {
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
        add(at, to, found.now.ended_by.as_deref().unwrap_or(STRATEGY));
    }
    all
}

/// Who changes shares where nobody does.
const STRATEGY: &str = "strategy";
