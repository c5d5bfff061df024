//! `POST /api/v1/target-groups`.

use axum::{Extension, extract::State, response::Response};

use crate::{
    Context,
    auth::CallingOperator,
    extract::{OptionalJson, Query},
    problem::Problem,
    scope::Scope,
    v1::registry,
};
use protocol::{
    ab_releases::{TargetGroup, TargetGroupSpec},
    api::{self, Note},
};

/// Registers a target group, or changes it while no release that is not over names it.
#[utoipa::path(post, path = "/api/v1/target-groups", operation_id = "register_target_group", tag = "progressive delivery",
    params(
        ("by" = Option<String>, Query, description = "Who acts, for the audit trail; a token's name wins."),
        ("note" = Option<String>, Query, description = "Why."),
    ),
    request_body(content = TargetGroupSpec),
    responses(
        (status = 201, body = TargetGroup, description = "Registered."),
        (status = 200, body = TargetGroup, description = "Changed, or it was so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "A release that is not over names it."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "A field can't be taken; it is named."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Option<Extension<CallingOperator>>,
    scope: Scope,
    Query(note): Query<Note>,
    OptionalJson(body): OptionalJson<TargetGroupSpec>,
) -> Result<Response, Problem> {
    registry::register_body(&ctx, (caller, scope), note, body).await
}
