//! What happened in a release, as it happened: who, when, why. Its page has the newest of that; a page of its own has all of it, with what
//! single children did if that is asked for.

use axum::{
    extract::{Path, RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    api::Api,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places,
    query::Query,
    text::trail as text,
    time,
    visit::Visit,
};
use protocol::api::{self, AuditEntry};

/// Entries that a page shows.
const SHOWN: u32 = 100;

/// Largest part of one value that is shown, in characters.
const MAX_VALUE: usize = 400;

/// What an address says where what single children did is wanted too, as the API has it.
const STEPS: (&str, &str) = ("told", "false");

/// The last entries of a release's trail, the newest first, without what single children did.
pub async fn read(api: &Api<'_>, release: &str) -> Result<api::Page<AuditEntry>, Fault> {
    page_of(api, release, &Query::default()).await
}

async fn page_of(api: &Api<'_>, release: &str, asked: &Query) -> Result<api::Page<AuditEntry>, Fault> {
    let wanted = Query::default().with("told", if has_steps(asked) { "false" } else { "true" });
    let wanted = wanted.with("limit", &SHOWN.to_string()).with("release", release);
    api.get(&wanted.with("after", asked.get("after")).at("/api/v1/audit")).await
}

fn has_steps(asked: &Query) -> bool {
    asked.get(STEPS.0) == STEPS.1
}

/// `GET /ui/releases/{id}/trail`.
pub async fn handle(
    State(page): State<Page>,
    visit: Visit,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    match show(&page, &visit, &id, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, id: &str, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let found = page_of(&Api::new(page, visit), id, asked).await?;
    let title = format!("{}: {id}", text::TITLE);
    let live = Some(Live { after, release: Some(id), ticks: false });
    Ok(layout::page(
        visit,
        &Head { title: &title, part: Some(Part::Releases), live },
        &html! {
            h1 { (text::TITLE) ": " a href=(places::release(id)) { bdi { (id) } } }
            (views(id, asked))
            section #trail aria-label=(text::TITLE) {
                @if found.items.is_empty() { p { (if is_first(asked, &found) { text::EMPTY } else { text::NONE_HERE }) } }
                (entries(&found))
            }
            (turns(id, asked, &found))
        },
    ))
}

fn is_first(asked: &Query, found: &api::Page<AuditEntry>) -> bool {
    asked.get("after").is_empty() && found.next.is_none()
}

/// What can be shown: each is an address of its own.
fn views(id: &str, asked: &Query) -> Markup {
    let with_steps = Query::default().with(STEPS.0, STEPS.1);
    let views =
        [(text::TOLD, Query::default(), !has_steps(asked)), (text::STEPS, with_steps, has_steps(asked))];
    html! {
        nav aria-label=(text::VIEWS) { ul {
            @for (words, view, is_shown) in views {
                li { a href=(view.at(&places::trail_of(id))) aria-current=[is_shown.then_some("true")] { (words) } }
            }
        } }
    }
}

/// The ways to the page behind this one, and back to the first.
fn turns(id: &str, asked: &Query, found: &api::Page<AuditEntry>) -> Markup {
    let (on, back) =
        if has_steps(asked) { (text::LATER, text::FROM_START) } else { (text::OLDER, text::NEWEST) };
    let path = places::trail_of(id);
    html! {
        p {
            @if !asked.get("after").is_empty() { a href=(asked.without("after").at(&path)) { (back) } }
            @if let Some(next) = &found.next { " " a rel="next" href=(asked.with("after", next).at(&path)) { (on) } }
        }
    }
}

/// The newest of it, on the page of a release.
pub fn list(id: &str, trail: &api::Page<AuditEntry>) -> Markup {
    let path = places::trail_of(id);
    html! {
        section #trail aria-labelledby="trail-title" {
            h2 #trail-title { (text::TITLE) }
            @if trail.items.is_empty() { p { (text::EMPTY) } }
            (entries(trail))
            p {
                @if let Some(next) = &trail.next {
                    a rel="next" href=(Query::default().with("after", next).at(&path)) { (text::OLDER) } " · "
                }
                a href=(path) { (text::WHOLE) }
            }
        }
    }
}

fn entries(trail: &api::Page<AuditEntry>) -> Markup {
    html! { ol.trail { @for entry in &trail.items { (one(entry)) } } }
}

fn one(entry: &AuditEntry) -> Markup {
    html! {
        li id={ "e" (entry.id) } {
            (time::at(&entry.at)) " " bdi.actor { (entry.actor) }
            @for event in &entry.events { p { (event_line(event)) } }
        }
    }
}

/// An event in words: its name, then what is said beside.
fn event_line(event: &Value) -> Markup {
    let name = event.get("event").and_then(Value::as_str).unwrap_or("?");
    let beside = event.as_object().into_iter().flatten();
    let beside = beside.filter(|(key, _)| !matches!(key.as_str(), "event" | "release" | "version" | "note"));
    html! {
        strong { (name.replace(['_', '.'], " ")) }
        @for (key, value) in beside { " " span.key { (key) } " " (said(key, value)) }
        @if let Some(note) = event.get("note").and_then(Value::as_str) { q.note { bdi { (note) } } }
    }
}

/// A value; what has a page is a link to it.
fn said(key: &str, value: &Value) -> Markup {
    let place = value.as_str().and_then(|named| match key {
        "child" => Some(places::child(named)),
        "router" => Some(places::router(named)),
        "service" => Some(places::service(named)),
        _ => None,
    });
    html! {
        @match place {
            Some(place) => { a href=(place) { bdi { (shown(value)) } } }
            None => { bdi { (shown(value)) } }
        }
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
