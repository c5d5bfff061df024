//! What the actions on a release have in common: one command, then the release as it is now.

use axum::{Json, http::StatusCode};

use super::{changed, if_match::IfMatch, show};
use crate::{Context, context::PATIENCE, problem::Problem};
use domain::release::{
    command::{Command, Refusal},
    lifecycle,
    state::Snapshot,
};
use engine::{By, EngineError, presentation::release::strategy_of};
use protocol::api::Release;

/// Carries out a command about a release, if that is the one that was seen.
pub(super) async fn act(
    ctx: &Context,
    id: &str,
    command: Command,
    by: By,
    seen: IfMatch,
) -> Result<Json<Release>, Problem> {
    check_note(ctx, id, &by).await?;
    match ctx.engine.call(seen.guard(id, command), by.clone(), PATIENCE).await {
        Ok(_) => Ok(Json(show::detail(ctx, id).await?.release)),
        Err(EngineError::Refused(Refusal::Changed { current, .. })) => {
            Err(changed::problem(ctx, id, &seen, current, &by).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// The command that aborts a release, with the note and the name of who does it.
pub(in crate::v1) fn roll_back(release: String, by: &By) -> Command {
    let (note, by) = (by.note.clone(), Some(by.actor.name()));
    Command::Lifecycle(lifecycle::Command::Abort { release, note, by })
}

/// Refuses what is done without a note to a release that wants one. Whatever route acts on a release asks this first.
pub async fn check_note(ctx: &Context, id: &str, by: &By) -> Result<(), Problem> {
    if has_note(by) || !wants_note(ctx, id).await? {
        return Ok(());
    }
    let detail = format!(
        "release {id} wants a note with whatever is done to it: say why, with \"note\" in the body or --note on the command line"
    );
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "note-required", detail))
}

fn has_note(by: &By) -> bool {
    by.note.as_deref().is_some_and(|note| !note.trim().is_empty())
}

/// Whether its strategy wants a note of whoever acts. A release that isn't known wants none.
async fn wants_note(ctx: &Context, id: &str) -> Result<bool, Problem> {
    let wanted = id.to_owned();
    let in_memory =
        move |state: &Snapshot| state.release_by_id(&wanted).map(|release| release.strategy.wants_notes());
    if let Some(wants) = ctx.engine.read(PATIENCE, in_memory).await? {
        return Ok(wants);
    }
    let row = ctx.engine.reader().release(id).await?;
    let strategy = row.and_then(|row| strategy_of(&row, ctx.engine.unreadable()));
    Ok(strategy.is_some_and(|strategy| strategy.wants_notes()))
}

/// Why it is done: the note, else who did it.
pub(super) fn reason(by: &By) -> String {
    by.note.clone().unwrap_or_else(|| format!("by {}", by.actor.name()))
}
