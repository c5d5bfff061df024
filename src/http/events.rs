//! `GET /events`: the audit trail as it grows, as server-sent events.
//!
//! A listener first reads from the store what it has missed, then what the engine commits. Both are ordered by the
//! place in the trail, and what is not after the last event sent is left out; so whoever falls behind is sent back
//! to the store, and nobody gets an event twice or misses one.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use serde::Deserialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::audit::{form::AuditPlace, seen},
};
use store::{AuditFilter, rows::AuditRow};
use wire::api::AuditEntry;

/// A silent stream carries a comment this often, so that nobody takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What a client waits before it comes back, in milliseconds.
const RETRY: Duration = Duration::from_secs(1);

/// Rows read from the store at once.
const PAGE: u32 = 200;

/// Before the store is asked again after it did not answer.
const STORE_RETRY: Duration = Duration::from_millis(500);

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(handle))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only what concerns this release.
    release: Option<String>,
    /// Begin after this entry: `SEQ-IDX`, or `0-0` for the beginning. Without it, with what comes from now on.
    after: Option<String>,
}

/// What happens, as it happens.
///
/// Each event is an entry of the audit trail: its name is that of the entry's first event, its data the entry, its
/// id the entry's place. `Last-Event-ID` resumes after an event, without a gap and without a repeat.
#[utoipa::path(get, path = "/events", operation_id = "events", tag = "watching",
    params(Parameters, ("Last-Event-ID" = Option<String>, Header, description = "Wins over `after`.")),
    responses((status = 200, description = "A stream that has no end.", content_type = "text/event-stream",
        body = wire::api::AuditEntry)))]
async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let release = match &parameters.release {
        None => None,
        Some(id) => {
            let id = scope.release(id);
            Some(ctx.view().releases.key_of(&id).ok_or_else(|| Problem::unknown_release(&id))?.0)
        }
    };
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    let asked = last.or(parameters.after.as_deref());
    let after: Option<AuditPlace> = asked
        .map(|text| text.parse().map_err(|_| Problem::bad_request("an event's id looks like 12-0")))
        .transpose()?;
    // Before the store is looked at, so that what comes between is not missed.
    let live = ctx.engine.events();
    let at = if let Some(after) = after {
        after
    } else {
        let end = ctx.engine.reader().audit_end().await?;
        end.map(|(seq, idx)| AuditPlace::at(seq, idx)).unwrap_or_default()
    };
    let trail = Trail { ctx, scope, release, at, behind: after.is_some() };
    let stream = trail.stream(live);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// A listener's way through the trail.
struct Trail {
    ctx: Context,
    scope: Scope,
    release: Option<u32>,
    /// The last entry sent, or looked at.
    at: AuditPlace,
    /// Whether the store has entries that were not sent.
    behind: bool,
}

impl Trail {
    fn stream(
        mut self,
        mut live: Receiver<Arc<Vec<AuditRow>>>,
    ) -> impl futures_util::Stream<Item = Result<Event, Infallible>> {
        async_stream::stream! {
            // The place to resume from, should nothing happen before the connection is lost.
            yield Ok(Event::default().id(self.at.to_string()).retry(RETRY));
            let stopping = self.ctx.stopping.clone();
            while !stopping.is_cancelled() {
                let rows = tokio::select! {
                    rows = self.next(&mut live) => rows,
                    () = stopping.cancelled() => break,
                };
                let Some(rows) = rows else { break };
                for row in rows.iter().filter(|row| AuditPlace::of(row) > self.at) {
                    let is_asked_for = self.release.is_none() || self.release == row.release_key;
                    if let Some(entry) = seen::of_row(&self.ctx, &self.scope, row).filter(|_| is_asked_for) {
                        yield Ok(event(&entry));
                    }
                }
                if let Some(last) = rows.last() {
                    self.at = self.at.max(AuditPlace::of(last));
                }
            }
        }
    }

    /// The rows that come next, of which some may have been sent already; `None` at the end.
    async fn next(&mut self, live: &mut Receiver<Arc<Vec<AuditRow>>>) -> Option<Arc<Vec<AuditRow>>> {
        if self.behind {
            let rows = self.stored().await;
            self.behind = rows.len() == PAGE as usize;
            return Some(Arc::new(rows));
        }
        match live.recv().await {
            Ok(rows) => Some(rows),
            Err(RecvError::Lagged(_)) => {
                self.behind = true;
                Some(Arc::default())
            }
            Err(RecvError::Closed) => None,
        }
    }

    /// The next page from the store; waits while it does not answer.
    async fn stored(&self) -> Vec<AuditRow> {
        let filter = AuditFilter { after: self.at.columns(), release_key: self.release, limit: PAGE };
        loop {
            match self.ctx.engine.reader().audit(&filter).await {
                Ok(rows) => return rows,
                Err(error) => {
                    tracing::warn!(%error, "events could not be read from the store; it is tried again");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }
}

fn event(entry: &AuditEntry) -> Event {
    let name = entry.events.first().and_then(|event| event.get("event")?.as_str()).unwrap_or("audit");
    let data = serde_json::to_string(entry).unwrap_or_default();
    Event::default().event(name).id(&entry.id).data(data)
}
