//! `POST /api/v1/releases/{id}/extend-analysis`.

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{
    act::act,
    if_match::{self, IfMatch},
};
use crate::{
    Context,
    extract::{Acting, Path, Query},
    problem::Problem,
};
use domain::release::{analysis, command::Command};
use language::analysis::MAX_EXTENSION;
use model::duration::read_millis;
use protocol::api::{self, Note, Release};

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    #[serde(rename = "for")]
    time: Option<String>,
    calls: Option<u64>,
}

/// Lets an analysis that ended undecided go on, or one that is open go on after an end that decides nothing: for a time, or
/// until so many more calls were measured.
///
/// Its looks are paid for out of the same alpha, of which a part was kept for them.
#[utoipa::path(post, path = "/api/v1/releases/{id}/extend-analysis", operation_id = "extend_analysis", tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("for" = Option<String>, Query, description = "How long, such as `10m`; at most a day, which holds where it is \
            left out: the first look that decides ends it."),
        ("calls" = Option<u64>, Query, minimum = 1, description = "Until so many more calls were measured, of both versions."),
        if_match::Headers,
    ),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "It goes on."),
        (status = 400, body = api::Problem, content_type = "application/problem+json",
            description = "`for` or `calls` can't be read."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "No analysis of it is open or ended undecided, or nothing of its alpha is kept."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(Parameters { time, calls }): Query<Parameters>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let longest = MAX_EXTENSION.as_millis() as u64;
    let for_ms = match time.as_deref().map(|time| (time, read_millis(time))) {
        None => longest,
        Some((_, Some(ms))) if (1..=longest).contains(&ms) => ms,
        Some((time, _)) => {
            let detail = format!("`for` is {time:?}: write a time above 0 and up to a day, such as 10m");
            return Err(Problem::bad_request(detail));
        }
    };
    if calls == Some(0) {
        return Err(Problem::bad_request(
            "`calls` is 0: say for how many more calls, such as 5000".to_owned(),
        ));
    }
    act(
        &ctx,
        &id,
        Command::Analysis(analysis::Command::Extend { release: id.clone(), for_ms, calls }),
        by,
        seen,
    )
    .await
}
