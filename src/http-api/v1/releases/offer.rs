//! `GET /api/v1/releases/{id}/children/{child}/offer`.

use axum::{
    extract::State,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::{Context, context::PATIENCE, extract::Path, problem::Problem};
use domain::release::decide::{NoOffer, peek};
use protocol::api;

/// Names the offer in an answer.
const OFFER: HeaderName = HeaderName::from_static("choirmaster-offer");

/// The text that a child is handed now, or, in a release that has not begun, would be handed first. Changes nothing.
#[utoipa::path(get, path = "/api/v1/releases/{id}/children/{child}/offer", operation_id = "show_offer",
    tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("child" = String, Path, description = "The id of the child."),
    ),
    responses(
        (status = 200, body = Object, content_type = "application/yaml", description = "A small strategy.",
            headers(("choirmaster-offer" = String))),
        (status = 404, body = api::Problem, content_type = "application/problem+json",
            description = "Unknown, or the child has no part in the release."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "The release is over, or it is over for this child."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path((id, child)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (release, wanted) = (id.clone(), child.clone());
    let found = ctx.engine.read(PATIENCE, move |state| {
        let release = state.release_by_id(&release)?;
        let key = state.children.key(&wanted);
        Some(key.map(|key| {
            peek(state, release, key)
                .map(|offer| (offer.name.id(release.id.as_str()), offer))
                .map_err(|none| why(none, &release.strategy))
        }))
    });
    let Some(found) = found.await? else {
        // One that has left memory is over.
        ctx.engine.reader().release(&id).await?.ok_or_else(|| Problem::unknown_release(&id))?;
        return Err(Problem::new(StatusCode::CONFLICT, "no-offer", format!("release {id} is over")));
    };
    let found = found.ok_or_else(|| Problem::unknown_child(&child))?;
    let (name, offer) = found.map_err(|(status, why)| Problem::new(status, "no-offer", why))?;
    let text = offer.text(&name);
    Ok(([(header::CONTENT_TYPE, "application/yaml"), (OFFER, name.as_str())], text).into_response())
}

fn why(none: NoOffer, strategy: &language::Strategy) -> (StatusCode, String) {
    match none {
        NoOffer::NoPart => (StatusCode::NOT_FOUND, "the child has no part in this release".to_owned()),
        NoOffer::Unfit(why) => (
            StatusCode::NOT_FOUND,
            format!("the child would have no part in this release: {}", why.text(strategy)),
        ),
        NoOffer::Over => (StatusCode::CONFLICT, "the release is over for this child".to_owned()),
    }
}
