//! `GET /release?childID=C&releaseID=R`.
//!
//! Deployed agents exit on an error here: trouble that passes is waited for.

use axum::{
    body::Bytes,
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use serde::Deserialize;

use super::{Refused, check_token, note_unknown};
use crate::{
    engine::{
        By, EngineError,
        stats::Stats,
        view::{ChildEntry, Mode},
    },
    http::{
        Context,
        context::{OFFER_PATIENCE, PATIENCE},
    },
    plan,
    release::{
        command::{Command, Form, Offer, Reply},
        offer::{OfferKind, Piece},
    },
    strategy::{
        Strategy,
        render::{self, Then},
        render_full,
    },
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
        (status = 200, description = "A small strategy.", content_type = "application/x-yaml", body = String),
        (status = 400, description = "A parameter is missing.", content_type = "text/plain", body = String),
        (status = 404, description = "Never offered to this child.", content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    headers: HeaderMap,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(parameters) = parameters.map_err(|e| Refused::bad(e.body_text()))?;
    for (name, value) in [("childID", &parameters.child), ("releaseID", &parameters.release)] {
        if value.is_empty() {
            return Err(Refused::bad(format!("the parameter {name} is missing")));
        }
    }
    check_token(&ctx, &headers, &parameters.child)?;
    let view = ctx.view();
    Stats::count(&view.stats.fetches);
    let served_ms = ctx.served_ms();
    let repeated = view.with_child(&parameters.child, |child| {
        child.touch(served_ms);
        from_view(&ctx, child, &parameters.release)
    });
    if let Some(Some(text)) = repeated.filter(|_| view.is_serving(served_ms)) {
        return Ok(yaml(text));
    }
    let id = parameters.release.clone();
    let offer = ask(&ctx, parameters).await?;
    if offer.form == Form::Full {
        return Ok(yaml(Bytes::from(full(&offer))));
    }
    let render = || render_offer(&offer.strategy, &id, offer.form);
    let cached = view.with_release(offer.release, |release| release.text(offer.name, offer.form, render));
    Ok(yaml(cached.unwrap_or_else(|| Bytes::from(render()))))
}

/// Asks until there is an answer that another try would not change.
async fn ask(ctx: &Context, parameters: Parameters) -> Result<Offer, Refused> {
    let Parameters { child, release: offer } = parameters;
    let asking = async {
        loop {
            let command = Command::Fetch { child: child.clone(), offer: offer.clone() };
            match ctx.engine.call(command, By::CHILD, PATIENCE).await {
                Ok(Reply::Offer(offer)) => return Ok(offer),
                Ok(_) => return Err(EngineError::Failed),
                Err(EngineError::Busy) => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
    };
    let answer = tokio::time::timeout(OFFER_PATIENCE, asking).await.unwrap_or(Err(EngineError::Busy));
    answer.map_err(|error| {
        note_unknown(ctx, "/release", &error);
        error.into()
    })
}

/// The same text again, for a child that has the offer in hand.
fn from_view(ctx: &Context, child: &ChildEntry, offer: &str) -> Option<Bytes> {
    let turn = child.turn();
    if turn.mode != Mode::InHand || !ctx.view().is_offer(offer, turn.release, turn.name) {
        return None;
    }
    // Which function an undo is of, only the engine knows.
    if matches!(turn.name.kind, OfferKind::Undo(_)) {
        return None;
    }
    ctx.view()
        .with_release(turn.release, |release| {
            let piece = match turn.name.kind {
                OfferKind::First => crate::release::assignment::first_piece(&release.strategy),
                OfferKind::Stage(stage) => Piece::Stage(stage),
                OfferKind::Rollout(function) => Piece::Rollout(function),
                OfferKind::Undo(_) => return None,
            };
            let form = crate::release::decide::form(piece, &release.strategy);
            Some(release.text(turn.name, form, || render_offer(&release.strategy, offer, form)))
        })
        .flatten()
}

/// The whole strategy for one manager: its target is clipped to what is below it.
fn full(offer: &Offer) -> String {
    match (&offer.strategy.target, offer.area.as_deref()) {
        (Some(target), Some(area)) => {
            let target = Some(plan::clipped(target, area));
            render_full::whole(&Strategy { target, ..Strategy::clone(&offer.strategy) })
        }
        _ => render_full::whole(&offer.strategy),
    }
}

/// The text of an offer of this id. A release from above may be called otherwise here than its strategy is.
fn render_offer(strategy: &Strategy, id: &str, form: Form) -> String {
    match form {
        Form::Whole => render::whole(strategy, id),
        // Each manager has its own, which is made from its offer.
        Form::Full => render_full::whole(strategy),
        Form::UndoOf { function } => render_full::undo(strategy, usize::from(function)),
        Form::Stage { stage, rollout } => {
            let then = if rollout { Then::Rollout } else { Then::Rollback };
            render::stage(strategy, usize::from(stage), id, then)
        }
        Form::Rollout { function } => render::rollout(strategy, usize::from(function), id),
        Form::Undo { function } => render::undo(strategy, usize::from(function), id),
        Form::Withdrawn => render::withdrawn(strategy, id),
    }
}

fn yaml(text: Bytes) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-yaml"));
    response
}
