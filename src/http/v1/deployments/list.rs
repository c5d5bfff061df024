//! `GET /api/v1/deployments`.

use std::collections::HashMap;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    engine::EngineError,
    http::{
        Context,
        context::PATIENCE,
        extract::Query,
        problem::Problem,
        v1::{page, time::rfc3339},
    },
    model::{ChildKey, ReleaseKey},
    store::{DeploymentFilter, rows::DeploymentRow},
    wire::api::{Deployment, Page},
};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only this function.
    function: Option<String>,
    /// Only this child.
    child: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists what runs where, by function and child, as far as releases have changed it.
#[utoipa::path(get, path = "/api/v1/deployments", operation_id = "list_deployments", tag = "releases",
    params(Parameters), responses((status = 200, body = Page<Deployment>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Deployment>>, Problem> {
    let limit = page::limit(parameters.limit)?;
    let child_key = match parameters.child {
        None => None,
        Some(id) => {
            let known = ctx.view().child(&id).map(|child| child.key.0);
            Some(known.ok_or_else(|| Problem::unknown_child(&id))?)
        }
    };
    let filter = DeploymentFilter {
        function: parameters.function,
        child_key,
        after: parameters.after.as_deref().map(read_after).transpose()?,
        limit,
    };
    let rows = ctx.engine.reader().deployments(&filter).await?;
    let next = rows
        .last()
        .filter(|_| rows.len() == limit as usize)
        .map(|row| format!("{}:{}", row.child_key, row.function));
    Ok(Json(Page { items: name(&ctx, rows).await?, next }))
}

fn read_after(text: &str) -> Result<(String, u32), Problem> {
    let (child, function) = text.split_once(':').ok_or_else(page::bad_after)?;
    Ok((function.to_owned(), child.parse().map_err(|_| page::bad_after())?))
}

/// Puts ids in place of numbers.
async fn name(ctx: &Context, rows: Vec<DeploymentRow>) -> Result<Vec<Deployment>, EngineError> {
    ctx.engine
        .query(PATIENCE, move |state| {
            // Few releases stand behind many rows.
            let wanted: HashMap<ReleaseKey, String> = {
                let keys: std::collections::HashSet<u32> = rows.iter().map(|row| row.release_key).collect();
                let known = state.known.iter().filter(|(_, known)| keys.contains(&known.key.0));
                known.map(|(id, known)| (known.key, id.to_string())).collect()
            };
            rows.into_iter()
                .map(|row| {
                    let child = state.children.get(ChildKey(row.child_key));
                    Deployment {
                        child: child.map_or_else(
                            || format!("forgotten child {}", row.child_key),
                            |child| child.id.to_string(),
                        ),
                        function: row.function,
                        release: wanted.get(&ReleaseKey(row.release_key)).cloned().unwrap_or_default(),
                        variant: row.variant,
                        path: row.path,
                        since: rfc3339(row.at_ms),
                    }
                })
                .collect()
        })
        .await
}
