//! A strategy is written, checked, planned and submitted: faults stand at their lines, and the plan beside the text.

mod plan;

use axum::{
    Form, Router,
    body::Body,
    extract::{DefaultBodyLimit, Query, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    ROOT,
    actions::let_in,
    api::{self, Api},
    context::Page,
    fault::Fault,
    layout::{self, Head, Part},
    places, text,
    visit::Visit,
};
use protocol::api::{Diagnostic, Plan, ReleaseDetail, Submitted};

/// Largest form, in bytes: a strategy of the largest size, of which each character may take three in a form.
const MAX_FORM: usize = 2 * 1024 * 1024;

pub fn router() -> Router<Page> {
    Router::new().route("/ui/strategies/new", get(empty).post(sent)).layer(DefaultBodyLimit::max(MAX_FORM))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    /// The release whose strategy is the beginning.
    from: Option<String>,
}

async fn empty(State(page): State<Page>, visit: Visit, Query(asked): Query<Asked>) -> Response {
    let begun = match &asked.from {
        None => Ok(String::new()),
        Some(id) => beginning(&page, &visit, id).await,
    };
    match begun {
        Ok(strategy) => shown(&page, &visit, &Draft { strategy, ..Draft::default() }).into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn beginning(page: &Page, visit: &Visit, id: &str) -> Result<String, Fault> {
    let path = format!("/api/v1/releases/{}", places::escaped(id));
    Ok(Api::new(page, visit).get::<ReleaseDetail>(&path).await?.strategy)
}

/// What somebody is writing, and what is known of it.
#[derive(Debug, Default)]
struct Draft {
    strategy: String,
    note: String,
    faults: Vec<Diagnostic>,
    /// Why it can't be planned or submitted, beside the faults.
    refused: Option<String>,
    plan: Option<Plan>,
    /// The release that has just this strategy already.
    there: Option<String>,
    /// Where it went.
    above: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    proof: String,
    strategy: String,
    note: String,
    act: String,
}

async fn sent(
    State(page): State<Page>,
    visit: Result<Visit, Response>,
    headers: HeaderMap,
    Form(sent): Form<Sent>,
) -> Response {
    let visit = match let_in(visit, &headers, &sent.proof, &sent.strategy, places::new_release()) {
        Ok(visit) => visit,
        Err(answer) => return *answer,
    };
    // Browsers end lines in forms with two characters.
    let strategy = sent.strategy.replace("\r\n", "\n");
    let mut draft = Draft { strategy, note: sent.note, ..Draft::default() };
    let api = Api::new(&page, &visit);
    match post::<Plan>(&api, "/api/v1/plan?map=true", &draft.strategy).await {
        Ok(plan) => {
            draft.faults.clone_from(&plan.warnings);
            draft.plan = Some(plan);
        }
        Err(fault) => draft.refuse(fault),
    }
    if sent.act == "submit" && draft.refused.is_none() {
        match submit(&api, &draft).await {
            Ok(Sending::Begun(id)) => return Redirect::to(&places::release(&id)).into_response(),
            Ok(Sending::There(id)) => draft.there = Some(id),
            Ok(Sending::Above(address)) => draft.above = Some(address),
            Err(fault) => draft.refuse(fault),
        }
    }
    let status = if draft.refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    (status, shown(&page, &visit, &draft)).into_response()
}

/// What became of a strategy that was submitted.
enum Sending {
    /// A release of this id began, or waits.
    Begun(String),
    /// The same was submitted before: nothing happened.
    There(String),
    /// It went to the manager above, at this address.
    Above(String),
}

async fn submit(api: &Api<'_>, draft: &Draft) -> Result<Sending, Fault> {
    let note: String = form_urlencoded::Serializer::new(String::new())
        .extend_pairs((!draft.note.trim().is_empty()).then_some(("note", draft.note.trim())))
        .finish();
    let Submitted { id, created, forwarded_to, .. } =
        post(api, &format!("/release?{note}"), &draft.strategy).await?;
    Ok(match forwarded_to {
        Some(address) => Sending::Above(address),
        None if created => Sending::Begun(id),
        None => Sending::There(id),
    })
}

impl Draft {
    fn refuse(&mut self, fault: Fault) {
        let Fault { title, detail, diagnostics, .. } = fault;
        self.refused = Some(if detail.is_empty() { title } else { detail });
        if !diagnostics.is_empty() {
            self.faults = diagnostics;
        }
    }
}

/// Sends a strategy as it is.
async fn post<T: DeserializeOwned>(api: &Api<'_>, path: &str, strategy: &str) -> Result<T, Fault> {
    let kind = HeaderValue::from_static("application/yaml");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
    api::read(api.send(Method::POST, path, headers, Body::from(strategy.to_owned())).await?).await
}

fn shown(page: &Page, visit: &Visit, draft: &Draft) -> Markup {
    let may_submit = page.operators.allows(&visit.session.caller, &Method::POST, "/release");
    let head = Head { title: text::NEW_RELEASE, part: Some(Part::New), live: None };
    layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::NEW_RELEASE) }
            div.beside {
                (form(visit, draft, may_submit))
                div.found {
                    (became(draft))
                    @if let Some(refused) = &draft.refused { p.fault role="alert" { (refused) } }
                    (faults(&draft.faults))
                    @if let Some(plan) = &draft.plan { (plan::shown(plan)) }
                }
            }
        },
    )
}

/// What became of it, where that is no release here that has just begun.
fn became(draft: &Draft) -> Markup {
    html! {
        @if let Some(id) = &draft.there {
            p.done role="status" { (text::THERE_ALREADY) " " a href=(places::release(id)) { bdi { (id) } } }
        }
        @if let Some(address) = &draft.above { p.done role="status" { (text::SENT_ABOVE) " " bdi { (address) } } }
    }
}

fn form(visit: &Visit, draft: &Draft, may_submit: bool) -> Markup {
    let is_bad = draft.refused.is_some();
    html! {
        form.draft method="post" action={ (ROOT) "/strategies/new" } {
            (layout::proof(visit))
            label for="strategy" { (text::STRATEGY) }
            textarea #strategy name="strategy" rows="28" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" required
                aria-describedby="strategy-hint" aria-invalid=[is_bad.then_some("true")] { "\n" (draft.strategy) }
            p #strategy-hint .hint { (text::STRATEGY_HINT) }
            @if may_submit {
                label for="note" { (text::NOTE) }
                input #note name="note" value=(draft.note) maxlength="1000" autocomplete="off";
            } @else {
                p.hint { (text::NO_SUBMIT) }
            }
            div.buttons {
                button type="submit" name="act" value="check" { (text::CHECK) }
                @if may_submit { button type="submit" name="act" value="submit" { (text::SUBMIT) } }
            }
        }
    }
}

/// Each at its line, which is shown.
fn faults(faults: &[Diagnostic]) -> Markup {
    html! {
        @if !faults.is_empty() {
            section #faults aria-labelledby="faults-title" {
                h2 #faults-title { (text::count(faults.len() as u64, "remark", "remarks")) }
                ol.faults { @for fault in faults { (one(fault)) } }
            }
        }
    }
}

fn one(fault: &Diagnostic) -> Markup {
    let class = if fault.severity == "error" { "bad" } else { "asks" };
    html! {
        li {
            strong class=(class) { (fault.severity) } " "
            a href="#strategy" data-line=(fault.line) data-column=(fault.column) { "line " (fault.line) ", column " (fault.column) }
            p { (fault.message) }
            @if !fault.source_line.is_empty() { pre tabindex="0" { code { (fault.source_line) } } }
            @if let Some(fix) = &fault.fix { p.hint { (fix) } }
        }
    }
}
