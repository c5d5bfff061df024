//! What every form goes through before anything is done.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{FormData, is_foreign, kept};
use crate::{api::Api, fault::Fault, layout, text, visit::Visit};
use protocol::api::{Note, Release};

/// Lets a form of this site and of this session through; the visit is then one of the page `here`. Else, what is answered.
pub fn admitted(
    visit: Result<Visit, Response>,
    headers: &HeaderMap,
    form: &FormData,
    here: String,
) -> Result<Visit, Box<Response>> {
    let_in(visit, headers, &form.proof, &form.note, here)
}

/// The same for any form: its proof, and what somebody wrote in it, which isn't lost where it isn't let through.
pub fn let_in(
    visit: Result<Visit, Response>,
    headers: &HeaderMap,
    proof: &str,
    written: &str,
    here: String,
) -> Result<Visit, Box<Response>> {
    let own = !is_foreign(headers);
    // Whoever comes from elsewhere chose the text as well.
    let written = kept(if own { written } else { "" });
    let Ok(visit) = visit else {
        let said = layout::session_over(&here, &written);
        return Err(Box::new((StatusCode::UNAUTHORIZED, said).into_response()));
    };
    // Links of the page that is shown lead to what can be asked for.
    let visit = Visit { asked: here, ..visit };
    if !own || !visit.session.is_proven_by(proof) {
        return Err(Box::new(Fault::unproven().page_with(&visit, &written)));
    }
    Ok(visit)
}

/// Does what a path of the API does, to the release that the form was made for, with the form's note.
pub async fn send(api: &Api<'_>, path: &str, form: &FormData) -> Result<Release, Fault> {
    let seen = HeaderValue::try_from(format!("\"{}\"", form.tag));
    let seen = seen.map_err(|_| Fault::bad_request(text::NO_ACTION))?;
    // Browsers send the ends of lines as forms have them.
    let note = Some(form.note.replace("\r\n", "\n")).filter(|note| !note.trim().is_empty());
    api.post(path, HeaderMap::from_iter([(header::IF_MATCH, seen)]), &Note { by: None, note }).await
}

/// Whether looking again at what was to be acted on would help nobody.
pub fn is_final(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
}
