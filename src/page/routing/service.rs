//! One service: over all its routers, and at each.

use axum::{
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::{
    services,
    traffic_shares::{self, By},
};
use crate::{
    api::Api,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places, text,
    visit::Visit,
};
use protocol::api::ServiceDetail;

pub async fn handle(State(page): State<Page>, visit: Visit, Path(name): Path<String>) -> Response {
    match show(&page, &visit, &name).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, name: &str) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let found: ServiceDetail =
        Api::new(page, visit).get(&format!("/api/v1/services/{}", places::escaped(name))).await?;
    let live = Some(Live { after, release: None, ticks: true });
    let head = Head { title: &found.service.name, part: Some(Part::Services), live };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { bdi { (found.service.name) } }
            (services::table(std::slice::from_ref(&found.service)))
            section #routers aria-labelledby="routers-title" {
                h2 #routers-title { (text::BY_ROUTER) }
                (traffic_shares::table(By::Router, &found.by_router))
            }
        },
    ))
}
