//! `GET /api/v1/releases`.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::list_query;
use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::page::{self, path_below, unheard},
};
use engine::questions::releases::{self, Filter, PageError, PageQuery, ReleasesWanted};
use model::TenantName;
use protocol::api::ReleasePage;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only releases in this state, or in one of these, with commas between.
    state: Option<String>,
    /// Only releases with this in their id or their name, in upper or lower case.
    name: Option<String>,
    /// Only releases that change this function, or this service.
    function: Option<String>,
    /// Only releases whose target names this label: `tier:edge`.
    label: Option<String>,
    /// Only releases whose target reaches here, or is bound to no area: a point, `LATITUDE,LONGITUDE`, or a box,
    /// `WEST,SOUTH,EAST,NORTH`, in degrees. West of more than east is across the antimeridian.
    area: Option<String>,
    /// `submitted` (the newest first), `state`, `name` or `progress` (the least first); with a `-` before it, the other way round. But for
    /// the first, the newest that one call looks at come first, sorted, and then those before them.
    sort: Option<String>,
    /// Says besides how many are in which state of those that are not over.
    counts: bool,
    /// The releases of a manager below: the ids that lead to it, with a `/` between. It is asked now, and nothing of it is kept.
    below: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given, and at most of a manager below.
    limit: Option<u32>,
}

/// Lists releases. A page may hold fewer than were asked for: `next` goes on.
#[utoipa::path(get, path = "/api/v1/releases", operation_id = "list_releases", tag = "releases",
    params(Parameters), responses((status = 200, body = ReleasePage)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let limit = page::limit(parameters.limit)?;
    let path = path_below(&ctx, &scope, parameters.below.as_deref()).await?;
    let Parameters { state, name, function, label, area, sort, counts, after, .. } = parameters;
    let filter = Filter {
        states: list_query::states(state.as_deref())?,
        name: list_query::name(name)?,
        function,
        label: list_query::label(label)?,
        area: area.as_deref().map(list_query::area).transpose()?,
        prefix: scope.tenant().map(TenantName::prefix),
    };
    let (sort, reverse) = list_query::sort(sort.as_deref())?;
    let found = if path.is_empty() {
        let asked = PageQuery { filter, sort, reverse, after, limit: limit as usize, counts };
        releases::page(&ctx.engine, asked).await?
    } else {
        let wanted = ReleasesWanted { path, filter, sort, reverse, after, limit, counts };
        let mut page = releases::ask_below(&ctx.engine, wanted).await.map_err(|why| unheard(&why))?;
        // What comes from below is held against whose it is once more.
        page.items.retain(|line| scope.sees_release(&line.release.id));
        page
    };
    page::answer(move || found).await
}

impl From<PageError> for Problem {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Store(error) => error.into(),
            PageError::Engine(error) => error.into(),
            PageError::Place => page::bad_after(),
        }
    }
}
