//! Who takes part in a release: what each waits for, and what it reported.

use axum::{
    extract::{Path, RawQuery, State},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde_json::Value;

use super::{steer, who};
use crate::{
    actions,
    api::Api,
    context::Page,
    fault::Fault,
    flash::About,
    layout::{self, Head, Live, Part, sentence},
    places,
    query::{self, Filter, Input, Query},
    text::{self, children as words},
    time,
    visit::Visit,
};
use protocol::api::{self, AgentCounts, ReleaseActions, ReleaseChild, StageResult};

/// Children of a page.
const LIMIT: &str = "100";

const FILTERS: [Filter; 4] = [
    Filter {
        name: "status",
        label: words::STATUS,
        input: Input::Choice(&[
            ("No", words::NOT_PLANNED),
            ("Todo", text::TO_COME),
            ("Doing", text::AT_WORK),
            ("Done", words::DONE),
            ("Failed", text::FAILED),
        ]),
    },
    Filter {
        name: "outcome",
        label: words::HOW_IT_ENDED,
        input: Input::Choice(&[
            ("succeeded", text::SUCCEEDED),
            ("failed", text::FAILED),
            ("timed_out", text::TIMED_OUT),
            ("unreachable", text::UNREACHABLE),
            ("lost", text::LOST),
            ("undone", text::TAKEN_BACK),
            ("untested", text::UNTESTED),
            ("excluded", text::LEFT_OUT),
        ]),
    },
    Filter { name: "stage", label: words::STAGE, input: Input::Text("Canary") },
    Filter { name: "wave", label: words::WAVE, input: Input::Text("1") },
];

pub async fn handle(
    State(page): State<Page>,
    visit: Visit,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let heard = About::Child.heard(&page, &visit, &headers, &places::children_of(&id));
    let acted = ActionResult { done: heard.done.and_then(steer::done), ..ActionResult::default() };
    match show(&page, &visit, &id, &Query::read(query.as_deref()), &acted).await {
        Ok(shown) => heard.with(shown.into_response()),
        Err(fault) => fault.page(&visit),
    }
}

/// What somebody did to a child just now, or tried to.
#[derive(Debug, Default)]
pub struct ActionResult {
    pub fault: Option<Fault>,
    /// What was written and not used.
    pub note: String,
    pub done: Option<&'static str>,
}

pub async fn show(
    page: &Page,
    visit: &Visit,
    id: &str,
    asked: &Query,
    acted: &ActionResult,
) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let path = format!("/api/v1/releases/{}/children", places::escaped(id));
    let api = Api::new(page, visit);
    let can = actions::read_one(&api, id, "retry").await?;
    let found: api::Page<ReleaseChild> = api.get(&asked.or("limit", LIMIT).at(&path)).await?;
    let asked_again = asked.with("after", "");
    let here = places::children_of(id);
    let live = Some(Live { after, release: Some(id), ticks: true });
    let title = format!("{}: {id}", text::TAKES_PART);
    Ok(layout::page(
        visit,
        &Head { title: &title, part: Some(Part::Releases), live },
        &html! {
            h1 { (text::TAKES_PART) ": " a href=(places::release(id)) { bdi { (id) } } }
            @if let Some(done) = acted.done { p #done .done role="status" { (done) } }
            @if let Some(fault) = &acted.fault { p.fault role="alert" { (fault.detail) } (actions::kept(&acted.note)) }
            (query::form(&here, &FILTERS, &[], &asked_again))
            @if found.items.is_empty() { p { (text::NO_CHILD_FOUND) } }
            @else { (table(visit, &can, &found.items)) }
            (query::more(&here, &asked_again, found.next.as_deref()))
        },
    ))
}

fn table(visit: &Visit, can: &ReleaseActions, children: &[ReleaseChild]) -> Markup {
    html! {
        div.wide {
            table.list {
                thead { tr {
                    th scope="col" { (words::CHILD) }
                    th scope="col" { (words::STATUS) }
                    th scope="col" { (words::WAVE) }
                    th scope="col" { (words::STAGE) }
                    th scope="col" { (words::WAITS_FOR) }
                    th scope="col" { (words::REPORTED) }
                    th scope="col" { (words::LAST_CALL) }
                    th scope="col" { (words::CAN_BE_DONE) }
                } }
                tbody { @for child in children { tr data-key=(child.child) { (line(visit, can, child)) } } }
            }
        }
    }
}

fn line(visit: &Visit, can: &ReleaseActions, child: &ReleaseChild) -> Markup {
    html! {
        th scope="row" {
            a href=(places::child(&child.child)) data-open="" { bdi { (child.child) } }
            @if let Some(name) = &child.name { " " span.name { bdi { (name) } } }
            @if let Some(place) = &child.place { " " span.small { (place) } }
        }
        td data-field="status" {
            (called(0, &child.status))
            @if let Some(outcome) = &child.outcome { ": " strong class=(look(outcome)) { (called(1, outcome)) } }
            @if child.attempt > 1 { " " span.small { (words::ATTEMPT) " " (child.attempt) } }
            @if let Some(agents) = &child.agents { " " span.small { (agents_below(agents)) } }
        }
        td.number data-field="wave" { (child.wave) }
        td data-field="stage" { bdi { (child.stage.as_deref().unwrap_or("–")) } " " span.small { (child.stage_status) } }
        td.now data-field="waits_for" { (sentence(&child.waits_for)) }
        td data-field="results" { (results(&child.results)) }
        td data-field="last_call" { (who::last_call(child.last_call.as_deref())) }
        td { (steer::form(visit, can, child)) }
    }
}

/// What the filters call a value of the API.
fn called(filter: usize, value: &str) -> &str {
    match FILTERS.get(filter).map(|filter| filter.input) {
        Some(Input::Choice(choices)) => {
            choices.iter().find(|(name, _)| *name == value).map_or(value, |(_, words)| words)
        }
        Some(Input::Text(_)) | None => value,
    }
}

/// The class of an outcome's colour.
fn look(outcome: &str) -> &'static str {
    match outcome {
        "succeeded" => "good",
        "failed" | "timed_out" => "bad",
        "unreachable" | "lost" => "lost",
        "undone" => "back",
        "untested" => "mixed",
        _ => "waiting",
    }
}

fn agents_below(agents: &AgentCounts) -> String {
    let AgentCounts { participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed } =
        *agents;
    let counted = [
        (succeeded, text::SUCCEEDED),
        (failed, text::FAILED),
        (timed_out, text::TIMED_OUT),
        (unreachable, text::UNREACHABLE),
        (untested, text::UNTESTED),
        (unconfirmed, words::UNCONFIRMED),
    ];
    let counted = counted.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> =
        counted.map(|(number, words)| format!("{} {words}", text::grouped(number.into()))).collect();
    words::agents_below(&parts, participants.into())
}

fn results(results: &[StageResult]) -> Markup {
    html! {
        @if results.is_empty() { (text::NOT_YET) }
        @else {
            details {
                summary { (words::reports(results.len() as u64)) }
                @for result in results { (one(result)) }
            }
        }
    }
}

fn one(result: &StageResult) -> Markup {
    html! {
        p {
            bdi { (result.stage) } ": " strong { (result.status) }
            @if result.preliminary { " " span.small { (words::SO_FAR) } }
            @if result.attempt > 1 { " " span.small { (words::ATTEMPT) " " (result.attempt) } }
            " " (time::at(&result.at))
        }
        @if let Value::Object(summary) = &result.summary {
            dl.evidence { @for (key, value) in summary { div { dt { bdi { (key) } } dd { bdi { (said(value)) } } } } }
        }
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
