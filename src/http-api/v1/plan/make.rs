//! `POST /api/v1/plan`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    bases,
    form::{self, AskedListing, ShownChildren},
    history::{self, PlanHistory},
};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{Query, acting},
    problem::{self, Problem},
    scope::Scope,
    v1::{
        page,
        releases::{
            advice,
            canary::{self, Asked, Next, Onward, may_approve},
            submit::{self, Prepared, SubmissionParts},
            upload::{self, Upload},
        },
    },
};
use domain::release::{liveness_check::ReportedLiveness, state};
use engine::{EngineError, questions};
use language::Strategy;
use model::ChildKey;
use protocol::api::{self, Note, Plan};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Which children are listed one by one: `none` (if not given), `participants`, `all`.
    children: Option<String>,
    /// Whether the children's areas are with them.
    areas: bool,
    /// With the numbers of children by cell of a map, around those who would take part.
    map: bool,
    /// `next` of the page before.
    after: Option<String>,
    /// Children of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
    /// The tenant whose release it would be, if it is asked with a token that is bound to none.
    tenant: Option<String>,
}

/// Plans a release: who would take part, in which wave, and why the others would not. Changes nothing.
///
/// Each page is planned anew, on the children as they are then.
///
/// Of a `CanaryRelease` that is there already it says who has a part in it, and what its submission would do: `canary`. What that would be
/// refused for, this is refused for.
#[utoipa::path(post, path = "/api/v1/plan", operation_id = "plan_release", tag = "releases",
    params(Parameters),
    request_body(content((String = "application/yaml"), (SubmissionParts = "multipart/form-data")),
        description = "The strategy, alone or with a zip of its functions, as it would be submitted; or a manifest of `kind: CanaryRelease` \
            alone, for the strategy that it becomes, or for what its submission would do."),
    responses(
        (status = 200, body = Plan),
        (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too large."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "The strategy has faults; all are listed. Or a field of a CanaryRelease can't be taken; it is named."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "A CanaryRelease is there with other content, or is not in a state for its transition or for another weight."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    operator: Option<Extension<CallingOperator>>,
    caller: Scope,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<Json<Plan>, Problem> {
    let scope = caller.clone().acting_for(&ctx.view().tenants, parameters.tenant.as_deref())?;
    let asked = AskedListing {
        children: match parameters.children.as_deref() {
            None | Some("none") => ShownChildren::None,
            Some("participants") => ShownChildren::Participants,
            Some("all") => ShownChildren::All,
            Some(_) => return Err(Problem::bad_request("`children` is one of none, participants, all")),
        },
        areas: parameters.areas,
        map: parameters.map.then(|| scope.clone()),
        after: page::after(parameters.after.as_deref())?.map(ChildKey),
        limit: page::limit(parameters.limit)? as usize,
    };
    let (upload, operator) = (upload::read(&ctx, request).await?, operator.as_deref());
    let (by, may_approve) = (acting(operator, Note::default())?, may_approve(operator));
    let submission = Asked { dry_run: true, by, scope: scope.clone(), caller, may_approve };
    let (upload, of_manifest) = match canary::planned(&ctx, &upload, &submission).await? {
        None => (upload, None),
        Some(Next::Begins(beginning)) => {
            let (made, warnings) = beginning.strategy(&ctx, &scope).await?;
            (made, Some(warnings))
        }
        Some(Next::Goes(onward)) => return under_way(&ctx, &onward, asked).await.map(Json),
    };
    let (strategy, warnings) = match &asked.after {
        // What was found of it was said with the first page.
        Some(_) => (look(&ctx, &scope, upload).await?, Vec::new()),
        None => check(&ctx, &scope, upload, of_manifest).await?,
    };
    let told = liveness_checks(&ctx, &strategy).await?;
    let is_first = asked.after.is_none();
    let planned = {
        let (strategy, seen) = (Arc::clone(&strategy), Arc::clone(&ctx.view().children));
        let now = ctx.engine.clock().now();
        let plan =
            move |state: &state::Snapshot| form::plan(state, seen.as_ref(), &strategy, &asked, &told, now);
        ctx.engine.read_apart(PATIENCE, plan).await?
    };
    // With the first page; those that follow only list children.
    let history = if is_first { Some(PlanHistory::read(&ctx.engine, &strategy).await?) } else { None };
    // Clipping polygons is slow, and needs nothing of the state any more; nor does what it takes to judge.
    let asking = ctx.clone();
    let measure = move || {
        let reporting = planned.reporting;
        let mut plan = planned.measured(&strategy);
        if let Some(history) = history {
            let agents = |plan: &Plan| match &*plan.waves {
                [] => vec![plan.participants.agents],
                waves => waves.iter().map(|wave| u64::from(wave.agents)).collect(),
            };
            (plan.takes, plan.conditions) = history::takes(&strategy, &history, &agents(&plan), reporting);
        }
        let up = asking.forwarding.of(&strategy)?;
        plan.forwards_to = up.map(|(forward, _)| forward.url().to_owned());
        plan.beyond_km2 = up.map(|(_, km2)| km2);
        Ok::<_, Problem>(plan)
    };
    let mut plan = ctx.in_turn(measure).await??;
    plan.warnings = warnings;
    Ok(Json(plan))
}

/// What managers below say of who can take part, and the managers that say nothing.
async fn liveness_checks(
    ctx: &Context,
    strategy: &Arc<Strategy>,
) -> Result<(ReportedLiveness, Vec<ChildKey>), EngineError> {
    let planned = Arc::clone(strategy);
    let (able, unable) =
        ctx.engine.read_apart(PATIENCE, move |state| form::managers(state, &planned)).await?;
    let (told, mut unheard) =
        questions::liveness::of_managers(&ctx.engine, Arc::clone(strategy), able).await?;
    unheard.extend(unable);
    Ok((told, unheard))
}

/// Of a canary that is there: who has a part in it, and what its submission would do.
async fn under_way(ctx: &Context, onward: &Onward, asked: AskedListing) -> Result<Plan, Problem> {
    let canary = onward.outlook(ctx).await?;
    let (id, strategy) = (onward.id().to_owned(), onward.strategy());
    let look = move |state: &state::Snapshot| form::under_way(state, &id, &strategy, asked);
    let plan = ctx.engine.read_apart(PATIENCE, look).await?;
    Ok(Plan { canary: Some(canary), ..plan })
}

/// All that a submission would have to pass, and what is odd about it. `of_manifest`: what is odd about the manifest that became the
/// strategy.
async fn check(
    ctx: &Context,
    scope: &Scope,
    upload: Upload,
    of_manifest: Option<Vec<api::Diagnostic>>,
) -> Result<(Arc<Strategy>, Vec<api::Diagnostic>), Problem> {
    let (preparing, whose) = (ctx.clone(), scope.clone());
    let prepared = ctx.in_turn(move || submit::prepare(&upload, &preparing, &whose)).await??;
    let Prepared { submission, mut warnings, places, .. } = prepared;
    warnings.extend(advice::ask(ctx, &submission.strategy, &places).await?);
    warnings.extend(bases::ask(ctx, &submission.strategy, &places).await?);
    let mut warnings: Vec<api::Diagnostic> = warnings.iter().map(problem::diagnostic).collect();
    if let Some(own) = of_manifest {
        canary::about_manifest(&mut warnings);
        warnings.extend(own);
    }
    Ok((submission.strategy, warnings))
}

/// The strategy alone.
async fn look(ctx: &Context, scope: &Scope, upload: Upload) -> Result<Arc<Strategy>, Problem> {
    let settings = Arc::clone(&ctx.settings);
    let checked =
        ctx.in_turn(move || language::check_submission_at(&upload.strategy, &settings.site)).await?;
    let strategy = checked.strategy.ok_or_else(|| Problem::invalid_strategy(&checked.diagnostics))?;
    scope.bind(strategy).map(Arc::new)
}
