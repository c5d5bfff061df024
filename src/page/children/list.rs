//! All children, a line each; those of a manager below, as it says now.

use axum::{
    extract::{RawQuery, State},
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
    query::{self, Filter, Input, Query},
    text::{self, children as words},
    visit::Visit,
};
use protocol::api::{self, Child};

/// Children of a page. What a manager below is asked for comes in one answer, which has no room for more.
const LIMIT: &str = "100";

const FILTERS: [Filter; 4] = [
    Filter { name: "label", label: words::LABEL, input: Input::Text("tier:edge") },
    Filter {
        name: "kind",
        label: words::WHAT_IT_IS,
        input: Input::Choice(&[("agent", text::AGENT), ("rm", text::MANAGER)]),
    },
    Filter {
        name: "cordon",
        label: words::NEW_WORK,
        input: Input::Choice(&[
            ("open", text::OPEN),
            ("cordoned", text::CORDONED),
            ("drained", text::DRAINED),
        ]),
    },
    Filter { name: "silent_for", label: words::SILENT_FOR, input: Input::Text("5m") },
];

/// What the form carries on.
const KEPT: [&str; 1] = ["below"];

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let below = asked.get("below");
    let found: api::Page<Child> =
        Api::new(page, visit).get(&asked.or("limit", LIMIT).at("/api/v1/children")).await?;
    let asked_again = asked.with("after", "");
    let is_narrowed = FILTERS.iter().any(|filter| !asked.get(filter.name).is_empty());
    // What a manager below said is as old as its answer: no event tells of what changes there.
    let live = below.is_empty().then_some(Live { after, release: None, ticks: true });
    let head = Head { title: text::CHILDREN, part: Some(Part::Children), live };
    let path = places::children();
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::CHILDREN) }
            @if !below.is_empty() { (heading_below(below)) }
            (query::form(&path, &FILTERS, &KEPT, &asked_again))
            @if !found.items.is_empty() {
                (table(below, &found.items))
            } @else if is_narrowed || found.next.is_some() {
                p { (text::NO_CHILD_FOUND) }
            } @else {
                p { (text::NO_CHILDREN) }
            }
            (query::more(&path, &asked_again, found.next.as_deref()))
        },
    ))
}

fn heading_below(below: &str) -> Markup {
    html! {
        (who::trail_of(below, places::children_below))
        p.hint { (text::ASKED_NOW) }
        p { a href=(places::releases_below(below)) { (text::ITS_RELEASES) } }
    }
}

fn table(below: &str, children: &[Child]) -> Markup {
    html! {
        div.wide {
            table.list {
                thead { tr {
                    th scope="col" { (words::CHILD) }
                    th scope="col" { (words::WHAT_IT_IS) }
                    th scope="col" { (words::WHERE) }
                    th scope="col" { (words::LABELS) }
                    th scope="col" { (words::NOW) }
                    th scope="col" { (words::LAST_CALL) }
                } }
                tbody { @for child in children { tr data-key=(child.id) { (line(below, child)) } } }
            }
        }
    }
}

fn line(below: &str, child: &Child) -> Markup {
    let is_manager = child.kind == "rm";
    html! {
        th scope="row" {
            (who::link(below, &child.id, is_manager))
            @if let Some(name) = &child.name { " " span.name { bdi { (name) } } }
        }
        td data-field="kind" {
            (who::kind(&child.kind))
            @if is_manager { ", " (words::agents(child.agents.into())) }
            @if child.cordon != "open" { " · " strong.asks { (who::cordon(&child.cordon)) } }
        }
        td data-field="place" { (child.place.as_deref().unwrap_or("–")) @if child.outside { " " span.small { (text::OUTSIDE) } } }
        td data-field="labels" { (who::labels(&child.labels)) }
        td.now data-field="doing" { bdi { (child.doing) } }
        td data-field="last_call" { (who::last_call(child.last_call.as_deref())) }
    }
}
