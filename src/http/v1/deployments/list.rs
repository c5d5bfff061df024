//! `GET /api/v1/deployments`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    v1::page::{self, path_below, unheard},
};
use engine::questions::deployments::{self, DeploymentsWanted, PageError};
use store::DeploymentFilter;
use wire::api::{Deployment, Page};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only this function.
    function: Option<String>,
    /// Only this child of this manager.
    child: Option<String>,
    /// What runs below a manager below: the ids that lead to it, with a `/` between. It is asked now, and nothing of it is kept.
    below: Option<String>,
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
    let after = parameters.after.as_deref().map(read_after).transpose()?;
    let path = path_below(&ctx, parameters.below.as_deref())?;
    if !path.is_empty() {
        if parameters.child.is_some() {
            return Err(Problem::bad_request("`child` is one of this manager; with `below` it names nobody"));
        }
        let after = after.map(|(function, child)| (child, function));
        let wanted = DeploymentsWanted { path, function: parameters.function, after, limit };
        let page = deployments::ask_below(&ctx.engine, wanted).await;
        return page.map(Json).map_err(|why| unheard(&why));
    }
    let child_key = match parameters.child {
        None => None,
        Some(id) => {
            let known = ctx.view().children.get(&id).map(|child| child.key.0);
            Some(known.ok_or_else(|| Problem::unknown_child(&id))?)
        }
    };
    let filter = DeploymentFilter { function: parameters.function, child_key, after, limit };
    deployments::page(&ctx.engine, &filter).await.map(Json).map_err(|error| match error {
        PageError::Store(error) => error.into(),
        PageError::Engine(error) => error.into(),
    })
}

fn read_after(text: &str) -> Result<(String, u32), Problem> {
    let (child, function) = text.split_once(':').ok_or_else(page::bad_after)?;
    Ok((function.to_owned(), child.parse().map_err(|_| page::bad_after())?))
}
