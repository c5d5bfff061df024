//! All routers, a line each.

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use crate::{
    api::Api,
    children::who,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places,
    query::{self, Filter, Input, Query},
    text::{self, traffic as words},
    time,
    visit::Visit,
};
use protocol::api::{self, Router};

/// Routers of a page.
const LIMIT: &str = "200";

const FILTERS: [Filter; 2] = [
    Filter { name: "phase", label: words::PHASE, input: Input::Choice(&words::PHASES) },
    Filter { name: "service", label: words::SERVICE, input: Input::Text("checkout") },
];

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let path = asked.or("limit", LIMIT).at("/api/v1/routers");
    let found: api::Page<Router> = Api::new(page, visit).get(&path).await?;
    let live = Some(Live { after, release: None, ticks: true });
    let head = Head { title: text::ROUTERS, part: Some(Part::Routers), live };
    let asked = asked.without("after");
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::ROUTERS) }
            (query::form(places::ROUTERS, &FILTERS, &[], &asked))
            @if found.items.is_empty() { p { (text::NO_ROUTERS) } } @else { (table(&found.items)) }
            (query::more(places::ROUTERS, &asked, found.next.as_deref()))
        },
    ))
}

fn table(routers: &[Router]) -> Markup {
    html! {
        div.wide {
            table.list {
                thead { tr {
                    th scope="col" { (words::ROUTER) } th scope="col" { (words::KIND) } th scope="col" { (words::PHASE) }
                    th scope="col" { (words::TROUBLE) } th scope="col" { (words::SERVICES) } th scope="col" { (words::LAST_CALL) }
                } }
                tbody { @for router in routers { tr data-key=(router.id) { (line(router)) } } }
            }
        }
    }
}

fn line(router: &Router) -> Markup {
    html! {
        th scope="row" {
            a href=(places::router(&router.id)) data-open="" { bdi { (router.id) } }
            @if let Some(name) = &router.name { " " span.name { bdi { (name) } } }
        }
        td data-field="kind" { bdi { (router.kind) } @if let Some(version) = &router.version { " " bdi.small { (version) } } }
        td data-field="phase" { (router.phase.replace('_', " ")) " " span.small { (words::SINCE) " " (time::at(&router.since)) } }
        td data-field="trouble" {
            @if !router.reached { strong.bad { (text::NOT_REACHED) } " " }
            bdi { (router.trouble.as_deref().unwrap_or_default()) }
        }
        td data-field="services" { (services(router)) }
        td data-field="last_call" { (who::last_call(router.last_call.as_deref())) }
    }
}

/// The services that it leads, each with its page.
pub fn services(router: &Router) -> Markup {
    html! {
        @for (at, name) in router.services.iter().enumerate() {
            @if at > 0 { ", " }
            a href=(places::service(name)) { bdi { (name) } }
        }
        @if router.untold > 0 { " " span.small { (words::more(router.untold)) } }
    }
}
