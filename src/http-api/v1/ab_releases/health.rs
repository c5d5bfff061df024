//! `GET /api/v1/ab-releases/{id}/health`.

use axum::{Json, extract::State};

use super::lookup::{find, holds, metrics};
use crate::{Context, extract::Path, problem::Problem, scope::Scope};
use engine::stage_measurements::StageMeasured;
use protocol::ab_releases::{ABHealth, VariationHealth};

/// Shows how each variation does, by what was measured in the last stage that has begun.
#[utoipa::path(get, path = "/api/v1/ab-releases/{id}/health", operation_id = "ab_release_health",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    responses((status = 200, body = ABHealth)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<ABHealth>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    let measured = found.measured(&ctx).await?;
    let current = found.now.course().current(&found.recorded);
    let places = found.recorded.stages.iter().take(current.map_or(0, |at| at + 1)).map(|stage| stage.place);
    let last = places.rev().find_map(|place| Some((place, measured.get(&place)?)));
    let nothing = StageMeasured::default();
    let (stage, told) = match last {
        Some((place, told)) => (found.now.strategy.stages.get(usize::from(place)), told),
        None => (None, &nothing),
    };
    let variations = found.recorded.variations.iter().enumerate().map(|(at, variation)| {
        let of = told.variation(at, &variation.name).unwrap_or(&nothing.new);
        let has_failed = at == 1 && told.has_failed && told.variations.is_empty();
        let is_bad = at > 0 && (has_failed || stage.is_some_and(|stage| !holds(stage, of)));
        let health_status = match (is_bad, of.calls) {
            (true, _) => "unhealthy",
            (false, 0) => "unknown",
            (false, _) => "healthy",
        };
        VariationHealth {
            name: variation.name.clone(),
            health_status: health_status.to_owned(),
            metrics: metrics(of),
            samples: of.calls,
        }
    });
    Ok(Json(ABHealth { variations: variations.collect() }))
}
