//! What judges a release: verdicts in a sentence, with what they rest on.

use maud::{Markup, html};

use super::compared;
use crate::{
    layout::sentence,
    text::{self, release as words},
};
use protocol::api::{AnalysisOverview, MetricOverview};

pub fn blocks(analyses: &[AnalysisOverview]) -> Markup {
    html! {
        @if !analyses.is_empty() {
            section #judged aria-labelledby="judged-title" {
                h2 #judged-title { (text::JUDGED) }
                @for analysis in analyses { (block(analysis)) }
            }
        }
    }
}

fn block(analysis: &AnalysisOverview) -> Markup {
    html! {
        article.analysis data-key=(analysis.of) {
            h3 { (analysis.of) " " span class={ "badge " (look(&analysis.state)) } data-field="stands" { (analysis.state) } }
            @if let Some(why) = &analysis.why { p data-field="why" { (sentence(why)) } }
            p.hint {
                @if analysis.run == 0 { (words::NOT_BEGUN) }
                @else { (words::run(analysis.run, analysis.runs, analysis.looks)) }
                @if let Some(reporting) = &analysis.reporting { " " (reporting) }
            }
            @for metric in &analysis.metrics { (one(metric)) }
        }
    }
}

fn look(state: &str) -> &'static str {
    match state {
        "passed" | "accepted" => "good",
        "failed" => "bad",
        "paused" => "asks",
        "open" => "going",
        _ => "waiting",
    }
}

fn one(metric: &MetricOverview) -> Markup {
    html! {
        div.metric data-key=(metric.name) {
            h4 { bdi { (metric.name) } @if metric.dry_run { " " span.small { (words::DRY_RUN) } } }
            p {
                @if let Some(verdict) = &metric.verdict { strong data-field="verdict" { (verdict) } @if !metric.found.is_empty() { ": " } }
                span data-field="found" { (metric.found) }
            }
            (compared::drawn(metric))
            @if let Some(evidence) = &metric.evidence {
                details {
                    summary { (words::EVIDENCE) }
                    dl.evidence { (entries(evidence)) }
                }
            }
        }
    }
}

/// The evidence as the API has it, name by name.
fn entries(evidence: &serde_json::Value) -> Markup {
    let all = evidence.as_object().into_iter().flatten();
    html! { @for (name, value) in all { div { dt { (name) } dd { (plain(value)) } } } }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
