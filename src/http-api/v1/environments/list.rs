//! `GET /api/v1/environments`.

use axum::{extract::State, response::Response};

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::registry::{self, Parameters},
};
use protocol::ab_releases::{Environment, EnvironmentSpec};

/// Lists environments, by name.
#[utoipa::path(get, path = "/api/v1/environments", operation_id = "list_environments", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = Vec<Environment>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    registry::list::<EnvironmentSpec>(&ctx, &scope, parameters, "/api/v1/environments").await
}
