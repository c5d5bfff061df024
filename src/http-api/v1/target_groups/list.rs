//! `GET /api/v1/target-groups`.

use axum::{extract::State, response::Response};

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::registry::{self, Parameters},
};
use protocol::ab_releases::{TargetGroup, TargetGroupSpec};

/// Lists target groups, by name.
#[utoipa::path(get, path = "/api/v1/target-groups", operation_id = "list_target_groups", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = Vec<TargetGroup>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    registry::list::<TargetGroupSpec>(&ctx, &scope, parameters, "/api/v1/target-groups").await
}
