//! `GET /api/v1/registered-releases`.

use axum::{extract::State, response::Response};

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::registry::{self, Parameters},
};
use protocol::canary_releases::{RegisteredRelease, ReleaseSpec};

/// Lists registered releases, by name.
#[utoipa::path(get, path = "/api/v1/registered-releases", operation_id = "list_registered_releases", tag = "canaries",
    params(Parameters), responses((status = 200, body = Vec<RegisteredRelease>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    registry::list::<ReleaseSpec>(&ctx, &scope, parameters, "/api/v1/registered-releases").await
}
