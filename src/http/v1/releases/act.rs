//! What the actions on a release have in common: one command, then the release as it is now.

use axum::Json;

use super::show;
use crate::{Context, context::PATIENCE, problem::Problem};
use engine::By;
use heart::release::command::Command;
use wire::api::Release;

/// Carries out a command about a release.
pub(super) async fn act(ctx: &Context, id: &str, command: Command, by: By) -> Result<Json<Release>, Problem> {
    ctx.engine.call(command, by, PATIENCE).await?;
    Ok(Json(show::detail(ctx, id).await?.release))
}

/// Why it is done: the note, else who did it.
pub(super) fn reason(by: &By) -> String {
    by.note.clone().unwrap_or_else(|| format!("by {}", by.actor.name()))
}
