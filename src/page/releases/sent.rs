//! `POST /ui/releases/{id}/{action}`: a form was sent.

use axum::{
    Form,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};

use super::show;
use crate::{
    actions::{self, Again, FormData, admitted, asks_for_id, is_final, send},
    api::Api,
    context::Page,
    fault::Fault,
    flash::About,
    places, text,
    visit::Visit,
};
use protocol::api::Release;

pub async fn handle(
    State(page): State<Page>,
    visit: Result<Visit, Response>,
    Path((id, action)): Path<(String, String)>,
    headers: HeaderMap,
    Form(form): Form<FormData>,
) -> Response {
    let visit = match admitted(visit, &headers, &form, places::release(&id)) {
        Ok(visit) => visit,
        Err(answer) => return *answer,
    };
    if !actions::is_known(&action) {
        return Fault::bad_request(text::NO_ACTION).page(&visit);
    }
    match act(&page, &visit, &id, &action, &form).await {
        Ok(_) => About::Release.go_on(&page, &headers, &places::release(&id), &action),
        Err(fault) if is_final(fault.status) => fault.page(&visit),
        Err(fault) => {
            let status = fault.status;
            let again = Again { action, form, fault };
            match show::show(&page, &visit, &id, Some(&again), None).await {
                Ok(shown) => (status, shown).into_response(),
                Err(fault) => fault.page(&visit),
            }
        }
    }
}

async fn act(page: &Page, visit: &Visit, id: &str, action: &str, form: &FormData) -> Result<Release, Fault> {
    let api = Api::new(page, visit);
    if action == "abort" {
        let found = actions::read(&api, id).await?;
        let above = page.settings.confirm_abort_above;
        let asks = found.actions.iter().any(|action| asks_for_id(action, above));
        if asks && form.typed.trim() != found.id {
            return Err(Fault {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                ..Fault::bad_request(text::NOT_TYPED)
            });
        }
    }
    let release = places::escaped(id);
    let path = match (action, &form.stage) {
        ("skip", Some(stage)) => format!("/api/v1/releases/{release}/stages/{}/skip", places::escaped(stage)),
        ("skip", None) => return Err(Fault::bad_request(text::NO_ACTION)),
        ("promote", _) => match form.to.as_deref() {
            Some("gate") => format!("/api/v1/releases/{release}/promote?to=gate"),
            Some("all") => format!("/api/v1/releases/{release}/promote"),
            Some(_) | None => return Err(Fault::bad_request(text::NO_ACTION)),
        },
        (action, _) => format!("/api/v1/releases/{release}/{action}"),
    };
    send(&api, &path, form).await
}
