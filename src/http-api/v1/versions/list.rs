//! `GET /api/v1/versions`.

use axum::{extract::State, response::Response};

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::registry::{self, Parameters},
};
use protocol::ab_releases::{RegisteredVersion, VersionSpec};

/// Lists versions, by name.
#[utoipa::path(get, path = "/api/v1/versions", operation_id = "list_versions", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = Vec<RegisteredVersion>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    registry::list::<VersionSpec>(&ctx, &scope, parameters, "/api/v1/versions").await
}
