//! `GET /api/v1/canary-releases/folder`, and what the manifests of that folder ask for.
//!
//! A manifest of the folder goes the way of one that is sent to `POST /release`, as if an operator with all rights had sent it who is called
//! `folder` and is no tenant's. So all that is refused there is refused here. What differs, differs as nobody looks at the answer:
//!
//! - a canary in which nobody could take part isn't created before somebody can;
//! - a manifest that is older than this process doesn't reverse what others have done since: it resumes no canary that is paused, and
//!   registers nothing over what somebody else, or the adoption of a canary, has registered.
//!
//! A release that came from the folder says from which file ([`canary_releases::marks::FILE`]). Such releases alone end with their file.
//!
//! Not here: when a file is read, and what is wished by what has changed in it ([`canary_releases::folder`]).

use std::sync::{Arc, PoisonError};

use axum::{Json, extract::State};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    page,
    registry::{self, Spec as _},
    releases::{
        canary::{self, Asked, Next},
        roll_back,
    },
};
use crate::{Context, context::PATIENCE, extract::Query, problem::Problem, scope::Scope};
use ab_releases::{DEFAULT_TENANT, tenant_of};
use canary_releases::{Canary, Document, Transition, marks};
use domain::release::state::{Release, ReleaseState, Snapshot};
use engine::{By, EngineError, audit::Actor};
use protocol::canary_releases::{CanaryFolder, RegisteredRelease, ReleaseSpec};

/// Who acts, in the audit trail.
const OPERATOR: &str = "folder";

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(handle))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only files behind this one: `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Shows the folder of manifests that the manager watches, and what has become of each.
#[utoipa::path(get, path = "/api/v1/canary-releases/folder", operation_id = "show_canary_folder", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = CanaryFolder)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<CanaryFolder>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let after = parameters.after.unwrap_or_default();
    let all = Arc::clone(&ctx.canary_folder.lock().unwrap_or_else(PoisonError::into_inner));
    let first = all.files.partition_point(|one| one.file <= after);
    let mut files: Vec<_> = all.files.iter().skip(first).take(limit + 1).cloned().collect();
    let has_more = files.len() > limit;
    files.truncate(limit);
    let next = files.last().filter(|_| has_more).map(|last| last.file.clone());
    let CanaryFolder { folder, fault, files_read, .. } = &*all;
    let (folder, fault) = (folder.clone(), fault.clone());
    Ok(Json(CanaryFolder { folder, fault, files_read: *files_read, files, next }))
}

/// What has become of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it says.
    Applied,
    /// It isn't yet, and this is why. Later it may be.
    Waiting(String),
    /// It isn't, and this is why. That stays so unless it changes.
    Refused(String),
}

/// Does what manifests of a folder ask for.
#[derive(Debug, Clone)]
pub struct Manifests(Context);

impl Manifests {
    pub fn new(ctx: Context) -> Self {
        Self(ctx)
    }

    /// Shows the folder otherwise from now on. Whoever reads it meanwhile has it as it was.
    pub fn show(&self, change: impl FnOnce(&mut CanaryFolder)) {
        let mut folder = self.0.canary_folder.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut folder));
    }

    /// Canaries that came from a file and are under way, each with that.
    ///
    /// # Errors
    ///
    /// Why that can't be told at the moment.
    pub fn under_way(&self) -> BoxFuture<'static, Result<Vec<(String, String)>, String>> {
        let ctx = self.0.clone();
        let look = |state: &Snapshot| {
            let own = state.releases.values().filter(|release| goes_on(&release.state));
            own.filter_map(|release| Some((release.id.to_string(), file_of(release)?))).collect::<Vec<_>>()
        };
        Box::pin(async move { ctx.engine.read(PATIENCE, look).await.map_err(|error| error.to_string()) })
    }

    /// Submits a manifest. `is_news`: it was written just now, and isn't older than this process.
    pub fn submit(
        &self,
        file: String,
        document: Arc<Document>,
        is_news: bool,
    ) -> BoxFuture<'static, Outcome> {
        let ctx = self.0.clone();
        Box::pin(async move {
            match &*document {
                Document::Release(spec) => register(&ctx, &file, spec, is_news)
                    .await
                    .unwrap_or_else(|problem| Outcome::Waiting(problem.into_detail())),
                Document::Canary(canary) => match submit(&ctx, file, canary, is_news).await {
                    Ok(outcome) => outcome,
                    Err(problem) => refused(&ctx, &canary.name, problem).await,
                },
            }
        })
    }

    /// Deprecates a canary whose file is gone, if it is under way and came from a file.
    pub fn deprecate(&self, canary: String, file: String) -> BoxFuture<'static, Outcome> {
        let ctx = self.0.clone();
        Box::pin(async move {
            let done = deprecate(&ctx, canary, &file).await;
            done.map_or_else(|error| Outcome::Waiting(error.to_string()), |()| Outcome::Applied)
        })
    }
}

/// What becomes of a manifest of this file, and who wants it.
fn asked(note: String, dry_run: bool) -> Asked {
    let by = By { actor: Actor::Operator(OPERATOR.to_owned()), note: Some(note) };
    Asked { dry_run, by, scope: Scope::Everything, caller: Scope::Everything, may_approve: true }
}

fn note(file: &str) -> String {
    format!("so says the file {file}")
}

async fn register(ctx: &Context, file: &str, spec: &ReleaseSpec, is_news: bool) -> Result<Outcome, Problem> {
    let there = match registry::show::<ReleaseSpec>(ctx, DEFAULT_TENANT, &spec.name).await {
        Ok(there) => Some(there),
        Err(problem) if problem.kind() == Some(ReleaseSpec::UNKNOWN) => None,
        Err(problem) => return Err(problem),
    };
    let is_anothers = |there: &RegisteredRelease| there.created_by.as_deref() != Some(OPERATOR);
    if !is_news && there.is_some_and(|there| there.spec != *spec && is_anothers(&there)) {
        let why = format!(
            "release {} was registered by somebody else since, or a canary of it was adopted: write into the file what it is now, or submit \
             the file by hand",
            spec.name
        );
        return Ok(Outcome::Refused(why));
    }
    canary::register(ctx, spec.clone(), asked(note(file), false)).await?;
    Ok(Outcome::Applied)
}

async fn submit(ctx: &Context, file: String, canary: &Canary, is_news: bool) -> Result<Outcome, Problem> {
    let asked = asked(note(&file), false);
    let canary = Canary { file: Some(file), ..canary.clone() };
    match Next::of(ctx, &canary, &asked).await? {
        Next::Begins(beginning) => {
            let ready = beginning.prepare(ctx, &asked).await?;
            let could_begin =
                ready.submit(ctx, &Asked { dry_run: true, ..asked.clone() }).await?.1.participants > 0;
            if could_begin && ready.submit(ctx, &asked).await?.1.participants > 0 {
                return Ok(Outcome::Applied);
            }
            let why = format!(
                "nobody could take part in {}: it begins once a router fits the labels of its release",
                canary.name
            );
            Ok(Outcome::Waiting(why))
        }
        Next::Goes(onward) if onward.is_done() => Ok(Outcome::Applied),
        Next::Goes(onward) => {
            if onward.is_paused() && !is_news && canary.transition != Transition::Deprecated {
                let why = format!(
                    "canary release {} is paused: that stays so until somebody resumes it, or the file changes",
                    canary.name
                );
                return Ok(Outcome::Waiting(why));
            }
            onward.carry_out(ctx, &asked.by).await.map(|()| Outcome::Applied)
        }
    }
}

/// A canary is refused for good if its name is taken, or if it is over or on its way back.
async fn refused(ctx: &Context, name: &str, problem: Problem) -> Outcome {
    let is_final = match problem.kind() {
        Some("id-taken") => true,
        Some("wrong-state") => {
            let state = canary::state(ctx, name).await.ok().flatten();
            state.is_some_and(|state| !goes_on(&state))
        }
        _ => false,
    };
    let why = problem.into_detail();
    if is_final { Outcome::Refused(why) } else { Outcome::Waiting(why) }
}

async fn deprecate(ctx: &Context, canary: String, file: &str) -> Result<(), EngineError> {
    let wanted = canary.clone();
    let look = move |state: &Snapshot| {
        let release = state.release_by_id(&wanted).filter(|release| goes_on(&release.state))?;
        Some(file_of(release).is_some())
    };
    match ctx.engine.read(PATIENCE, look).await? {
        Some(true) => {
            let Asked { by, .. } = asked(format!("its file {file} is gone"), false);
            ctx.engine.call(roll_back(canary, &by), by, PATIENCE).await?;
        }
        Some(false) => {
            tracing::info!(
                release = canary,
                file,
                "it stays, though its file is gone: it didn't come from that"
            );
        }
        None => {}
    }
    Ok(())
}

/// Whether it isn't over, and isn't rolled back.
const fn goes_on(state: &ReleaseState) -> bool {
    !state.is_over() && !matches!(state, ReleaseState::RollingBack { .. })
}

/// The file from which a release came; `None`: it came from none.
fn file_of(release: &Release) -> Option<String> {
    // Anybody may write annotations: what is a canary adopts something.
    let is_own = tenant_of(release.id.as_str()) == DEFAULT_TENANT && release.adopts.is_some();
    marks::file_of(&release.strategy).filter(|_| is_own).map(str::to_owned)
}
