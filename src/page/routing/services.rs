//! All services, each over all its routers.

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::traffic_shares;
use crate::{
    api::Api,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places,
    query::{self, Query},
    text::{self, traffic as words},
    visit::Visit,
};
use protocol::api::{self, Service};

/// Services of a page.
const LIMIT: &str = "200";

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let path = asked.or("limit", LIMIT).at("/api/v1/services");
    let found: api::Page<Service> = Api::new(page, visit).get(&path).await?;
    let live = Some(Live { after, release: None, ticks: true });
    let head = Head { title: text::SERVICES, part: Some(Part::Services), live };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::SERVICES) }
            @if found.items.is_empty() { p { (text::NO_SERVICES) } }
            @else { (table(&found.items)) }
            (query::more(places::SERVICES, &asked.without("after"), found.next.as_deref()))
        },
    ))
}

/// Services with their variations.
pub fn table(services: &[Service]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr {
                    th scope="col" { (words::SERVICE) }
                    @for head in words::HEADS.iter().skip(1) { th scope="col" { (head) } }
                } }
                @for service in services {
                    tbody data-key=(service.name) {
                        @for (at, variation) in service.variations.iter().enumerate() {
                            tr data-key={ (service.name) "/" (variation.name) } {
                                @if at == 0 { th scope="rowgroup" rowspan=(service.variations.len()) { (named(service)) } }
                                (traffic_shares::sum_cells(variation))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn named(service: &Service) -> Markup {
    html! {
        a href=(places::service(&service.name)) data-open="" { bdi { (service.name) } }
        " " span.small { (text::count(service.routers.into(), "router", "routers")) }
        @if service.unproven > 0 { " " span.small { (service.unproven) " " (text::NOT_PROVEN) } }
        @for release in &service.releases { " " a.small href=(places::release(release)) { bdi { (release) } } }
        @if service.in_release { " " span.small.going { (text::IN_RELEASE) } }
    }
}
