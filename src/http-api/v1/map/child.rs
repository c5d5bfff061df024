//! `GET /api/v1/map/children/{number}`: who a point of a map is.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    parts::of_child,
    rows::{fleet_state, position},
    show::known,
};
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    scope::Scope,
};
use domain::release::{state::Snapshot, waits::LineInputs};
use engine::questions;
use model::{ChildKey, MapState};
use protocol::api::MapChild;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// The release in which its state is told; without it, that of the fleet's map.
    release: Option<String>,
}

/// Who a point of a map is.
#[utoipa::path(get, path = "/api/v1/map/children/{number}", operation_id = "show_map_child", tag = "watching",
    params(("number" = String, Path, description = "The number of the child in a map, or its id."), Parameters),
    responses((status = 200, body = MapChild)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(number): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<MapChild>, Problem> {
    let unknown = || Problem::unknown_child(&number);
    let by_number = number.parse().ok().map(ChildKey);
    let release = parameters.release.map(|id| known(&ctx, &scope.release(&id))).transpose()?;
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let (viewer, id) = (scope.clone(), number.clone());
    let take = move |state: &Snapshot| {
        let numbered = by_number.and_then(|key| Some((key, state.children.get(key)?)));
        let (key, record) = numbered.or_else(|| state.children.by_id(&id))?;
        if !viewer.sees_child(record) {
            return None;
        }
        let look = LineInputs { state, seen: seen.as_ref(), now, since: seen.listening_since() };
        let child = questions::children::child(&look, key, record);
        Some((key, child, fleet_state(seen.as_ref(), key, record, now), position(state, key)))
    };
    let (ChildKey(number), child, of_fleet, at) =
        ctx.engine.read(PATIENCE, take).await?.ok_or_else(unknown)?;
    let part = match &release {
        None => None,
        Some(id) => of_child(&ctx, id, number).await?,
    };
    let state = match &release {
        None => of_fleet,
        Some(_) => part.map_or(MapState::NoPart, |part| part.state),
    };
    let child = scope.child(child);
    Ok(Json(MapChild {
        number,
        id: child.id,
        name: child.name,
        place: child.place,
        at,
        kind: child.kind,
        state: state.name().to_owned(),
        says: state.words().to_owned(),
        wave: part.map(|part| part.wave + 1),
        doing: child.doing,
        last_call: child.last_call,
    }))
}
