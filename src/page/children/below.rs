//! The releases of a manager below, as it says now: all of them, and one. They are only shown: whoever wants to act goes there.

use axum::{
    extract::{Path, RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::who;
use crate::{
    api::Api,
    context::Page,
    fault::Fault,
    layout::{self, Head, Part, sentence},
    places,
    query::{self, Query},
    releases::{badge, of_below, words as progress_in_words},
    text::{self, releases as words},
    time,
    visit::Visit,
};
use protocol::api::{ReleaseDetail, ReleaseLine, ReleasePage};

/// Releases of a page.
const LIMIT: &str = "100";

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    let below = asked.get("below");
    if below.is_empty() {
        return Err(Fault::bad_request(text::BELOW_WHOM));
    }
    let found: ReleasePage =
        Api::new(page, visit).get(&asked.or("limit", LIMIT).at("/api/v1/releases")).await?;
    let head = Head { title: text::RELEASES_BELOW, part: Some(Part::Children), live: None };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::RELEASES_BELOW) }
            (who::trail_of(below, |path| if path.is_empty() { places::children() } else { places::releases_below(path) }))
            p.hint { (text::ASKED_NOW) }
            p { a href=(places::children_below(below)) { (text::ITS_CHILDREN) } }
            @if found.items.is_empty() && found.next.is_none() { p { (text::NO_RELEASES_BELOW) } }
            @if !found.items.is_empty() {
                div.wide { table.list {
                    thead { tr {
                        th scope="col" { (words::STATE) } th scope="col" { (words::RELEASE) } th scope="col" { (text::PROGRESS) }
                        th scope="col" { (words::CHANGES) } th scope="col" { (words::NOW) } th scope="col" { (words::SUBMITTED) }
                    } }
                    tbody { @for of in &found.items { tr data-key=(of.release.id) { (line(below, of)) } } }
                } }
            }
            (query::more(places::RELEASES_BELOW, &asked.with("after", ""), found.next.as_deref()))
        },
    ))
}

/// `GET /ui/below/releases/{id}`.
pub async fn handle_one(
    State(page): State<Page>,
    visit: Visit,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    match show_one(&page, &visit, &id, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show_one(page: &Page, visit: &Visit, id: &str, asked: &Query) -> Result<Markup, Fault> {
    let below = asked.get("below");
    if below.is_empty() {
        return Err(Fault::bad_request(text::BELOW_WHOM));
    }
    let path = format!("/api/v1/releases/{}", places::escaped(id));
    let found: ReleaseDetail =
        Api::new(page, visit).get(&Query::default().with("manager", below).at(&path)).await?;
    let head = Head { title: &found.release.id, part: Some(Part::Releases), live: None };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            (who::trail_of(below, |path| if path.is_empty() { places::releases() } else { places::releases_below(path) }))
            p.hint { (text::ASKED_NOW) }
            (of_below(&found))
        },
    ))
}

fn line(below: &str, of: &ReleaseLine) -> Markup {
    let release = &of.release;
    html! {
        td { (badge(&release.state)) }
        th scope="row" { a href=(places::release_below(below, &release.id)) data-open="" { bdi { (release.id) } } @if release.name != release.id { " " span.name { bdi { (release.name) } } } }
        td.progress { span.small { (progress_in_words(release)) } }
        td { @for (at, function) in release.functions.iter().enumerate() { @if at > 0 { ", " } bdi { (function) } } }
        td.now { (sentence(release.waits_for.as_deref().or(release.reason.as_deref()).unwrap_or_default())) }
        td { (time::at(&release.submitted)) }
    }
}
