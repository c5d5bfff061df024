//! `POST /api/v1/plan`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::{self, Asked, Children};
use crate::{
    engine::EngineError,
    http::{
        Context,
        context::PATIENCE,
        extract::{Body, Query},
        problem::{self, Problem},
        v1::page,
    },
    model::ChildKey,
    plan::Needs,
    questions::{self, eligible::Wanted},
    release::{state, turnout::Turnouts},
    strategy::{self, Strategy},
    wire::api::{self, Plan},
};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Which children are listed one by one: `none` (if not given), `participants`, `all`.
    children: Option<String>,
    /// Whether the children's areas are with them.
    areas: bool,
    /// `next` of the page before.
    after: Option<String>,
    /// Children of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Plans a release: who would take part, in which wave, and why the others would not. Changes nothing.
///
/// Each page is planned anew, on the children as they are then.
#[utoipa::path(post, path = "/api/v1/plan", operation_id = "plan_release", tag = "releases",
    params(Parameters),
    request_body(content = String, content_type = "application/yaml", description = "The strategy."),
    responses(
        (status = 200, body = Plan),
        (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too large."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "The strategy has faults; all are listed."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Query(parameters): Query<Parameters>,
    Body(body): Body,
) -> Result<Json<Plan>, Problem> {
    let asked = Asked {
        children: match parameters.children.as_deref() {
            None | Some("none") => Children::None,
            Some("participants") => Children::Participants,
            Some("all") => Children::All,
            Some(_) => return Err(Problem::bad_request("`children` is one of none, participants, all")),
        },
        areas: parameters.areas,
        after: page::after(parameters.after.as_deref())?.map(ChildKey),
        limit: page::limit(parameters.limit)? as usize,
    };
    let settings = Arc::clone(&ctx.settings);
    let checked = blocking(move || strategy::check_at(&body, &settings.site)).await?;
    let Some(strategy) = checked.strategy else {
        return Err(Problem::invalid_strategy(&checked.diagnostics));
    };
    let strategy = Arc::new(strategy);
    let told = turnouts(&ctx, &strategy).await?;
    let planned = {
        let (strategy, view) = (Arc::clone(&strategy), Arc::clone(ctx.engine.view()));
        let now = ctx.engine.clock().now();
        let plan =
            move |state: &state::State| form::plan(state, view.as_ref(), &strategy, &asked, &told, now);
        ctx.engine.query(PATIENCE, plan).await?
    };
    // Clipping polygons is slow, and needs nothing of the state any more.
    let above = ctx.clone();
    let mut plan = blocking(move || {
        let mut plan = planned.measured(&strategy);
        let up = above.above.of(&strategy)?;
        plan.forwards_to = up.map(|(forward, _)| forward.url().to_owned());
        plan.beyond_km2 = up.map(|(_, km2)| km2);
        Ok::<_, Problem>(plan)
    })
    .await??;
    plan.warnings = checked.diagnostics.iter().map(problem::diagnostic).collect();
    Ok(Json(plan))
}

/// What managers below say of who can take part, and those of them that say nothing.
async fn turnouts(ctx: &Context, strategy: &Arc<Strategy>) -> Result<(Turnouts, Vec<ChildKey>), EngineError> {
    let planned = Arc::clone(strategy);
    let (able, unable) = ctx.engine.query(PATIENCE, move |state| form::managers(state, &planned)).await?;
    let wanted = Wanted { needs: Needs::of(strategy), silent_after_ms: form::silent_after_ms(strategy) };
    let (told, mut unheard) = questions::turnout::of_managers(&ctx.engine, &wanted, able).await?;
    unheard.extend(unable);
    Ok((told, unheard))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a plan could not be made");
        EngineError::Failed.into()
    })
}
