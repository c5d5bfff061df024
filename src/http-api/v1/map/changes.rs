//! `GET /api/v1/map/changes` and `GET /api/v1/releases/{id}/map/changes`: what changes on a map, as server-sent events.

use std::{convert::Infallible, fmt::Write as _, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use bytes::Bytes;
use futures_util::Stream;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    parts::Subject,
    show::known,
    watch::{self, Delta, Viewer},
};
use crate::{
    Context,
    events::kept_alive,
    extract::{Path, Query},
    problem::Problem,
    scope::Scope,
};

/// What a client waits before it comes back.
const RETRY: Duration = Duration::from_secs(1);

/// Most children of one event.
const MAX_OF_EVENT: usize = 20_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Begin after this look: `EPOCH-GENERATION` of a map. Without it, with what comes from now on.
    after: Option<String>,
    /// While nothing happens, an event `beat` comes every five seconds.
    beat: bool,
}

/// An event of the stream, by the fields that the format of streams has.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only describes what is sent")]
pub struct MapEvent {
    /// `changes`, `load` or `beat`; the first event has none, and says where the stream begins.
    event: Option<String>,
    /// The changes, or `load`; of a beat, nothing.
    data: Option<String>,
    id: Option<String>,
}

/// What changes on the map of a release, gathered: not an event a child.
///
/// Events named `changes`: `[[STATE, WAVE, [NUMBER, DIFFERENCE, …]], …]`, where the first number of a list is a child's and each after it the
/// difference to the one before; states are as in the map, with their bits. What is told is what is true then, so that to hear it twice is no harm. The id,
/// `EPOCH-GENERATION`, stands at the last event of a look. An event `load` says that the map has to be loaded again, since it can't be gone on
/// from there, or since children have joined, left or moved; then the stream ends.
#[utoipa::path(get, path = "/api/v1/releases/{id}/map/changes", operation_id = "release_map_changes", tag = "watching",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters,
        ("Last-Event-ID" = Option<String>, Header, description = "Wins over `after`.")),
    responses((status = 200, description = "A stream that has no end.", content_type = "text/event-stream", body = MapEvent)))]
pub(super) async fn release(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let subject = Subject { release: Some(known(&ctx, &id)?), scope };
    answer(ctx, subject, &parameters, &headers).await
}

/// What changes on the map of the fleet, looked at every ten seconds while somebody follows.
///
/// The events are those of the map of a release.
#[utoipa::path(get, path = "/api/v1/map/changes", operation_id = "map_changes", tag = "watching",
    params(Parameters, ("Last-Event-ID" = Option<String>, Header, description = "Wins over `after`.")),
    responses((status = 200, description = "A stream that has no end.", content_type = "text/event-stream", body = MapEvent)))]
pub(super) async fn fleet(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(ctx, Subject { release: None, scope }, &parameters, &headers).await
}

async fn answer(
    ctx: Context,
    subject: Subject,
    parameters: &Parameters,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    let asked = last.or(parameters.after.as_deref()).filter(|asked| !asked.is_empty());
    let after =
        asked.map(|text| read(text).ok_or_else(|| Problem::bad_request("an event's id looks like 12-0")));
    let after = after.transpose()?;
    let viewer = watch::watch(&ctx, subject)?;
    let follow = viewer.watch.follow();
    // What happened while nobody looked is seen now.
    let shown = viewer.watch.fresh(&ctx).await?;
    let (epoch, generation) = after.unwrap_or((shown.epoch, shown.generation));
    let stream = stream(ctx, viewer, follow, epoch, generation);
    Ok(Sse::new(stream).keep_alive(kept_alive(parameters.beat)).into_response())
}

fn read(text: &str) -> Option<(u64, u32)> {
    let (epoch, generation) = text.split_once('-')?;
    Some((epoch.parse().ok()?, generation.parse().ok()?))
}

fn stream(
    ctx: Context,
    viewer: Viewer,
    mut follow: tokio::sync::watch::Receiver<Option<std::sync::Arc<watch::SharedMap>>>,
    epoch: u64,
    mut generation: u32,
) -> impl Stream<Item = Result<Event, Infallible>> {
    async_stream::stream! {
        let _viewer = viewer;
        let stopping = ctx.stopping.clone();
        yield Ok(Event::default().id(format!("{epoch}-{generation}")).retry(RETRY));
        loop {
            let shown = follow.borrow_and_update().clone();
            if let Some(shown) = shown {
                let deltas = shown.since(epoch, generation);
                let is_known = deltas.as_ref().is_some_and(|deltas| deltas.iter().all(|delta| !delta.is_new));
                if !is_known {
                    yield Ok(Event::default().event("load").data("load"));
                    break;
                }
                for delta in deltas.into_iter().flatten() {
                    let texts = delta.text.get_or_init(|| texts(&delta)).clone();
                    let last = texts.len().saturating_sub(1);
                    for (at, text) in texts.iter().enumerate() {
                        let event = Event::default().event("changes").data(String::from_utf8_lossy(text));
                        let id = || format!("{epoch}-{}", delta.generation);
                        yield Ok(if at == last { event.id(id()) } else { event });
                    }
                    generation = delta.generation;
                }
            }
            tokio::select! {
                changed = follow.changed() => if changed.is_err() { break },
                () = stopping.cancelled() => break,
            }
        }
    }
}

/// What changed as it is sent, in pieces.
fn texts(delta: &Delta) -> Vec<Bytes> {
    delta.changed.chunks(MAX_OF_EVENT).map(|changed| text(changed).into()).collect()
}

fn text(changed: &[(u32, u8, u32)]) -> String {
    let mut sorted = changed.to_vec();
    sorted.sort_unstable_by_key(|(number, state, wave)| (*state, *wave, *number));
    let mut text = String::from("[");
    for alike in sorted.chunk_by(|one, other| (one.1, one.2) == (other.1, other.2)) {
        let Some((_, state, wave)) = alike.first() else { continue };
        let comma = if text.len() > 1 { "," } else { "" };
        // To write into a string can't fail.
        let _ = write!(text, "{comma}[{state},{wave},[");
        let mut before = 0;
        for (at, (number, ..)) in alike.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{}", number - before);
            before = *number;
        }
        text.push_str("]]");
    }
    text.push(']');
    text
}
