//! `GET /events`: the audit trail as it grows, as server-sent events.
//!
//! A listener first reads from the store what it has missed, then what the engine commits. Both are ordered by the
//! place in the trail, and what is not after the last event sent is left out; so whoever falls behind is sent back
//! to the store, and nobody gets an event twice or misses one.

use std::{convert::Infallible, mem, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use serde::Deserialize;
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::{Instant, sleep, sleep_until},
};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::audit::{form::AuditPlace, visibility},
};
use protocol::api::AuditEntry;
use store::{AuditFilter, rows::AuditRow};

/// A silent stream carries a comment this often, so that nobody takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// As often for who wants to hear of it.
const BEAT: Duration = Duration::from_secs(5);

/// What a client waits before it comes back, in milliseconds.
const RETRY: Duration = Duration::from_secs(1);

/// Rows read from the store at once.
const PAGE: u32 = 200;

/// Between two events for whoever wants to hear only that there is news.
const NEWS_PAUSE: Duration = Duration::from_millis(250);

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
    /// For browsers, whose scripts hear only of events whose names they know and not of comments: events have no name, and where
    /// nothing happens, an event `beat` comes every five seconds.
    beat: bool,
    /// For whoever then looks again anyway: an event says only that there is something new, and stands for all that happened up to its id;
    /// it has no name and its data are empty. The first comes at once, others at most four times a second.
    news: bool,
}

/// What happens, as it happens.
///
/// Each event is an entry of the audit trail: its name is that of the entry's first event, its data the entry, its
/// id the entry's place. `Last-Event-ID` resumes after an event, without a gap and without a repeat.
#[utoipa::path(get, path = "/events", operation_id = "events", tag = "watching",
    params(Parameters, ("Last-Event-ID" = Option<String>, Header, description = "Wins over `after`.")),
    responses((status = 200, description = "A stream that has no end.", content_type = "text/event-stream",
        body = protocol::api::AuditEntry)))]
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
    let Parameters { beat, news, .. } = parameters;
    let telling = match (news, beat) {
        (true, _) => Telling::News { not_before: Instant::now() },
        (false, true) => Telling::Entries { is_named: false },
        (false, false) => Telling::Entries { is_named: true },
    };
    let trail = Trail { ctx, scope, release, at, behind: after.is_some(), telling };
    Ok(Sse::new(trail.stream(live)).keep_alive(kept_alive(beat)).into_response())
}

/// What a stream carries while nothing happens: an event that scripts can hear, or a comment.
pub fn kept_alive(beat: bool) -> KeepAlive {
    let alive = KeepAlive::new();
    if beat {
        alive.interval(BEAT).event(Event::default().event("beat").data(""))
    } else {
        alive.interval(KEEP_ALIVE)
    }
}

/// What a listener is told.
#[derive(Debug, Clone, Copy)]
enum Telling {
    /// Each entry; events have the names of what happened, or none.
    Entries { is_named: bool },
    /// That there is something, and not earlier than this.
    News { not_before: Instant },
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
    telling: Telling,
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
            while let Some(Some(told)) = stopping.run_until_cancelled(self.tell(&mut live)).await {
                for event in told {
                    yield Ok(event);
                }
            }
        }
    }

    /// What the listener is told next, which may be nothing; `None` at the end.
    async fn tell(&mut self, live: &mut Receiver<Arc<Vec<AuditRow>>>) -> Option<Vec<Event>> {
        match self.telling {
            Telling::Entries { is_named } => {
                let rows = self.next(live).await?;
                let entries = rows.iter().filter_map(|row| self.entry(row));
                let told = entries.map(|entry| event(&entry, is_named)).collect();
                self.is_past(&rows);
                Some(told)
            }
            Telling::News { not_before } => {
                sleep_until(not_before).await;
                let is_news = self.hear(live).await?;
                self.telling = Telling::News { not_before: Instant::now() + NEWS_PAUSE };
                let news = || Event::default().id(self.at.to_string()).data("");
                Some(is_news.then(news).into_iter().collect())
            }
        }
    }

    /// What the listener is told of a row; `None`: it was before, or concerns others.
    fn entry(&self, row: &AuditRow) -> Option<AuditEntry> {
        let is_asked_for = self.release.is_none() || self.release == row.release_key;
        let is_next = is_asked_for && AuditPlace::of(row) > self.at;
        is_next.then(|| visibility::of_row(&self.ctx, &self.scope, row)).flatten()
    }

    /// All of these rows were looked at.
    fn is_past(&mut self, rows: &[AuditRow]) {
        if let Some(last) = rows.last() {
            self.at = self.at.max(AuditPlace::of(last));
        }
    }

    /// Waits until something happens, and answers whether the listener is to be told of it, or of anything else that has happened by
    /// now; `None` at the end. Where it is not known what happened, there is news.
    async fn hear(&mut self, live: &mut Receiver<Arc<Vec<AuditRow>>>) -> Option<bool> {
        let first = self.next(live).await?;
        // What the store has besides is not read only to know that.
        let mut is_news = mem::take(&mut self.behind) || self.has_news(&first);
        self.is_past(&first);
        loop {
            match live.try_recv() {
                Ok(rows) => {
                    is_news = is_news || self.has_news(&rows);
                    self.is_past(&rows);
                }
                Err(TryRecvError::Lagged(_)) => is_news = true,
                // Whoever waits the next time hears of the end.
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(is_news),
            }
        }
    }

    fn has_news(&self, rows: &[AuditRow]) -> bool {
        rows.iter().any(|row| self.entry(row).is_some())
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
        let filter = AuditFilter {
            after: self.at.columns(),
            release_key: self.release,
            limit: PAGE,
            ..AuditFilter::default()
        };
        loop {
            match self.ctx.engine.reader().audit(&filter).await {
                Ok(rows) => return rows,
                Err(error) => {
                    tracing::warn!(%error, "events could not be read from the store; it is tried again");
                    sleep(STORE_RETRY).await;
                }
            }
        }
    }
}

fn event(entry: &AuditEntry, is_named: bool) -> Event {
    let data = serde_json::to_string(entry).unwrap_or_default();
    let event = Event::default().id(&entry.id).data(data);
    let name = || entry.events.first().and_then(|event| event.get("event")?.as_str()).unwrap_or("audit");
    if is_named { event.event(name()) } else { event }
}
