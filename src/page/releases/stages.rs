//! The stages of a release, and who is where in them.

use maud::{Markup, html};

use super::waves::leading;
use crate::{
    layout::sentence,
    text::{self, release as words},
};
use protocol::api::StageOverview;

pub fn table(id: Option<&str>, stages: &[StageOverview]) -> Markup {
    html! {
        @if !stages.is_empty() {
            section #stages aria-labelledby="stages-title" {
                h2 #stages-title { (text::STAGES) }
                div.wide tabindex="0" role="group" aria-labelledby="stages-title" {
                    table {
                        thead { tr {
                            th scope="col" { (words::STAGE) }
                            th scope="col" { (words::ENDS) }
                            th scope="col" { (words::CALLS_TO_NEW) }
                            th scope="col" { (words::IN_IT) }
                            th scope="col" { (words::WAITS_FOR) }
                        } }
                        tbody { @for stage in stages { tr data-key=(stage.name) { (line(id, stage)) } } }
                    }
                }
            }
        }
    }
}

fn line(id: Option<&str>, stage: &StageOverview) -> Markup {
    html! {
        th scope="row" {
            (leading(id, "stage", &stage.name, &html! { bdi { (stage.name) } }))
            @if stage.skipped { " " span.small { (words::SKIPPED) } }
            @if stage.failed { " " span.small { (words::FAILED) } }
            @if !stage.function.is_empty() { " " span.name { bdi { (stage.function) } } }
        }
        td { (ends(&stage.kind)) }
        td data-field="shares" { (shares(stage)) }
        td data-field="children" { (inside(stage)) }
        td.now data-field="waits_for" { (sentence(stage.waits_for.as_deref().unwrap_or("–"))) }
    }
}

fn ends(kind: &str) -> &str {
    match kind {
        "A/B" => words::ENDS_BY_MEASURES,
        "WaitForSignal" => words::ENDS_BY_SIGNAL,
        other => other,
    }
}

fn shares(stage: &StageOverview) -> Markup {
    html! {
        @if stage.shares.is_empty() {
            (stage.new_traffic) " %"
        } @else {
            @for (at, (variation, percent)) in stage.shares.iter().enumerate() { @if at > 0 { ", " } bdi { (variation) } " " (percent) " %" }
        }
    }
}

fn inside(stage: &StageOverview) -> Markup {
    let all: Vec<_> =
        stage.children.iter().chain(&stage.agents_below).filter(|(_, number)| **number > 0).collect();
    html! {
        @if all.is_empty() { "–" }
        @for (at, (status, number)) in all.into_iter().enumerate() {
            @if at > 0 { ", " }
            (text::grouped((*number).into())) " " (status)
        }
    }
}
