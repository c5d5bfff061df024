//! `GET /api/v1/tree`.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::page::{self, path_below, unheard},
};
use engine::questions::tree::{self, TreeWanted};
use protocol::api::TreeLevel;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// What is below a manager below: the ids that lead to it, with a `/` between. It is asked now, and nothing of it is kept.
    below: Option<String>,
    /// Those who have a part in this release, and how they stand in it.
    release: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given, and at most of a manager below.
    limit: Option<u32>,
}

/// Shows what is right below a manager, with sums over the agents below each manager there.
#[utoipa::path(get, path = "/api/v1/tree", operation_id = "show_tree", tag = "children",
    params(Parameters), responses((status = 200, body = TreeLevel)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let Parameters { below, release, after, limit } = parameters;
    let limit = page::limit(limit)?;
    let after: Option<u32> = page::after(after.as_deref())?;
    let path = path_below(&ctx, &scope, below.as_deref()).await?;
    let named = release.filter(|said| !said.is_empty()).map(|said| known(&ctx, &scope, &said));
    let release = named.transpose()?;
    let wanted = TreeWanted { path, release, tenant: tree::named(scope.tenant()), after, limit };
    let level = if wanted.path.is_empty() {
        let said = wanted.release.clone().unwrap_or_default();
        let found = tree::level(&ctx.engine, wanted).await?;
        found.ok_or_else(|| Problem::unknown_release(&said))?
    } else {
        tree::ask_below(&ctx.engine, wanted).await.map_err(|why| unheard(&why))?
    };
    page::answer(move || level).await
}

/// The id in the manager of a release that there is, and that is the caller's.
fn known(ctx: &Context, scope: &Scope, said: &str) -> Result<String, Problem> {
    let id = scope.release(said);
    let found = ctx.view().releases.key_of(&id);
    found.map(|_| id).ok_or_else(|| Problem::unknown_release(said))
}
