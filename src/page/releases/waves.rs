//! The waves of a release, and how near it is to its limits.

use maud::{Markup, html};

use crate::{
    layout::sentence,
    places,
    text::{self, release as words},
};
use protocol::api::{LimitOverview, WaveOverview};

/// How a limit is written that lets all of them end like this.
const NO_LIMIT: &str = "100%";

pub fn list(id: Option<&str>, waves: &[WaveOverview]) -> Markup {
    html! {
        @if !waves.is_empty() {
            section #waves aria-labelledby="waves-title" {
                h2 #waves-title { (text::WAVES) }
                ol.waves { @for wave in waves { li data-key=(wave.number) { (one(id, wave)) } } }
            }
        }
    }
}

fn one(id: Option<&str>, wave: &WaveOverview) -> Markup {
    let all: u32 = wave.children.values().sum();
    html! {
        strong { (leading(id, "wave", &wave.number.to_string(), &html! { (wave.name) })) } " "
        span.small data-field="open" { (if wave.open { text::WAVE_OPEN } else { text::WAVE_CLOSED }) }
        p data-field="children" {
            (words::children(all.into())) ": "
            @for (at, (stands, number)) in wave.children.iter().enumerate() {
                @if at > 0 { ", " }
                (text::grouped((*number).into())) " " (stands.replace('_', " "))
            }
        }
        @if let Some(waits_for) = &wave.waits_for { p.now data-field="waits_for" { (sentence(waits_for)) } }
    }
}

/// What counts children leads to them, where the release has a list of them here. `what`: by which filter of that.
pub fn leading(id: Option<&str>, what: &str, value: &str, said: &Markup) -> Markup {
    html! {
        @match id {
            Some(id) => { a href=(places::some_children_of(id, what, value)) { (said) } }
            None => { (said) }
        }
    }
}

/// Limits; what lets all of them end like this is none.
pub fn limits(id: Option<&str>, limits: &[LimitOverview]) -> Markup {
    let real = || limits.iter().filter(|limit| limit.limit != NO_LIMIT);
    html! {
        @if real().next().is_some() {
            section #limits aria-labelledby="limits-title" {
                h2 #limits-title { (text::LIMITS) }
                ul.limits { @for limit in real() { li data-key=(limit.name) { (near(id, limit)) } } }
            }
        }
    }
}

/// A limit in a sentence, and as a meter. Browsers show it in one way up to three quarters, in another up to the last that is
/// borne, and in a third where one more passes it.
fn near(id: Option<&str>, limit: &LimitOverview) -> Markup {
    let counted = limit.count.saturating_sub(limit.accepted);
    let what = text::limit(&limit.name);
    // A limit is called after the outcome that it counts.
    let outcome = limit.name.trim_start_matches("max_");
    let said = words::of_at_most(&what, limit.count, limit.most);
    let full = f64::from(limit.most.max(1));
    let high = (full - 0.5).min(f64::from(limit.most));
    let near = text::near_limit(counted, limit.most);
    html! {
        span data-field="limit" {
            (leading(id, "outcome", outcome, &html! { (said) })) " (" (limit.limit) ")"
            @if limit.accepted > 0 { ", " (text::grouped(limit.accepted.into())) " " (words::ACCEPTED) }
            ": " (near)
        }
        " "
        meter min="0" max=(full) value=(f64::from(counted).min(full)) low=((full * 0.75).min(high)) high=(high) optimum="0" aria-label=(format!("{said}: {near}")) {}
    }
}
