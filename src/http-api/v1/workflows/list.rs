//! `GET /api/v1/workflows`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::Shown;
use crate::{Context, extract::Query, problem::Problem, scope::Scope, v1::page};
use protocol::api::{Page, Workflow};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists the workflows that are to run or that are stopping, in the order of their names.
#[utoipa::path(get, path = "/api/v1/workflows", operation_id = "list_workflows", tag = "workflows",
    params(Parameters),
    responses((status = 200, body = Page<Workflow>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(Parameters { after, limit }): Query<Parameters>,
) -> Result<Json<Page<Workflow>>, Problem> {
    let limit = page::limit(limit)? as usize;
    let after = after.filter(|after| !after.is_empty());
    let read = move |shown: &Shown<'_>| {
        let after = after.map(|after| shown.scope.release(&after));
        let all = shown.state.workflows.iter().filter(|workflow| shown.sees(workflow));
        let all = all.filter(|workflow| after.as_ref().is_none_or(|after| workflow.id > *after));
        let mut items: Vec<Workflow> = all.take(limit + 1).map(|workflow| shown.workflow(workflow)).collect();
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| is_more).map(|last| last.name.clone());
        Page { items, next }
    };
    Ok(Json(Shown::read(&ctx, scope, read).await?))
}
