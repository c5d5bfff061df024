//! Hands a submission to the parent.

use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::submit::{How, Prepared};
use crate::{Context, context::PATIENCE, problem::Problem};
use domain::release::{command::Command, parent};
use engine::parent::forward::{ForwardError, Forwarded, MAX_PASSED, PASSED_HEADER};
use model::{MAX_OFFER_ID_LEN, TenantName};

/// The managers that a submission passed on its way here. One that passed this one is refused.
pub(super) fn passed(ctx: &Context, headers: &HeaderMap) -> Result<Vec<String>, Problem> {
    let Some(value) = headers.get(PASSED_HEADER) else { return Ok(Vec::new()) };
    let text = value.to_str().map_err(|_| Problem::bad_request(format!("{PASSED_HEADER} is no text")))?;
    let ids: Vec<String> =
        text.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect();
    if ids.len() > MAX_PASSED || ids.iter().any(|id| id.len() > MAX_OFFER_ID_LEN) {
        return Err(Problem::bad_request(format!(
            "{PASSED_HEADER} has at most {MAX_PASSED} ids of managers"
        )));
    }
    if ids.iter().any(|id| id == ctx.view().kept.identity()) {
        let detail = "the strategy went in a circle: a manager above this one has it as its parent";
        tracing::error!(passed = text, detail);
        return Err(Problem::new(StatusCode::LOOP_DETECTED, "forward", detail));
    }
    Ok(ids)
}

/// Its answer is the one of the parent; here a pointer is left.
pub(super) async fn hand_over(
    ctx: &Context,
    prepared: Prepared,
    mut passed: Vec<String>,
    How { dry_run, deferred, by, scope }: How,
) -> Result<Response, Problem> {
    let Prepared { submission, archive, .. } = prepared;
    let Some((forward, _)) = ctx.forwarding.of(&submission.strategy)? else {
        return Err(engine::EngineError::Failed.into());
    };
    passed.push(ctx.view().kept.identity().to_owned());
    let release = Forwarded {
        strategy: &submission.text,
        functions: archive.bytes,
        dry_run,
        deferred,
        by: &by.actor.name(),
        note: by.note.as_deref(),
        tenant: scope.tenant().map(TenantName::as_str),
        passed: &passed,
    };
    let (status, mut submitted) = forward.submit(release).await?;
    if !dry_run {
        let command = Command::Parent(parent::Command::NoteForwarded {
            release: submission.id.to_string(),
            to: forward.url().to_owned(),
        });
        ctx.engine.call(command, by.clone(), PATIENCE).await?;
        ctx.engine.pointers_gone(ctx.view().pointers.outdated()).await?;
    }
    submitted.forwarded_to = Some(forward.url().to_owned());
    let status = if status == StatusCode::CREATED { status } else { StatusCode::OK };
    let mut response = (status, Json(submitted)).into_response();
    let location = HeaderValue::try_from(format!("{}api/v1/releases/{}", forward.url(), submission.id));
    if let Some(location) = location.ok().filter(|_| !dry_run) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// What an error of the parent is to whoever submitted here.
impl From<ForwardError> for Problem {
    fn from(error: ForwardError) -> Self {
        let detail = error.to_string();
        match error {
            ForwardError::AreaUnknown => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "forward", detail),
            ForwardError::TooFar(_) => Self::new(StatusCode::LOOP_DETECTED, "forward", detail),
            ForwardError::Unreachable(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "forward", detail),
            ForwardError::Refused(problem) => match problem.status {
                // It is this manager that may not, not whoever submitted.
                401 | 403 => Self::new(
                    StatusCode::BAD_GATEWAY,
                    "forward",
                    format!("{detail}; see parent.operator_token_file"),
                ),
                status => {
                    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                    Self::new(status, "forward", detail).with_diagnostics(problem.diagnostics)
                }
            },
            ForwardError::Address(_) | ForwardError::Area(_) | ForwardError::Nonsense(_) => {
                tracing::warn!(error = detail, "a release could not be handed to the manager above");
                Self::new(StatusCode::BAD_GATEWAY, "forward", detail)
            }
        }
    }
}
