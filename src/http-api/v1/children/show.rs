//! `GET /api/v1/children/{id}`.

use std::sync::Arc;

use axum::{Json, extract::State};

use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, scope::Scope};
use domain::release::waits::LineInputs;
use engine::questions;
use protocol::api::Child;

/// Shows a child, with its area.
#[utoipa::path(get, path = "/api/v1/children/{id}", operation_id = "show_child", tag = "children",
    params(("id" = String, Path, description = "The id of the child.")),
    responses((status = 200, body = Child)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<Child>, Problem> {
    child(&ctx, &id).await.map(|child| Json(scope.child(child)))
}

/// A child with its area.
pub(super) async fn child(ctx: &Context, id: &str) -> Result<Child, Problem> {
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let wanted = id.to_owned();
    let found = ctx.engine.read(PATIENCE, move |state| {
        let (key, record) = state.children.by_id(&wanted)?;
        let look = LineInputs { state, seen: seen.as_ref(), now, since: seen.listening_since() };
        let mut child = questions::children::child(&look, key, record);
        let profile = record.profile.as_ref().filter(|profile| profile.kind.is_manager());
        child.public_url =
            profile.and_then(|profile| profile.capabilities.public_url.as_deref()).map(str::to_owned);
        Some((child, record.area.clone()))
    });
    let (mut child, area) = found.await?.ok_or_else(|| Problem::unknown_child(id))?;
    // Read outside the engine: an area may have a thousand positions.
    child.outside = ctx.settings.service_area.as_ref().is_some_and(|own| own.is_outside(area.as_deref()));
    child.area = area.and_then(|area| serde_json::from_str(&area).ok());
    Ok(child)
}
