//! `POST /api/v1/ab-releases/{id}/promote`.

use axum::{Extension, Json, extract::State, http::StatusCode};

use super::{
    act::{act, choose_winner, resume, roll_back, skip, under_way},
    lookup::{ServiceRelease, find},
};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use ab_releases::Fault;
use domain::release::{command::Command, rollout, state::Snapshot};
use model::ReleaseKey;
use protocol::{
    ab_releases::{ABRelease, PromoteVariation},
    api::{self, Note},
};

/// Gives a variation everything at once, without what is left of stages, soaks and approvals. The stable one: everything is taken back.
#[utoipa::path(post, path = "/api/v1/ab-releases/{id}/promote", operation_id = "promote_ab_release",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    request_body(content = PromoteVariation),
    responses(
        (status = 200, body = ABRelease, description = "It is promoted, or on its way."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It is not under way; or agents are still deploying it; or another variation than the strategy ends with can't win any more, or not at one of its routers: the detail \
                names it."),
        (status = 422, body = api::Problem, content_type = "application/problem+json", description = "No such variation."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Option<Extension<CallingOperator>>,
    scope: Scope,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<PromoteVariation>,
) -> Result<Json<ABRelease>, Problem> {
    let Some(PromoteVariation { variation, by, note }) = body else {
        return Err(Problem::bad_request("the body must be JSON: {\"variation\": \"B\"}"));
    };
    let by = acting(caller.as_deref(), Note { by, note })?;
    let found = find(&ctx, &scope, &id).await?;
    let which = found.recorded.variations.iter().position(|one| one.name == variation);
    let unknown = || Fault::new("variation", format!("there is no variation {variation:?}"));
    let which = which.ok_or_else(unknown)?;
    under_way(&found, "promoted")?;
    let commands = match which {
        0 => vec![roll_back(&found, &by)],
        // Before anything opens: so nobody has another one take over.
        which => {
            agents_are_done(&ctx, &found).await?;
            let current = found.now.course().current(&found.recorded).unwrap_or_default();
            let release = found.recorded.release.clone();
            let chosen = choose_winner(&found, which);
            let paused = found.now.state.pause().map(|_| resume(&found));
            let all = Command::Rollout(rollout::Command::Promote { release });
            let skipped = skip(&found, current..found.recorded.stages.len());
            chosen.into_iter().chain(paused).chain(skipped).chain([all]).collect()
        }
    };
    act(&ctx, &found, commands, by).await
}

/// Refuses to give everything to what agents have not deployed yet, before anything else is done.
async fn agents_are_done(ctx: &Context, found: &ServiceRelease) -> Result<(), Problem> {
    let key = ReleaseKey(found.row.release_key);
    let awaits =
        move |state: &Snapshot| state.release(key).is_some_and(|release| release.agents_first().is_some());
    if !ctx.engine.read(PATIENCE, awaits).await? {
        return Ok(());
    }
    let why = "its agents are still deploying: it is promoted when they are done";
    let detail = format!("A/B release {} can't be promoted: {why}", found.recorded.release);
    Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail))
}
