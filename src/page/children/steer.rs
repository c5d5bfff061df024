//! What people do to one child's part in a release: another attempt, or nobody waits for it any more.

use axum::{
    Form,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::of_release::{self, ActionResult};
use crate::{
    actions::{FormData, admitted, fields, is_final, send},
    api::Api,
    context::Page,
    fault::Fault,
    flash::About,
    places,
    query::Query,
    text::{self, children as words},
    visit::Visit,
};
use protocol::api::{ReleaseActions, ReleaseChild};

/// What is done to one child: as the API calls it, what to call it, what it does, and what is said when it was done.
const VERBS: [(&str, &str, &str, &str); 2] = [
    ("retry", text::RETRY_CHILD, text::RETRY_CHILD_DOES, text::CHILD_RETRIED),
    ("skip", text::SKIP_CHILD, text::SKIP_CHILD_DOES, text::CHILD_SKIPPED),
];

/// What was done, in words; `None`: that is no name of it.
pub fn done(name: &str) -> Option<&'static str> {
    VERBS.iter().find(|(known, ..)| *known == name).map(|(.., said)| *said)
}

/// `POST /ui/releases/{id}/children/{child}/{verb}`.
pub async fn handle(
    State(page): State<Page>,
    visit: Result<Visit, Response>,
    Path((id, child, verb)): Path<(String, String, String)>,
    headers: HeaderMap,
    Form(form): Form<FormData>,
) -> Response {
    let here = places::children_of(&id);
    let visit = match admitted(visit, &headers, &form, here.clone()) {
        Ok(visit) => visit,
        Err(answer) => return *answer,
    };
    if done(&verb).is_none() {
        return Fault::bad_request(text::NO_ACTION).page(&visit);
    }
    let release = places::escaped(&id);
    let path = format!("/api/v1/releases/{release}/children/{}/{verb}", places::escaped(&child));
    match send(&Api::new(&page, &visit), &path, &form).await {
        Ok(_) => About::Child.go_on(&page, &headers, &here, &verb),
        Err(fault) if is_final(fault.status) => fault.page(&visit),
        Err(fault) => {
            let status = fault.status;
            let acted = ActionResult { fault: Some(fault), note: form.note, done: None };
            match of_release::show(&page, &visit, &id, &Query::default(), &acted).await {
                Ok(shown) => (status, shown).into_response(),
                Err(fault) => fault.page(&visit),
            }
        }
    }
}

/// What can be done to a child's part, or why nothing can.
enum Can {
    /// By this one of [`VERBS`], which is numbered.
    Do(usize),
    Nothing(&'static str),
}

const RETRY: usize = 0;
const SKIP: usize = 1;

/// One that ended badly may try again, one that is waited for may be left out, while the release is under way. Of a manager that ended well
/// some agents may have ended badly.
fn can(state: &str, child: &ReleaseChild) -> Can {
    let has_bad =
        child.agents.is_some_and(|agents| agents.failed + agents.timed_out + agents.unreachable > 0);
    let (verb, otherwise) = match child.outcome.as_deref() {
        None => (Some(SKIP), words::NOBODY_WAITS),
        Some("failed" | "timed_out" | "unreachable" | "lost" | "excluded" | "untested") => {
            (Some(RETRY), words::RETRY_ALL)
        }
        Some("succeeded") if has_bad => (Some(RETRY), words::RETRY_ALL),
        Some("undone") => (None, words::IS_BACK),
        Some(_) => (None, words::WENT_WELL),
    };
    let is_under_way = matches!(state, "Running" | "Paused" | "AwaitingApproval");
    verb.filter(|_| is_under_way).map_or(Can::Nothing(otherwise), Can::Do)
}

/// The form of what can be done to a child's part, with what that does to how many agents where. Whoever may only look sees nothing.
pub fn form(visit: &Visit, found: &ReleaseActions, child: &ReleaseChild) -> Markup {
    if !found.actions.iter().any(|one| one.action == "retry" && one.allowed) {
        return html! { "–" };
    }
    let verb = match can(&found.state, child) {
        Can::Do(verb) => VERBS.get(verb),
        Can::Nothing(why) => return html! { span.small { (why) } },
    };
    let agents = child.agents.map(|agents| agents.participants);
    let reach = words::reach(agents, child.place.as_deref());
    let note = format!("note-{}", child.child);
    html! {
        @if let Some((verb, called, does, _)) = verb {
            details {
                summary { (called) }
                p.small #{ "does-" (child.child) } { (does) " " (reach) }
                form.action method="post" action={ (places::children_of(&found.id)) "/" (places::escaped(&child.child)) "/" (verb) }
                    data-action=(verb) aria-describedby={ "does-" (child.child) } {
                    (fields(visit, found, &note, ""))
                    button type="submit" { (called) " " bdi { (child.child) } }
                }
            }
        }
    }
}
