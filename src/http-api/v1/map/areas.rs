//! `GET /api/v1/map/areas` and `GET /api/v1/releases/{id}/map/areas`: outlines of the areas in view, and the target's.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    parts::Subject,
    rows::{Rows, STATE},
    show::known,
    watch,
    window::Window,
};
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    scope::Scope,
    v1::page,
};
use domain::{plan::Entry, release::state::Snapshot};
use engine::blocking::giving_way;
use language::Strategy;
use model::{ChildKey, MapState, coordinates};
use protocol::api::{MapArea, MapAreas};

/// Most areas of an answer.
pub const MAX_AREAS: usize = 500;

/// Most corners of a ring of a child's area.
pub const MAX_CORNERS: usize = 64;

/// Most corners of a ring of a target.
const MAX_TARGET_CORNERS: usize = 1_000;

/// Most rings of an area.
const MAX_RINGS: usize = 16;

/// Most rings of a target.
const MAX_TARGET_RINGS: usize = 64;

/// What is smaller than this part of the view is not seen.
const SEEN: f64 = 1.0 / 1_000.0;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `WEST,SOUTH,EAST,NORTH` in degrees; across the antimeridian east is beyond 180. Without it, the whole world.
    r#box: Option<String>,
}

/// Outlines of areas of the fleet, at most 500, with corners that nobody would see left out.
#[utoipa::path(get, path = "/api/v1/map/areas", operation_id = "show_map_areas", tag = "watching",
    params(Parameters), responses((status = 200, body = MapAreas)))]
pub(super) async fn fleet(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    answer(&ctx, Subject { release: None, scope }, parameters).await
}

/// Outlines of the areas of children that take part in a release, at most 500, and of its target.
#[utoipa::path(get, path = "/api/v1/releases/{id}/map/areas", operation_id = "show_release_map_areas", tag = "watching",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = MapAreas)))]
pub(super) async fn release(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    answer(&ctx, Subject { release: Some(known(&ctx, &id)?), scope }, parameters).await
}

async fn answer(ctx: &Context, subject: Subject, parameters: Parameters) -> Result<Response, Problem> {
    let window = Window::read(parameters.r#box.as_deref())?;
    let of_release = subject.release.is_some();
    let viewer = watch::watch(ctx, subject)?;
    let shown = viewer.watch.fresh(ctx).await?;
    let (rows, strategy) = (Arc::clone(&shown.rows), shown.strategy.clone());
    let take = move |state: &Snapshot| found(state, &rows, window, of_release);
    let (texts, more) = ctx.engine.read_apart(PATIENCE, take).await?;
    page::answer(move || written(&texts, more, strategy.as_deref(), window)).await
}

/// The texts of areas that meet the window.
fn found(state: &Snapshot, rows: &Rows, window: Window, of_release: bool) -> (Vec<(u32, Arc<str>)>, bool) {
    let mut texts = Vec::new();
    for (at, number) in giving_way(rows.numbers.iter().enumerate()) {
        let has_part = rows.states[at] & STATE != MapState::NoPart.number();
        let key = ChildKey(*number);
        let Some(bounds) = state.children.areas().get(key).and_then(Entry::bounds) else { continue };
        let is_in = window.meets(bounds.min.x, bounds.min.y, bounds.max.x, bounds.max.y);
        if !is_in || (of_release && !has_part) {
            continue;
        }
        if texts.len() == MAX_AREAS {
            return (texts, true);
        }
        texts.extend(state.children.get(key).and_then(|child| Some((*number, child.area.clone()?))));
    }
    (texts, false)
}

fn written(texts: &[(u32, Arc<str>)], more: bool, strategy: Option<&Strategy>, window: Window) -> MapAreas {
    let tolerance = window.width().min(window.height()) * SEEN;
    let area = |(number, text): &(u32, Arc<str>)| {
        let polygons = coordinates::polygons(text)?;
        let rings =
            polygons.iter().flatten().map(|ring| ring.iter().map(|at| [at.x, at.y]).collect::<Vec<_>>());
        let rings = rings.take(MAX_RINGS).filter_map(|ring| thinned(&ring, tolerance, MAX_CORNERS));
        Some(MapArea { number: *number, rings: rings.collect() })
    };
    let target = strategy.and_then(|strategy| target_of(strategy, window));
    MapAreas { areas: texts.iter().filter_map(area).collect(), more, target }
}

/// The rings of a strategy's target, with as many corners as are seen in a window. `None`: it has no area.
pub fn target_of(strategy: &Strategy, window: Window) -> Option<Vec<Vec<[f64; 2]>>> {
    let tolerance = window.width().min(window.height()) * SEEN;
    let polygons = strategy.target.as_ref()?.area.as_ref()?.polygons();
    let rings =
        polygons.iter().flat_map(|polygon| std::iter::once(polygon.exterior()).chain(polygon.interiors()));
    let rings = rings.map(|ring| ring.coords().map(|at| [at.x, at.y]).collect::<Vec<_>>());
    let thin = |ring: Vec<[f64; 2]>| thinned(&ring, tolerance, MAX_TARGET_CORNERS);
    Some(rings.take(MAX_TARGET_RINGS).filter_map(thin).collect())
}

/// A ring without corners that lie within `tolerance` of the one before, and at most so many; `None`: nothing is left of it.
pub fn thinned(ring: &[[f64; 2]], tolerance: f64, most: usize) -> Option<Vec<[f64; 2]>> {
    let (first, corners) = ring.split_last()?;
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for at in corners {
        let is_seen =
            |last: &[f64; 2]| (last[0] - at[0]).abs() > tolerance || (last[1] - at[1]).abs() > tolerance;
        if kept.last().is_none_or(is_seen) {
            kept.push(*at);
        }
    }
    let step = kept.len().div_ceil(most.saturating_sub(1).max(3)).max(1);
    let mut kept: Vec<[f64; 2]> = kept.into_iter().step_by(step).collect();
    if kept.len() < 3 {
        // Too small to be seen as it is: its corners as far as they go.
        kept = corners.iter().copied().step_by(corners.len().div_ceil(3).max(1)).collect();
    }
    kept.push(kept.first().copied().unwrap_or(*first));
    Some(kept)
}
