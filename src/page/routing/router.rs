//! One router: how it is, what it leads, and what was asked of it.

use axum::{
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::traffic_shares::{self, By};
use crate::{
    api::Api,
    children::who,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places,
    text::{self, traffic as words},
    time,
    visit::Visit,
};
use protocol::api::{Router, RouterDetail, RouterOrder};

pub async fn handle(State(page): State<Page>, visit: Visit, Path(id): Path<String>) -> Response {
    match show(&page, &visit, &id).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, id: &str) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let found: RouterDetail =
        Api::new(page, visit).get(&format!("/api/v1/routers/{}", places::escaped(id))).await?;
    let router = &found.router;
    let live = Some(Live { after, release: None, ticks: true });
    let head = Head { title: &router.id, part: Some(Part::Routers), live };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            (heading(router))
            section #led aria-labelledby="led-title" {
                h2 #led-title { (text::LED) }
                @if found.led.is_empty() { p { (text::LEADS_NOTHING) } } @else { (traffic_shares::table(By::Service, &found.led)) }
                @for service in &found.led {
                    @for listen in service.led.ports.iter().filter(|listen| listen.shared) {
                        p.now data-field="shared" { bdi { (service.service) } ", " (listen) ": " (text::SHARED) }
                    }
                }
            }
            @if !found.orders.is_empty() { (orders(&found.orders)) }
        },
    ))
}

fn heading(router: &Router) -> Markup {
    html! {
        header.router {
            h1 { bdi { (router.id) } }
            @if let Some(name) = &router.name { p.name { bdi { (name) } } }
            @if !router.reached { p.fault { (text::NOT_REACHED) } }
            @if let Some(trouble) = &router.trouble { p.now data-field="trouble" { bdi { (trouble) } } }
            @if let Some(why) = &router.takeover_trouble { p.now data-field="takeover_trouble" { (text::TAKES_NOTHING_OVER) ": " bdi { (why) } } }
            dl.facts {
                div { dt { (words::LED_BY) } dd { a href=(places::child(&router.id)) { bdi { (router.id) } } } }
                div { dt { (words::KIND) } dd { bdi { (router.kind) } @if let Some(version) = &router.version { " " bdi { (version) } } } }
                div { dt { (words::PHASE) } dd data-field="phase" { (router.phase.replace('_', " ")) ", " (words::SINCE) " " (time::at(&router.since)) } }
                div { dt { (words::LAST_CALL) } dd { (who::last_call(router.last_call.as_deref())) } }
                div { dt { (words::REPAIRS) } dd data-field="repairs" { (router.repairs) } }
                div { dt { (words::DRIFTS) } dd data-field="drifts" { (router.drifts) } }
            }
        }
    }
}

fn orders(orders: &[RouterOrder]) -> Markup {
    html! {
        section #orders aria-labelledby="orders-title" {
            h2 #orders-title { (text::ORDERS) }
            ol.trail { @for order in orders {
                li {
                    (time::at(&order.at)) " " bdi.actor { (order.by) } " " strong { (order.what) }
                    @if let Some(service) = &order.service { " " bdi { (service) } }
                    @if let Some(config) = &order.config { " " bdi { (config) } }
                    ": " (order.state)
                    @if let Some(answer) = &order.answer {
                        pre tabindex="0" { bdi { (answer.text) } }
                        @for left in &answer.left_over { p { (words::LEFT_OVER) ": " bdi { (left) } } }
                    }
                }
            } }
        }
    }
}
