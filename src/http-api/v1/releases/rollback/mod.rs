//! `POST /api/v1/releases/{id}/rollback`: makes and submits the release that puts back what ran before a release that is over.
//!
//! What the new release says is decided in [`language::Rollback`]; here is when there is one. It is a release as any other: planned, led,
//! watched, aborted, and rolled back in its turn. That it is a rollback stands in its annotations, for whoever reads them.
//!
//! Rules, each with what would happen without it:
//!
//! - **What ran before is what an abort would have gone back to**: the base versions and stable variations that the release names, with the
//!   folders of its own archive. A release begins with what serves, and who is known to serve something else is left out. So children that
//!   ran different versions before took part in different releases, and each of these has a rollback of its own.
//! - **Who takes part is planned anew**, by the same target. An agent that failed in the release serves another version than the rollback
//!   begins with, and is left out for that; of one that doesn't say what it serves the old version is what it ends with, too. A router
//!   whose calls go elsewhere refuses the whole rollback by its name: routers of one service move as one, and people decide whether
//!   it is left out.
//! - **"Nothing" is no version.** A function that came with the release goes back to its base version, as by an abort. A service that an abort
//!   would have let go (`at_rollback: retire`) stays led, with its stable variation, and the answer warns of that: whether anything led it
//!   before, only its agents knew, until the release ended.
//! - **What a later release left is not taken away.** The latest release of the same function or service that has rolled out anything must
//!   have left what this one left; else it is named. What counts is the content. Counter-example to a count of releases: after `1 → 2`, `2 → 3`
//!   and a rollback of the latter, `2` serves again, and `1 → 2` can be rolled back although two releases came later.
//! - **A rollback is rolled back by the same rules**: that releases the new version once more. Who rolls back twice is told of the first
//!   rollback: it is the latest release, and left something else.
//! - **Each rollback has an id of its own**: `ID-rollback`, or that with the first number that is free; while one is under way, that one is
//!   meant. Counter-example: always `ID-rollback`. After a rollback and a rollback of that, the next one would be found to be there already,
//!   and nothing would happen.
//! - **A release that is not over is aborted**: that is faster, and none of its stages is left.
//! - **A canary that was adopted has another way back.** What is registered says which version serves since, and would go on saying so. What
//!   came from the manager above is rolled back there: else the two would not agree on what runs.
//! - **No approval is waited for**, unless it goes through the stages of the release. Who may abort a release may put back what ran before it.

mod finished;
mod later;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use bytes::Bytes;
use serde::Deserialize;
use utoipa::IntoParams;

use self::finished::Finished;
use super::{
    act::check_note,
    canary,
    submit::{self, How, NO_PARTICIPANTS, Prepared, placed, submit_prepared},
    upload::Upload,
};
use crate::{
    Context,
    extract::{Acting, Path, Query},
    problem::Problem,
    scope::Scope,
};
use engine::{By, EngineError};
use language::{
    AtRollback, Rollback,
    functions::{self, ArchiveError, Limits, Unpacked},
};
use model::{MAX_RELEASE_ID_LEN, ReleaseId, TenantName, hex, tenant};
use protocol::api::{self, Diagnostic, Note, ReleaseRollback};

/// Ids that are tried for a rollback.
const MAX_IDS: u32 = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Says what would be put back, and where; changes nothing.
    dry_run: bool,
    /// Through the stages of the release that is rolled back, with its conditions, waves and approvals; else at once.
    like: bool,
    /// The id of the release that puts it back: `ID-rollback` if not given, or that with the first number that is free.
    new_id: Option<String>,
}

/// Submits the release that puts back what ran before a release that is over.
///
/// While one is under way, the same call is answered 200 and changes nothing.
#[utoipa::path(post, path = "/api/v1/releases/{id}/rollback", operation_id = "roll_back_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the release that is rolled back."), Parameters),
    request_body(content = Option<Note>),
    responses(
        (status = 201, body = ReleaseRollback, description = "Created.", headers(("Location" = String))),
        (status = 200, body = ReleaseRollback, description = "It was under way already; or it was a dry run."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "There is nothing to put back, or not by a release: the detail says what to do instead. Or a later release changed \
                the same function or service (`changed-since`), or what ran before is not kept any more (`not-kept`)."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "Whoever acts on it has to say why; or the new release can't be taken."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Scope,
    Path(id): Path<String>,
    Query(Parameters { dry_run, like, new_id }): Query<Parameters>,
    Acting(by): Acting,
) -> Result<Response, Problem> {
    let of = Finished::find(&ctx, &id).await?;
    of.check()?;
    if !dry_run {
        check_note(&ctx, &id, &by).await?;
    }
    let winners = of.winners(like)?;
    let puts_back = of.puts_back(&winners);
    let scope = caller.clone().acting_for(&ctx.view().tenants, of.tenant())?;
    let under_way = later::rollback_under_way(&ctx, &of, &caller).await?;
    let new_id = id_of(&ctx, &scope, &of, new_id, under_way).await?;
    let rollback = Rollback { id: new_id, of: of.said().to_owned(), winners, is_staged: like };
    let prepared = prepare(&ctx, &scope, &of, rollback).await?;
    let how = How { dry_run, deferred: false, by: noted(by, of.said()), scope };
    let submitted = submit_prepared(&ctx, prepared, how, &caller).await;
    let (status, mut submitted) = submitted.map_err(|problem| of_routers(problem, &id))?;
    canary::about_manifest(&mut submitted.warnings);
    submitted.warnings.extend(stay_led(&of));
    let place = (!dry_run).then(|| submitted.id.clone());
    let body = ReleaseRollback { submitted, rollback_of: id, puts_back, staged: like };
    Ok(placed(place.as_deref(), (status, Json(body))))
}

/// As whoever submits calls it. `under_way`: the rollback that is not over.
async fn id_of(
    ctx: &Context,
    scope: &Scope,
    of: &Finished,
    wanted: Option<String>,
    under_way: Option<String>,
) -> Result<String, Problem> {
    if let Some(id) = &wanted
        && let Err(error) = ReleaseId::parse(id)
    {
        return Err(Problem::bad_request(format!("`new_id`: {error}")));
    }
    match (wanted, under_way) {
        (Some(wanted), Some(known)) if scope.release(&wanted) != known => {
            let detail = format!(
                "release {known} puts that back already: choirmaster release watch {known} shows how it goes"
            );
            Err(Problem::new(StatusCode::CONFLICT, "conflict", detail))
        }
        (Some(wanted), Some(_)) => Ok(wanted),
        (Some(wanted), None) => {
            check_id(ctx, &scope.release(&wanted)).await?;
            Ok(wanted)
        }
        (None, Some(known)) => Ok(tenant::split(&known).map_or(&*known, |(_, said)| said).to_owned()),
        (None, None) => free_id(ctx, scope, of.said()).await,
    }
}

/// Refuses the id, in the manager, of a release that is over: submitted once more it would be found to be there, and nothing would happen.
/// One in which nobody took part is planned once more.
async fn check_id(ctx: &Context, id: &str) -> Result<(), Problem> {
    let Some(row) = ctx.engine.reader().release(id).await? else { return Ok(()) };
    let state = Finished::read(ctx, row)?.detail.state;
    if !state.is_over() || state == NO_PARTICIPANTS {
        return Ok(());
    }
    let detail = format!("release {id} is over: name another id for this rollback (new_id, --id)");
    Err(Problem::new(StatusCode::CONFLICT, "id-taken", detail))
}

async fn free_id(ctx: &Context, scope: &Scope, of: &str) -> Result<String, Problem> {
    let longest = scope.tenant().map_or(MAX_RELEASE_ID_LEN, TenantName::max_release_id_len);
    for number in 1..=MAX_IDS {
        let id = if number == 1 { format!("{of}-rollback") } else { format!("{of}-rollback-{number}") };
        if id.len() > longest {
            let detail =
                format!("the id {id} would have more than {longest} bytes: name another one (new_id, --id)");
            return Err(Problem::bad_request(detail));
        }
        if ctx.engine.reader().release(&scope.release(&id)).await?.is_none() {
            return Ok(id);
        }
    }
    let detail = format!("{of} has {MAX_IDS} rollbacks already: name another id for this one (new_id, --id)");
    Err(Problem::new(StatusCode::CONFLICT, "id-taken", detail))
}

/// Its strategy, with the folders of the release that is rolled back.
async fn prepare(
    ctx: &Context,
    scope: &Scope,
    of: &Finished,
    rollback: Rollback,
) -> Result<Prepared, Problem> {
    let archive = archive(ctx, of).await?;
    let (working, whose, before) = (ctx.clone(), scope.clone(), of.row.strategy.clone());
    let prepare = move || -> Result<Prepared, Problem> {
        let Some(text) = rollback.strategy(&before) else {
            tracing::error!(of = rollback.of, "no rollback could be written of the strategy of a release");
            return Err(EngineError::Failed.into());
        };
        let files = folders(&text, archive.as_ref(), &working.settings.archive_limits)?;
        submit::prepare(&Upload::made(text, Some(files)), &working, &whose)
    };
    let mut prepared = ctx.in_turn(prepare).await??;
    // Of a text that nobody wrote.
    prepared.warnings.clear();
    Ok(prepared)
}

/// The archive that came with a release; `None`: it needs none.
async fn archive(ctx: &Context, of: &Finished) -> Result<Option<Bytes>, Problem> {
    if functions::paths(&of.strategy).next().is_none() {
        return Ok(None);
    }
    let found = ctx.engine.reader().archive(&of.row.archive).await?;
    let gone = || {
        let functions = of.strategy.functions.iter().map(|function| function.base.path.as_str());
        let runs = of.strategy.services.iter().flat_map(|service| service.runs.values());
        let folders: Vec<&str> = functions.chain(runs.map(|run| run.path.as_str())).collect();
        let detail = format!(
            "what ran before release {} is not kept any more: the archive {} with {} is gone; submit a release that brings it along",
            of.row.id,
            hex::encode(&of.row.archive),
            folders.join(", ")
        );
        Problem::new(StatusCode::CONFLICT, "not-kept", detail)
    };
    found.ok_or_else(gone).map(Some)
}

/// The folders that a strategy names, out of an archive.
fn folders(text: &str, archive: Option<&Bytes>, limits: &Limits) -> Result<Unpacked, ArchiveError> {
    let Some((archive, strategy)) = archive.zip(language::check_stored(text).strategy) else {
        return Ok(Unpacked::default());
    };
    let is_below =
        |path: &str, folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    functions::unpack(
        archive,
        |path| functions::paths(&strategy).any(|folder| is_below(path, folder)),
        limits,
    )
}

/// What the audit trail is told.
fn noted(by: By, of: &str) -> By {
    let note = match &by.note {
        Some(note) => format!("rollback of {of}: {note}"),
        None => format!("rollback of {of}"),
    };
    By { note: Some(note), ..by }
}

/// What to do where a router serves something else than what is rolled back.
fn of_routers(problem: Problem, id: &str) -> Problem {
    if problem.kind() != Some("other-base") {
        return problem;
    }
    let detail = format!(
        "release {id} serves not everywhere any more: {}. Whichever router is to stay as it is takes no part once it is cordoned: choirmaster \
         children cordon",
        problem.into_detail()
    );
    Problem::new(StatusCode::CONFLICT, "other-base", detail)
}

/// Services that an abort would have let go.
fn stay_led(of: &Finished) -> impl Iterator<Item = Diagnostic> {
    let retired = of.strategy.services.iter().filter(|service| service.at_rollback == AtRollback::Retire);
    retired.map(|service| {
        let name = service.name();
        let message = format!(
            "service {name} stays led, with what it had before: choirmaster service retire {name} takes it out where nothing led it before"
        );
        canary::warning("stays-led", message)
    })
}
