//! Shares of calls: wanted, seen and measured.

use maud::{Markup, html};

use crate::{
    places,
    text::{self, traffic as words},
    time,
};
use protocol::api::{RoutedService, RoutedVariation, ServiceVariationSum, ShareRange};

/// Which of both a table has a line for: a service at one router is named by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Router,
    Service,
}

/// Services as routers lead them.
pub fn table(by: By, all: &[RoutedService]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr {
                    th scope="col" { @match by { By::Router => (words::ROUTER), By::Service => (words::SERVICE) } }
                    @for head in words::HEADS.iter().skip(1) { th scope="col" { (head) } }
                } }
                @for one in all { (rows(by, one)) }
            }
        }
    }
}

fn rows(by: By, one: &RoutedService) -> Markup {
    html! {
        tbody data-key={ (one.router) "/" (one.service) } {
            @for (at, variation) in one.variations.iter().enumerate() {
                tr data-key={ (one.router) "/" (one.service) "/" (variation.name) } {
                    @if at == 0 { th scope="rowgroup" rowspan=(one.variations.len()) { (named(by, one)) } }
                    (cells(variation))
                }
            }
        }
    }
}

fn named(by: By, one: &RoutedService) -> Markup {
    html! {
        @match by {
            By::Router => a href=(places::router(&one.router)) { bdi { (one.router) } },
            By::Service => a href=(places::service(&one.service)) { bdi { (one.service) } },
        }
        @if !one.proven { " " span.small { (text::NOT_PROVEN) } }
        @match &one.release {
            Some(release) => { " " a.small href=(places::release(release)) { bdi { (release) } } }
            None => { " " span.small { (text::OF_NO_RELEASE) } }
        }
        @if let Some(seen) = &one.seen_at { " " span.small { (words::SEEN) " " (time::at(seen)) } }
    }
}

fn cells(variation: &RoutedVariation) -> Markup {
    let number = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), text::grouped);
    html! {
        td { bdi { (variation.name) } @if variation.draining.is_some() { " " span.small { (text::DRAINS) } } }
        td.number data-field="wanted" { (percent(Some(variation.wanted))) }
        td.number data-field="seen" { (percent(variation.seen)) }
        td.number data-field="measured" { (percent(variation.measured)) }
        td.number data-field="calls" { (number(variation.calls)) }
        td.number data-field="errors" { (number(variation.errors)) }
        td.number data-field="targets" { (words::targets(variation.healthy_targets, variation.total_targets)) }
    }
}

/// A variation of a service over all its routers.
pub fn sum_cells(variation: &ServiceVariationSum) -> Markup {
    html! {
        td { bdi { (variation.name) } @if variation.draining > 0 { " " span.small { (text::DRAINS) } } }
        td.number data-field="wanted" { (range(variation.wanted)) }
        td.number data-field="seen" { (variation.seen.map_or_else(|| "–".to_owned(), range)) }
        td.number data-field="measured" { (percent(variation.measured)) }
        td.number data-field="calls" { (text::grouped(variation.calls)) }
        td.number data-field="errors" { (text::grouped(variation.errors)) }
        td.number data-field="targets" { (words::targets(variation.healthy_targets, variation.total_targets)) }
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{share:.2} %"))
}

/// One share, or both ends where routers differ by what can be told.
fn range(range: ShareRange) -> String {
    let (lowest, highest) = (format!("{:.2}", range.lowest), format!("{:.2}", range.highest));
    words::range(&lowest, &highest)
}
