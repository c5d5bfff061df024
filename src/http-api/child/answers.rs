//! `POST /answers`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};

use super::{
    body::ChildBody,
    caller::{check_token, expect_json},
    refused::Refused,
};
use crate::Context;
use protocol::question::{AnswersRequest, MAX_ANSWERS_BODY_BYTES, QuestionAnswer};

/// What a manager says to the questions that it was asked with the answers to its polls.
#[utoipa::path(post, path = "/answers", operation_id = "answer_questions", tag = "child protocol",
    request_body(content = Object, description = "`id`, and `answers`: for each question its `id`, and a `body`, or \
        the `error` for which there is none."),
    responses(
        (status = 200, description = "Taken."),
        (status = 400, description = "Malformed.", content_type = "text/plain", body = String),
        (status = 404, description = "This child was not asked that, or nobody waits for the answer any more.",
            content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    headers: HeaderMap,
    body: Result<ChildBody<MAX_ANSWERS_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    expect_json(&headers)?;
    let body = body?;
    let request = AnswersRequest::parse(&body.bytes)?;
    check_token(&ctx, &headers, &request.id)?;
    let served_ms = ctx.served_ms();
    let key = ctx.view().children.with(&request.id, |child| {
        child.touch(served_ms);
        child.key
    });
    let Some(key) = key else {
        return Err(Refused::new(StatusCode::NOT_FOUND, "this child was not asked anything"));
    };
    let mut unasked = None;
    for QuestionAnswer { id, body, error } in request.answers {
        let said = error.map_or(Ok(body), Err);
        if !ctx.view().questions.answered(key, &id, said) {
            unasked = Some(id);
        }
    }
    if let Some(id) = unasked {
        let text =
            format!("question {id} was not put to this child, or nobody waits for its answer any more");
        return Err(Refused::new(StatusCode::NOT_FOUND, text));
    }
    let mut response = Response::default();
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    Ok(response)
}
