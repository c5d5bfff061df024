//! `POST /release`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use utoipa::{IntoParams, ToSchema};

use super::{
    advice, canary,
    forward::{self, passed},
    upload::{self, Upload},
};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{Query, acting},
    problem::{self, Problem},
    quota,
    scope::Scope,
};
use domain::release::{
    command::{Command, Outlook, Reply},
    lifecycle,
    state::{End, ReleaseState},
};
use engine::{By, EngineError};
use language::{
    Checked, Diagnostic, Severity, Strategy, TextPlaces, functions,
    functions::{Archive, ArchiveError},
};
use protocol::api::{self, Note, Submitted};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Checks everything and says what would happen; changes nothing.
    dry_run: bool,
    /// Whether it starts as soon as it can; else it waits until it is resumed. `true` if not given.
    start: Option<bool>,
    /// Who submits, for the audit trail.
    by: Option<String>,
    /// Why.
    note: Option<String>,
    /// The tenant whose release it is, if it is submitted with a token that is bound to none.
    tenant: Option<String>,
}

/// The parts of a multipart submission.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it describes a body that is read part by part")]
pub struct SubmissionParts {
    /// The strategy, YAML.
    strategy: String,
    /// A zip of the functions' folders. Without it they are taken from the manager's own folder.
    #[schema(value_type = Option<String>, format = Binary)]
    functions: Option<Vec<u8>>,
}

/// Submits a release.
///
/// The same id with the same content is answered 200 and changes nothing, unless nobody could take part: then it is planned
/// once more. With other content it is refused.
///
/// A text of `kind: Release` is registered, and one of `kind: CanaryRelease` becomes a release. The same `CanaryRelease` with another weight
/// gets that from now on, and with another `spec.transition` it is adopted or deprecated: `changed` says what became of it. To adopt
/// takes the role approver.
#[utoipa::path(post, path = "/release", operation_id = "submit_release", tag = "releases",
    params(Parameters),
    request_body(content((String = "application/yaml"), (SubmissionParts = "multipart/form-data")),
        description = "The strategy, alone or with a zip of its functions; or a manifest of `kind: CanaryRelease` or `kind: Release` alone, \
            as YAML, or as JSON that is sent as YAML."),
    responses(
        (status = 201, body = Submitted, description = "Created.", headers(("Location" = String))),
        (status = 200, body = Submitted,
            description = "It was there already, and was changed if `changed` says so; or it was a dry run."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "The id has other content, or a release is in the way; or a CanaryRelease is not in a state for its transition or \
                for another weight."),
        (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too large."),
        (status = 415, body = api::Problem, content_type = "application/problem+json",
            description = "Neither YAML nor multipart."),
        (status = 503, body = api::Problem, content_type = "application/problem+json",
            description = "It is to go to the manager above, which does not answer; nothing was submitted."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "The strategy or its functions have faults; all of the strategy's are listed. Or a field of a CanaryRelease or \
                Release can't be taken; it is named."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    operator: Option<Extension<CallingOperator>>,
    caller: Scope,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<Response, Problem> {
    let Parameters { dry_run, start, by, note, tenant } = parameters;
    let scope = caller.clone().acting_for(&ctx.view().tenants, tenant.as_deref())?;
    let deferred = start == Some(false);
    let by = acting(operator.as_deref(), Note { by, note })?;
    let passed = passed(&ctx, request.headers())?;
    let upload = upload::read(&ctx, request).await?;
    let (preparing, whose) = (ctx.clone(), scope.clone());
    let read = move || match canary::read(&upload)? {
        Some(document) => Ok(Err(document)),
        None => prepare(&upload, &preparing, &whose).map(Ok),
    };
    let prepared = match ctx.in_turn(read).await?? {
        Ok(prepared) => prepared,
        Err(document) => {
            if deferred {
                let detail = "a CanaryRelease or Release can't wait for its start: leave start=false out";
                return Err(Problem::bad_request(detail));
            }
            let may_approve = canary::may_approve(operator.as_deref());
            let asked = canary::Asked { dry_run, by, scope, caller, may_approve };
            return canary::submit(&ctx, document, asked).await;
        }
    };
    let how = How { dry_run, deferred, by, scope };
    if prepared.goes_up {
        return forward::hand_over(&ctx, prepared, passed, how).await;
    }
    let (status, body) = submit_prepared(&ctx, prepared, how, &caller).await?;
    Ok(answered(status, body))
}

/// Submits what has been checked: 201 where it wasn't there. `caller`: to whom the releases are named that it waits for.
pub(super) async fn submit_prepared(
    ctx: &Context,
    prepared: Prepared,
    How { dry_run, deferred, by, scope }: How,
    caller: &Scope,
) -> Result<(StatusCode, Submitted), Problem> {
    let Prepared { mut submission, archive, mut warnings, places, .. } = prepared;
    submission.deferred = deferred;
    let (id, strategy) = (submission.id.clone(), Arc::clone(&submission.strategy));
    // Held until it is there.
    let _turn = match scope.tenant().filter(|_| ctx.view().releases.key_of(id.as_str()).is_none()) {
        Some(tenant) => {
            let bytes = submission.text.len() + archive.bytes.len();
            Some(quota::for_release(ctx, tenant, bytes as u64).await?)
        }
        None => None,
    };
    let reply = ctx.engine.submit(Box::new(submission), archive.bytes, dry_run, by.clone(), PATIENCE).await?;
    let Reply::Submitted { created, outlook } = reply else { return Err(EngineError::Failed.into()) };
    warnings.extend(advice::warnings(&strategy, &places, &outlook.advice));
    let created = created || begins_again(ctx, id.as_str(), by, dry_run).await?;
    let status = if created && !dry_run { StatusCode::CREATED } else { StatusCode::OK };
    let mut body = answer(&strategy, created, dry_run, &outlook, &warnings);
    body.waits_for = body.waits_for.iter().map(|id| caller.name(id).to_owned()).collect();
    body.waits_for.dedup();
    Ok((status, body))
}

/// The answer to a submission, with the place of the release.
pub(super) fn answered(status: StatusCode, body: Submitted) -> Response {
    let place = (!body.dry_run).then(|| body.id.clone());
    placed(place.as_deref(), (status, Json(body)))
}

/// An answer with the place of the release of this id, if there is one.
pub(super) fn placed(id: Option<&str>, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let location = id.and_then(|id| HeaderValue::try_from(format!("/api/v1/releases/{id}")).ok());
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Plans a release once more in which nobody could take part, unless it is only asked what would happen; false: it was another one.
async fn begins_again(ctx: &Context, id: &str, by: By, dry_run: bool) -> Result<bool, Problem> {
    let row = ctx.engine.reader().release(id).await.map_err(|error| {
        tracing::warn!(%error, id, "a release could not be read");
        Problem::from(EngineError::Busy)
    })?;
    let is_empty = row.is_some_and(|row| row.state == NO_PARTICIPANTS.name());
    if is_empty && !dry_run {
        let release = id.to_owned();
        ctx.engine.call(Command::Lifecycle(lifecycle::Command::PlanAgain { release }), by, PATIENCE).await?;
    }
    Ok(is_empty)
}

/// How a release ends in which nobody takes part.
pub(super) const NO_PARTICIPANTS: ReleaseState =
    ReleaseState::Over { end: End::NoParticipants, unconfirmed: 0 };

/// What is to become of a submission, and who wants it.
pub(super) struct How {
    pub dry_run: bool,
    pub deferred: bool,
    pub by: By,
    pub scope: Scope,
}

#[derive(Clone)]
pub struct Prepared {
    pub submission: lifecycle::Submission,
    pub archive: Archive,
    pub warnings: Vec<Diagnostic>,
    pub places: TextPlaces,
    /// Whether it reaches beyond this manager.
    goes_up: bool,
}

/// Checks the strategy, packs its functions, and digests both: all that a release must pass, whether it is planned or
/// submitted.
pub fn prepare(upload: &Upload, ctx: &Context, scope: &Scope) -> Result<Prepared, Problem> {
    if upload.strategy.contains(&0) {
        return Err(Problem::bad_request(
            "the strategy has the character NUL in it, which no store can keep",
        ));
    }
    let settings = &ctx.settings;
    let mut checked = language::check_submission_at(&upload.strategy, &settings.site);
    checked.compare_start(ctx.engine.clock().now().wall_ms);
    let Some(strategy) = checked.strategy else {
        return Err(Problem::invalid_strategy(&checked.diagnostics));
    };
    let strategy = scope.bind(strategy)?;
    let goes_up = ctx.forwarding.of(&strategy)?.is_some();
    let limits = &settings.archive_limits;
    let archive = match (&upload.functions, &upload.files) {
        (Some(zip), _) => functions::from_upload(zip, &strategy, limits),
        (None, Some(files)) => functions::from_files(files, &strategy, limits),
        (None, None) => {
            functions::from_folder(&scope.functions_root(&settings.functions_root), &strategy, limits)
        }
    };
    let archive = archive.map_err(|error| unpacked(error, upload, ctx, scope, &strategy, &checked.places))?;
    // It was checked as text, so this loses nothing.
    let given = || String::from_utf8_lossy(&upload.strategy).into();
    let text = checked.frozen.map_or_else(given, Into::into);
    let submission = lifecycle::Submission {
        id: strategy.id.clone(),
        digest: digest(&strategy, &archive)?,
        archive: archive.digest,
        parent: None,
        deferred: false,
        adopts: None,
        strategy: Arc::new(strategy.with_contents(&archive.contents)),
        text,
    };
    let Checked { diagnostics: mut warnings, places, .. } = checked;
    warnings.extend(functions::without_form_in_zip(&archive.bytes, &submission.strategy, &places));
    Ok(Prepared { submission, archive, warnings, places, goes_up })
}

/// Why there is no archive; where folders are missing, all of them are named.
fn unpacked(
    error: ArchiveError,
    upload: &Upload,
    ctx: &Context,
    scope: &Scope,
    strategy: &Strategy,
    places: &TextPlaces,
) -> Problem {
    if !matches!(error, ArchiveError::Missing { .. }) || upload.files.is_some() {
        return error.into();
    }
    let missing = if let Some(zip) = &upload.functions {
        functions::missing_in_zip(zip, "the zip of the functions", strategy, places)
    } else {
        let (root, called) =
            (scope.functions_root(&ctx.settings.functions_root), "the manager's folder of functions");
        functions::missing_in_folder(&root, called, Severity::Error, strategy, places)
    };
    Problem::from(error).with_diagnostics(missing.iter().map(problem::diagnostic).collect())
}

/// Over the parsed strategy, so that comments and spelling make no difference, and the functions.
fn digest(strategy: &Strategy, archive: &Archive) -> Result<[u8; 32], Problem> {
    let form = strategy.digest_form().map_err(|error| {
        tracing::error!(%error, "a strategy has no digest");
        Problem::from(EngineError::Failed)
    })?;
    Ok(Sha256::new().chain_update(form).chain_update(archive.digest).finalize().into())
}

fn answer(
    strategy: &Strategy,
    created: bool,
    dry_run: bool,
    outlook: &Outlook,
    warnings: &[Diagnostic],
) -> Submitted {
    Submitted {
        id: strategy.id.to_string(),
        created,
        dry_run,
        changed: None,
        forwarded_to: None,
        participants: outlook.participants,
        least_ms: strategy.least_duration().as_millis() as u64,
        excluded: outlook.excluded.iter().map(|(why, count)| (why.to_string(), *count)).collect(),
        waits_for: outlook.waits_for.iter().map(ToString::to_string).collect(),
        warnings: warnings.iter().map(problem::diagnostic).collect(),
    }
}
