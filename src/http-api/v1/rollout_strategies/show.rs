//! `GET /api/v1/rollout-strategies/{id}`.

use axum::{Json, extract::State, http::StatusCode};

use crate::{Context, extract::Path, problem::Problem};
use ab_releases::{read_strategy, shown_template};
use protocol::ab_releases::RolloutStrategyTemplate;

/// Shows a template of how a share grows.
#[utoipa::path(get, path = "/api/v1/rollout-strategies/{id}", operation_id = "show_rollout_strategy",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID or its name.")),
    responses((status = 200, body = RolloutStrategyTemplate)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
) -> Result<Json<RolloutStrategyTemplate>, Problem> {
    let found = read_strategy(&serde_json::Value::String(id), &ctx.settings.site.strategies);
    let found =
        found.map_err(|fault| Problem::new(StatusCode::NOT_FOUND, "unknown-rollout-strategy", fault.why))?;
    Ok(Json(shown_template(&found)))
}
