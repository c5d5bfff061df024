//! Who gets which share of a service's calls: wanted, seen and measured, router by router, and how that came about.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::{
    places,
    text::{self, traffic as words},
    time,
};
use protocol::api::{ReleaseTraffic, RoutedService, RoutedVariation, ServiceTraffic, TrafficEntry};

pub fn shares(traffic: &ReleaseTraffic) -> Markup {
    html! {
        section #traffic aria-labelledby="traffic-title" {
            h2 #traffic-title { (text::TRAFFIC) }
            @for service in &traffic.services { (by_router(service)) }
            @if !traffic.history.is_empty() { (history(&traffic.history)) }
        }
    }
}

fn by_router(service: &ServiceTraffic) -> Markup {
    html! {
        h3 { a href=(places::service(&service.service)) { bdi { (service.service) } } }
        @if service.routers.is_empty() {
            p.hint { (words::NO_ROUTER) }
        } @else {
            div.wide tabindex="0" role="group" aria-label=(service.service) {
                table {
                    thead { tr { @for head in words::HEADS { th scope="col" { (head) } } } }
                    @for router in &service.routers { (rows(router)) }
                }
            }
        }
    }
}

fn rows(router: &RoutedService) -> Markup {
    html! {
        tbody data-key=(router.router) {
            @for (at, variation) in router.variations.iter().enumerate() {
                tr data-key={ (router.router) "/" (router.service) "/" (variation.name) } {
                    @if at == 0 {
                        th scope="rowgroup" rowspan=(router.variations.len()) {
                            a href=(places::router(&router.router)) { bdi { (router.router) } }
                            @if !router.proven { " " span.small { (text::NOT_PROVEN) } }
                        }
                    }
                    (variation_cells(variation))
                }
            }
        }
    }
}

fn variation_cells(variation: &RoutedVariation) -> Markup {
    let number = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), text::grouped);
    html! {
        td { bdi { (variation.name) } }
        td.number data-field="wanted" { (percent(Some(variation.wanted))) }
        td.number data-field="seen" { (percent(variation.seen)) }
        td.number data-field="measured" { (percent(variation.measured)) }
        td.number data-field="calls" { (number(variation.calls)) }
        td.number data-field="errors" { (number(variation.errors)) }
        td.number data-field="targets" { (words::targets(variation.healthy_targets, variation.total_targets)) }
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{share:.2} %"))
}

fn history(entries: &[TrafficEntry]) -> Markup {
    html! {
        details {
            summary { (words::HISTORY) }
            ol.trail { @for entry in entries { (change(entry)) } }
        }
    }
}

fn change(entry: &TrafficEntry) -> Markup {
    html! {
        li {
            (time::at(&entry.timestamp)) " " a href=(places::router(&entry.router)) { bdi { (entry.router) } }
            @if let Some(service) = &entry.service { " " a href=(places::service(service)) { bdi { (service) } } }
            p {
                bdi { (said(&entry.from)) } " → " bdi { (said(&entry.to)) } ", " (words::SEEN) ": " bdi { (said(&entry.seen)) }
                ", " (words::BY) " " bdi { (entry.by) }
            }
        }
    }
}

fn said(shares: &BTreeMap<String, f64>) -> String {
    if shares.is_empty() {
        return words::NOTHING.to_owned();
    }
    shares.iter().map(|(name, share)| format!("{name} {share:.2} %")).collect::<Vec<_>>().join(", ")
}
