//! One child: who it is, where, what it runs, what it waits for.

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
    layout::{self, Head, Live, Part},
    places,
    query::{self, Query},
    text::{self, children as words},
    time,
    visit::Visit,
};
use protocol::api::{self, Child, Deployment};

/// Functions that a page shows.
const LIMIT: &str = "100";

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
    let api = Api::new(page, visit);
    let child: Child = api.get(&format!("/api/v1/children/{}", places::escaped(id))).await?;
    let wanted = Query::default().with("child", id).with("limit", LIMIT).with("after", asked.get("after"));
    let runs: api::Page<Deployment> = api.get(&wanted.at("/api/v1/deployments")).await?;
    let live = Some(Live { after, release: None, ticks: true });
    let head = Head { title: &child.id, part: Some(Part::Children), live };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            (heading(&child))
            (parts(&child))
            @if child.kind == "rm" { (below(&child)) }
            (deployments(&child, &runs))
            (area(&child))
        },
    ))
}

fn heading(child: &Child) -> Markup {
    html! {
        header.child {
            h1 { bdi { (child.id) } }
            @if let Some(name) = &child.name { p.name { bdi { (name) } } }
            p.now data-field="doing" { bdi { (child.doing) } }
            dl.facts {
                div { dt { (words::WHAT_IT_IS) } dd data-field="kind" {
                    (who::kind(&child.kind))
                    @if child.kind == "rm" { ", " (words::agents_below(&[], child.agents.into())) }
                } }
                div { dt { (words::NEW_WORK) } dd data-field="cordon" { (who::cordon(&child.cordon)) } }
                div { dt { (words::WHERE) } dd data-field="place" {
                    @match &child.place { Some(place) => { a href=(places::on_map(&child.id)) { (place) } }, None => "–" }
                    @if child.outside { " " span.small { (text::OUTSIDE) } }
                } }
                div { dt { (words::LABELS) } dd data-field="labels" { (who::labels(&child.labels)) } }
                div { dt { (words::RUNTIMES) } dd data-field="runtimes" { (runtimes(child)) } }
                div { dt { (words::LAST_CALL) } dd data-field="last_call" { (who::last_call(child.last_call.as_deref())) } }
                div { dt { (words::KNOWN_SINCE) } dd data-field="born" { (time::at(&child.born)) } }
            }
        }
    }
}

fn runtimes(child: &Child) -> Markup {
    html! {
        @match &child.runtimes {
            None => (words::NOT_TOLD),
            Some(all) if all.is_empty() => "–",
            Some(all) => { @for (at, runtime) in all.iter().enumerate() { @if at > 0 { ", " } bdi { (runtime) } } }
        }
    }
}

/// The releases that are not over in which it has a part.
fn parts(child: &Child) -> Markup {
    html! {
        section #parts aria-labelledby="parts-title" {
            h2 #parts-title { (text::HAS_PART) }
            @if child.releases.is_empty() { p { (text::NO_PART) } }
            ul { @for id in &child.releases { li { a href=(places::release(id)) data-open="" { bdi { (id) } } " · " a href=(places::on_release_map(id, &child.id)) { (text::map::ON_A_MAP) } } } }
        }
    }
}

fn below(child: &Child) -> Markup {
    html! {
        section #below aria-labelledby="below-title" {
            h2 #below-title { (text::BELOW) }
            p.hint { (text::ASKED_WHEN_OPENED) }
            ul {
                li { a href=(places::children_below(&child.id)) { (text::ITS_CHILDREN) } }
                li { a href=(places::releases_below(&child.id)) { (text::ITS_RELEASES) } }
                @if let Some(link) = who::own_page(child.public_url.as_deref()) { li { (link) } }
            }
        }
    }
}

fn deployments(child: &Child, runs: &api::Page<Deployment>) -> Markup {
    html! {
        section #runs aria-labelledby="runs-title" {
            h2 #runs-title { (text::RUNS) }
            @if runs.items.is_empty() { p { (text::RUNS_NOTHING) } }
            @else {
                div.wide { table.list {
                    thead { tr {
                        th scope="col" { (words::FUNCTION) } th scope="col" { (words::VERSION) } th scope="col" { (words::PATH) }
                        th scope="col" { (words::BY_RELEASE) } th scope="col" { (words::SINCE) }
                    } }
                    tbody { @for run in &runs.items { tr data-key=(run.function) {
                        th scope="row" { bdi { (run.function) } }
                        td data-field="variant" { (run.variant) }
                        td data-field="path" { bdi { (run.path) } }
                        td data-field="release" { (changed_by(&run.release)) }
                        td data-field="since" { (time::at(&run.since)) }
                    } } }
                } }
            }
            (query::more(&places::child(&child.id), &Query::default(), runs.next.as_deref()))
        }
    }
}

/// A release of somebody else's has no page for whoever looks; the API doesn't say its id.
fn changed_by(release: &str) -> Markup {
    let is_named = !release.contains(char::is_whitespace);
    html! { @if is_named { a href=(places::release(release)) { bdi { (release) } } } @else { (release) } }
}

/// Its area as it is told, for who wants to know it exactly.
fn area(child: &Child) -> Markup {
    html! {
        @if let Some(area) = &child.area {
            section #area aria-labelledby="area-title" {
                details {
                    summary { h2 #area-title { (text::AREA) } }
                    pre tabindex="0" { code { (area.to_string()) } }
                }
            }
        }
    }
}
