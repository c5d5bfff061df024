//! What a strategy would do, before anything happens.

use maud::{Markup, html};

use crate::{map::planned, text};
use protocol::api::{Plan, PlannedCanary, PlannedExclusion, PlannedMetric, PlannedWave};

pub fn shown(plan: &Plan) -> Markup {
    html! {
        section #plan aria-labelledby="plan-title" {
            h2 #plan-title { (text::PLAN) }
            p {
                (text::count(plan.participants.agents, "agent takes part", "agents take part")) " ("
                (text::count(plan.participants.children.into(), "child", "children")) ")"
                @if let Some(order) = &plan.order { ", " (order.replace('_', " ")) }
                "."
                @if plan.silent > 0 { " " (text::count(plan.silent.into(), "is silent and comes", "are silent and come")) " last." }
                @if plan.busy > 0 { " " (text::count(plan.busy.into(), "has", "have")) " a part in another release first." }
            }
            @if let Some(PlannedCanary { changed, follows, .. }) = &plan.canary {
                p { "It is there already: " @if let Some(changed) = changed { (changed) } @else { "nothing would change" } "." }
                @for sentence in follows { p { (sentence) "." } }
            }
            @if let Some(parent) = &plan.forwards_to { p { "It would be handed to " bdi { (parent) } "." } }
            @if !plan.waits_for.is_empty() {
                p { "It waits for " @for (at, id) in plan.waits_for.iter().enumerate() { @if at > 0 { ", " } bdi { (id) } } "." }
            }
            @if let Some(map) = &plan.map { (planned::shown(map)) }
            (waves(&plan.waves))
            (excluded(&plan.excluded))
            @for metric in &plan.takes { (takes(metric)) }
        }
    }
}

fn waves(waves: &[PlannedWave]) -> Markup {
    html! {
        @if !waves.is_empty() {
            div.wide tabindex="0" role="group" aria-labelledby="plan-title" { table {
                thead { tr {
                    th scope="col" { "Wave" } th scope="col" { "As written" } th scope="col" { "Agents" } th scope="col" { "So far" }
                } }
                tbody { @for wave in waves { tr {
                    th scope="row" { (wave.wave) @if let Some(group) = &wave.group { " " span.small { (group) } } }
                    td { (wave.amount) }
                    td.number { (text::grouped(wave.agents.into())) }
                    td.number { (text::grouped(wave.agents_so_far.into())) }
                } } }
            } }
        }
    }
}

fn excluded(excluded: &[PlannedExclusion]) -> Markup {
    html! {
        @if !excluded.is_empty() {
            h3 { (text::EXCLUDED) }
            dl.facts { @for one in excluded { div { dt { (one.reason) } dd { (text::grouped(one.group.agents)) } } } }
        }
    }
}

fn takes(metric: &PlannedMetric) -> Markup {
    html! {
        @if let Some(said) = metric.warning.as_ref().or(metric.unknown.as_ref()) {
            p.hint { bdi { (metric.metric) } ": " (said) }
        }
    }
}
