//! `GET /api/v1/rollout-strategies`.

use axum::{Json, extract::State};

use crate::Context;
use ab_releases::shown_template;
use protocol::ab_releases::RolloutStrategyTemplate;

/// Lists the templates of how a share grows, by name: those that every manager has, and those of its folder.
#[utoipa::path(get, path = "/api/v1/rollout-strategies", operation_id = "list_rollout_strategies",
    tag = "progressive delivery", responses((status = 200, body = Vec<RolloutStrategyTemplate>)))]
pub(super) async fn handle(State(ctx): State<Context>) -> Json<Vec<RolloutStrategyTemplate>> {
    Json(ctx.settings.site.strategies.all().map(shown_template).collect())
}
