//! `POST /api/v1/releases/{id}/promote`.

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{
    act::{act, roll_back},
    if_match::{self, IfMatch},
};
use crate::{
    Context,
    context::PATIENCE,
    extract::{Acting, Path, Query},
    problem::Problem,
};
use domain::release::{command::Command, rollout};
use protocol::api::{self, Note, Release};

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    variation: Option<String>,
    #[serde(default)]
    to: To,
}

/// How far it is promoted.
#[derive(Debug, Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum To {
    #[default]
    All,
    Gate,
}

/// Opens what is left of waves, stages, soaks and approvals at once, or with `to=gate` only the one that comes next. Limits hold. A variation of its service that is named serves alone
/// in the end, whatever the stages say; if it is the stable one, everything is taken back.
#[utoipa::path(post, path = "/api/v1/releases/{id}/promote", operation_id = "promote_release", tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("variation" = Option<String>, Query, description = "The name of the variation that is to serve alone in the end; \
            left out: the one that the stages lead to."),
        ("to" = Option<String>, Query, description = "How far: `all`, as without it, or `gate`: what comes next opens without \
            waiting any longer, be it a wave, a stage or an approval, and what is behind it waits as before. Not with a variation."),
        if_match::Headers,
    ),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "It goes on, or did so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It does not run; or the variation can't win any more, or not at one of its routers: the detail names it."),
        (status = 422, body = api::Problem, content_type = "application/problem+json", description = "No such variation."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(Parameters { variation, to }): Query<Parameters>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let release = id.clone();
    let command = match variation {
        Some(_) if to == To::Gate => {
            return Err(Problem::bad_request("a variation is promoted to the end, not to the next gate"));
        }
        None if to == To::Gate => Command::Rollout(rollout::Command::PromoteToGate { release }),
        None => Command::Rollout(rollout::Command::Promote { release }),
        Some(variation) if is_stable(&ctx, &id, &variation).await? => roll_back(release, &by),
        Some(variation) => Command::Rollout(rollout::Command::PromoteVariation { release, variation }),
    };
    act(&ctx, &id, command, by, seen).await
}

/// Whether a release in memory has this as the stable variation of its service.
async fn is_stable(ctx: &Context, id: &str, variation: &str) -> Result<bool, Problem> {
    let (id, variation) = (id.to_owned(), variation.to_owned());
    let look = move |state: &domain::release::state::Snapshot| {
        let mut releases = state.releases.values();
        let stable = releases.find(|release| release.id.as_str() == id).and_then(|release| {
            release.strategy.services.first()?.variations.first().map(|one| one.name.to_string())
        });
        stable.is_some_and(|stable| stable == variation)
    };
    Ok(ctx.engine.read(PATIENCE, look).await?)
}
