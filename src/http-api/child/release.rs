//! `GET /release?childID=C&releaseID=R`.
//!
//! Deployed agents exit on an error here: trouble that passes is waited for.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Query, Request, State},
    http::{HeaderValue, Uri, header},
    response::Response,
};
use serde::Deserialize;

use super::{
    caller::{Credentials, check_token},
    refused::Refused,
    reply::{heard_now, note_unknown},
    retry,
};
use crate::{Context, context::PATIENCE};
use domain::release::{
    command::{Command, Form, Offer, Reply},
    members,
    offer::{OfferKind, Unit},
};
use engine::{
    By, EngineError,
    stats::Stats,
    view::{ChildEntry, Mode},
};

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    #[serde(rename = "childID", default)]
    child: String,
    #[serde(rename = "releaseID", default)]
    release: String,
}

/// Downloads an offer.
///
/// A repeat gives the same again.
#[utoipa::path(get, path = "/release", operation_id = "fetch_offer", tag = "child protocol",
    params(
        ("childID" = String, Query, description = "Who fetches."),
        ("releaseID" = String, Query, description = "What /poll named."),
    ),
    responses(
        (status = 200, description = "A small strategy.", content_type = "application/x-yaml", body = Object),
        (status = 400, description = "A parameter is missing.", content_type = "text/plain", body = String),
        (status = 404, description = "Never offered to this child.", content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Credentials(headers): Credentials,
    request: Request,
) -> Result<Response, Refused> {
    let (child, id) = parameters(request.uri())?;
    for (name, value) in [("childID", &child), ("releaseID", &id)] {
        if value.is_empty() {
            return Err(Refused::bad(format!("the parameter {name} is missing")));
        }
    }
    check_token(&ctx, &headers, &child)?;
    let view = ctx.view();
    Stats::count(&view.stats.fetches);
    let own_id = view.releases.own_id(&id);
    let repeated = view.children.with(&child, |child| {
        let text = from_view(&ctx, child, (&id, &own_id));
        text.filter(|_| heard_now(&ctx, child))
    });
    if let Some(Some(text)) = repeated {
        return Ok(yaml(text));
    }
    let served_ms = ctx.served_ms();
    view.children.with(&child, |child| child.touch(served_ms));
    let key = view.releases.resolve(&own_id).map(|found| found.release);
    let entry = || key.and_then(|key| view.releases.get(key));
    let before = entry();
    let parameters = Parameters { child: child.into_owned(), release: own_id.into_owned() };
    // In a box, so that repeats carry nothing of it around.
    let offer = Box::pin(ask(&ctx, parameters)).await?;
    let render = || offer.text(&id);
    if offer.form == Form::Full {
        return Ok(yaml(Bytes::from(render())));
    }
    // Where the strategy changed meanwhile, this may be the text of before: it isn't kept for others.
    let kept = before.filter(|before| entry().is_some_and(|now| Arc::ptr_eq(before, &now)));
    Ok(yaml(match kept {
        Some(release) => release.text(&id, offer.name, offer.form, render),
        None => Bytes::from(render()),
    }))
}

/// Who asks for which offer: most write it so plainly that nothing has to be copied.
fn parameters(uri: &Uri) -> Result<(Cow<'_, str>, Cow<'_, str>), Refused> {
    if let Some((child, release)) = uri.query().and_then(plain) {
        return Ok((child.into(), release.into()));
    }
    let Query(parameters) =
        Query::<Parameters>::try_from_uri(uri).map_err(|error| Refused::bad(error.body_text()))?;
    Ok((parameters.child.into(), parameters.release.into()))
}

/// Both parameters of a query that has them in the documented order and nothing that is encoded.
fn plain(query: &str) -> Option<(&str, &str)> {
    if query.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return None;
    }
    let (child, release) = query.strip_prefix("childID=")?.split_once("&releaseID=")?;
    (!child.contains('&') && !release.contains('&')).then_some((child, release))
}

/// Asks until there is an answer that another try would not change.
async fn ask(ctx: &Context, parameters: Parameters) -> Result<Offer, Refused> {
    let Parameters { child, release: offer } = parameters;
    let (child, offer) = (child.as_str(), offer.as_str());
    let attempt = || async move {
        let command =
            Command::Members(members::Command::Fetch { child: child.to_owned(), offer: offer.to_owned() });
        match ctx.engine.call(command, By::CHILD, PATIENCE).await {
            Ok(Reply::Offer(offer)) => Some(Ok(offer)),
            Ok(_) => Some(Err(EngineError::Failed)),
            Err(error) if error.passes() => None,
            Err(error) => Some(Err(error)),
        }
    };
    let late = || if ctx.view().is_store_full() { EngineError::Full } else { EngineError::Busy };
    let answer = retry::until_answered(ctx, attempt).await.unwrap_or_else(|| Err(late()));
    answer.map_err(|error| {
        note_unknown(ctx, "/release", &error);
        error.into()
    })
}

/// The same text again, for a child that has the offer in hand, which it calls by this id.
fn from_view(ctx: &Context, child: &ChildEntry, (offer, own_id): (&str, &str)) -> Option<Bytes> {
    let turn = child.turn();
    // Which function an undo is of, only the engine knows.
    if turn.mode != Mode::InHand || matches!(turn.name.kind, OfferKind::Undo(_)) {
        return None;
    }
    ctx.view()
        .releases
        .with(turn.release, |release| {
            if !release.offers(own_id, turn.name) {
                return None;
            }
            let piece = match turn.name.kind {
                OfferKind::First => Unit::FIRST,
                OfferKind::Stage(stage) => Unit::Stage(stage),
                OfferKind::Rollout(function) => Unit::Rollout(function),
                OfferKind::Undo(_) => return None,
            };
            let form = domain::release::decide::form(piece);
            if let Form::Stage { stage } = form
                && release.strategy.interim(stage.into()).is_some()
            {
                // Whether it was told how to report it is for the engine to say.
                return None;
            }
            Some(release.text(offer, turn.name, form, || form.text(&release.strategy, offer)))
        })
        .flatten()
}

fn yaml(text: Bytes) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-yaml"));
    response
}
