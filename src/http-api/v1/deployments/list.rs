//! `GET /api/v1/deployments`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    context::PATIENCE,
    extract::Query,
    guard::see_child,
    problem::Problem,
    scope::Scope,
    v1::page::{self, path_below, unheard},
};
use domain::release::state::Snapshot;
use engine::questions::deployments::{self, DeploymentsWanted, PageError};
use protocol::api::{Deployment, Page};
use store::DeploymentFilter;

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
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Deployment>>, Problem> {
    let limit = page::limit(parameters.limit)?;
    let after = parameters.after.as_deref().map(read_after).transpose()?;
    let path = path_below(&ctx, &scope, parameters.below.as_deref()).await?;
    if !path.is_empty() {
        if parameters.child.is_some() {
            return Err(Problem::bad_request("`child` is one of this manager; with `below` it names nobody"));
        }
        let after = after.map(|(function, child)| (child, function));
        let wanted = DeploymentsWanted { path, function: parameters.function, after, limit };
        let page = deployments::ask_below(&ctx.engine, wanted).await;
        let mut page = page.map_err(|why| unheard(&why))?;
        // A manager below serves others too. What a tenant's own releases have changed is the tenant's.
        page.items.retain(|found| scope.sees_release(&found.release));
        return Ok(Json(page));
    }
    let child_key = match parameters.child {
        None => None,
        Some(id) => {
            see_child(&ctx, &scope, &id).await?;
            let known = ctx.view().children.get(&id).map(|child| child.key.0);
            Some(known.ok_or_else(|| Problem::unknown_child(&id))?)
        }
    };
    let filter = DeploymentFilter { function: parameters.function, child_key, after, limit };
    page_of(&ctx, &scope, filter).await.map(Json)
}

/// Pages that are looked at for one of a tenant's: what runs at others' children may lie in between.
const MAX_LOOKED_PAGES: u32 = 10;

/// A page of what the caller sees. That of a tenant may be short, or empty, and go on all the same.
async fn page_of(
    ctx: &Context,
    scope: &Scope,
    mut filter: DeploymentFilter,
) -> Result<Page<Deployment>, Problem> {
    let failed = |error| match error {
        PageError::Store(error) => Problem::from(error),
        PageError::Engine(error) => error.into(),
    };
    let mut found = deployments::page(&ctx.engine, &filter).await.map_err(failed)?;
    if scope.tenant().is_none() {
        return Ok(found);
    }
    let limit = filter.limit as usize;
    let mut items = Vec::new();
    for _ in 1..=MAX_LOOKED_PAGES {
        let next = found.next.clone();
        items.extend(seen(ctx, scope, found.items).await?);
        let Some(after) = next.as_deref().filter(|_| items.len() < limit) else {
            return Ok(Page { items, next });
        };
        filter.after = Some(read_after(after)?);
        // So that no page has more than was asked for.
        filter.limit = (limit - items.len()) as u32;
        found = deployments::page(&ctx.engine, &filter).await.map_err(failed)?;
    }
    let next = found.next.clone();
    items.extend(seen(ctx, scope, found.items).await?);
    Ok(Page { items, next })
}

/// Those at children of the caller. Who changed one last may be somebody else.
async fn seen(ctx: &Context, scope: &Scope, items: Vec<Deployment>) -> Result<Vec<Deployment>, Problem> {
    let scope = scope.clone();
    let look = move |state: &Snapshot| {
        let is_own = |found: &Deployment| {
            state.children.by_id(&found.child).is_some_and(|(_, child)| scope.sees_child(child))
        };
        let own = items.into_iter().filter(is_own);
        own.map(|found| Deployment { release: scope.name(&found.release).to_owned(), ..found }).collect()
    };
    Ok(ctx.engine.read(PATIENCE, look).await?)
}

fn read_after(text: &str) -> Result<(String, u32), Problem> {
    let (child, function) = text.split_once(':').ok_or_else(page::bad_after)?;
    Ok((function.to_owned(), child.parse().map_err(|_| page::bad_after())?))
}
