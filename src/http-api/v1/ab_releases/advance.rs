//! `POST /api/v1/ab-releases/{id}/advance`.

use axum::{Extension, Json, extract::State, http::StatusCode};

use super::{
    act::{act, approve, resume, skip, under_way},
    lookup::{ServiceRelease, find},
};
use crate::{
    Context,
    auth::CallingOperator,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use domain::release::{command::Command, state::ReleaseState};
use protocol::{
    ab_releases::{ABRelease, Advance},
    api::{self, Note},
};

/// Goes on to the next stage, or to a later one: what waits for an approval is approved, and a stage that is still going on, or lies in
/// between, is passed over.
#[utoipa::path(post, path = "/api/v1/ab-releases/{id}/advance", operation_id = "advance_ab_release",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    request_body(content = Option<Advance>),
    responses(
        (status = 200, body = ABRelease, description = "It goes on, or was there already."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such release or stage."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It is not under way, or the stage lies behind."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Option<Extension<CallingOperator>>,
    scope: Scope,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<Advance>,
) -> Result<Json<ABRelease>, Problem> {
    let Advance { stage_number, by, note } = body.unwrap_or_default();
    let by = acting(caller.as_deref(), Note { by, note })?;
    let found = find(&ctx, &scope, &id).await?;
    let commands = commands(&found, stage_number)?;
    let had_failed = found.has_failed() && !commands.is_empty();
    let shown = act(&ctx, &found, commands, by.clone()).await?;
    if !had_failed {
        return Ok(shown);
    }
    // Whoever goes on from a stage that has failed says yes to what follows it.
    let found = find(&ctx, &scope, &id).await?;
    if matches!(found.now.state, ReleaseState::AwaitingApproval { .. }) {
        return act(&ctx, &found, vec![approve(&found)], by).await;
    }
    Ok(shown)
}

fn commands(found: &ServiceRelease, asked: Option<u32>) -> Result<Vec<Command>, Problem> {
    let last = found.recorded.stages.len();
    let asked = asked.map(|number| number as usize);
    if let Some(number) = asked.filter(|number| !(1..=last).contains(number)) {
        let detail = format!("there is no stage {number}: they count from 1 to {last}");
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown-stage", detail));
    }
    under_way(found, "advanced")?;
    // From 1; 0: no stage has begun.
    let current = found.now.course().current(&found.recorded).map_or(0, |at| at + 1);
    if let Some(number) = asked.filter(|number| *number < current) {
        let detail = format!(
            "stage {number} lies behind: stage {current} has begun, and no release goes back a stage"
        );
        return Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail));
    }
    let target = asked.unwrap_or(current + 1);
    if target <= current {
        return Ok(Vec::new());
    }
    let mut commands = Vec::new();
    if found.now.state.pause().is_some() {
        commands.push(resume(found));
    }
    let is_awaited = matches!(found.now.state, ReleaseState::AwaitingApproval { .. });
    // What waits for an approval has passed its own stage.
    let from = if is_awaited { current } else { current.saturating_sub(1) };
    commands.extend(skip(found, from..target - 1));
    if is_awaited {
        commands.push(approve(found));
    }
    Ok(commands)
}
