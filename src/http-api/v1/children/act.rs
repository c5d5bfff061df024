//! What the actions on a child have in common: one command, then the child as it is now.

use axum::Json;

use super::show;
use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope};
use domain::release::command::Command;
use engine::By;
use protocol::api::Child;

/// Carries out a command about a child.
pub(super) async fn act(
    ctx: &Context,
    scope: &Scope,
    id: &str,
    command: Command,
    by: By,
) -> Result<Json<Child>, Problem> {
    ctx.engine.call(command, by, PATIENCE).await?;
    Ok(Json(scope.child(show::child(ctx, id).await?)))
}
