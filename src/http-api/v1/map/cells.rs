//! `GET /api/v1/map/cells` and `GET /api/v1/releases/{id}/map/cells`: children counted by cell and state, for what has to
//! be small, and for whoever doesn't see the map.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    areas::target_of,
    parts::Subject,
    rows::{NOWHERE, Rows, STATE},
    show::known,
    watch,
    window::Window,
};
use crate::{
    Context,
    extract::{Path, Query},
    problem::Problem,
    scope::Scope,
    v1::page,
};
use engine::blocking::giving_way;
use model::{MapState, globe::within_turn};
use protocol::api::{MapCell, MapCells};

/// Most cells of an answer.
pub const MAX_CELLS: u32 = 2_000;

/// Columns, unless asked otherwise.
const COLUMNS: u32 = 40;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `WEST,SOUTH,EAST,NORTH` in degrees; across the antimeridian east is beyond 180. Without it, the whole world.
    r#box: Option<String>,
    /// Cells from west to east, 1 to 60; 40 if not given. They are about as high as wide.
    columns: Option<u32>,
}

/// Children of the fleet, counted by cell and state.
#[utoipa::path(get, path = "/api/v1/map/cells", operation_id = "show_map_cells", tag = "watching",
    params(Parameters), responses((status = 200, body = MapCells)))]
pub(super) async fn fleet(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    answer(&ctx, Subject { release: None, scope }, parameters).await
}

/// Children counted by cell and by where they stand in a release.
#[utoipa::path(get, path = "/api/v1/releases/{id}/map/cells", operation_id = "show_release_map_cells", tag = "watching",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = MapCells)))]
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
    let columns = match parameters.columns {
        None => COLUMNS,
        Some(columns @ 1..=60) => columns,
        Some(other) => return Err(Problem::bad_request(format!("`columns` is 1 to 60, not {other}"))),
    };
    let viewer = watch::watch(ctx, subject)?;
    let shown = viewer.watch.fresh(ctx).await?;
    page::answer(move || {
        let target = shown.strategy.as_deref().and_then(|strategy| target_of(strategy, window));
        MapCells { target, ..count(&shown.rows, window, columns) }
    })
    .await
}

type Counts = BTreeMap<u8, u32>;

/// What is in a cell.
#[derive(Default)]
struct Cell {
    counts: Counts,
    /// From 0.
    waves: Option<[u32; 2]>,
}

impl Cell {
    fn take(&mut self, state: u8, wave: Option<u32>) {
        *self.counts.entry(state).or_default() += 1;
        // What the fleet's map shows has no waves.
        let has_part = MapState::from_number(state).is_some_and(|state| match state {
            MapState::NoPart
            | MapState::Heard
            | MapState::Silent
            | MapState::Cordoned
            | MapState::Drained => false,
            MapState::Waiting
            | MapState::Held
            | MapState::Doing
            | MapState::Done
            | MapState::Failed
            | MapState::TimedOut
            | MapState::Unreachable
            | MapState::Lost
            | MapState::TakingBack
            | MapState::TakenBack
            | MapState::Unconfirmed
            | MapState::Untested
            | MapState::Excluded => true,
        });
        if let Some(wave) = wave.filter(|_| has_part) {
            let [first, last] = self.waves.unwrap_or([wave; 2]);
            self.waves = Some([first.min(wave), last.max(wave)]);
        }
    }
}

fn named(counts: &Counts) -> BTreeMap<String, u32> {
    let name = |state: u8| MapState::from_number(state).map_or("?", MapState::name).to_owned();
    counts.iter().map(|(state, count)| (name(*state), *count)).collect()
}

/// Counts children by cell of a grid over the window.
pub fn count(rows: &Arc<Rows>, window: Window, columns: u32) -> MapCells {
    let lines = (f64::from(columns) * window.height() / window.width()).round() as u32;
    let lines = lines.clamp(1, MAX_CELLS / columns);
    let mut cells: BTreeMap<u32, Cell> = BTreeMap::new();
    let (mut all, mut unplaced) = (Counts::new(), Counts::new());
    let at = |share: f64, cells: u32| ((share * f64::from(cells)) as u32).min(cells - 1);
    let columns_of_rows = rows.x.iter().zip(&rows.y).zip(&rows.states).enumerate();
    for (row, ((x, y), state)) in giving_way(columns_of_rows) {
        let state = state & STATE;
        *all.entry(state).or_default() += 1;
        if *x == NOWHERE {
            *unplaced.entry(state).or_default() += 1;
        } else if let Some((right, up)) = window.share(*x, *y) {
            let cell = at(up, lines) * columns + at(right, columns);
            cells.entry(cell).or_default().take(state, rows.waves.get(row).copied());
        }
    }
    let (width, height) = (window.width() / f64::from(columns), window.height() / f64::from(lines));
    let cell = |(cell, Cell { counts, waves }): (u32, Cell)| {
        let west = window.west + f64::from(cell % columns) * width;
        let south = window.south + f64::from(cell / columns) * height;
        MapCell {
            west,
            south,
            east: west + width,
            north: south + height,
            near: near(west + width / 2.0, south + height / 2.0),
            counts: named(&counts),
            waves: waves.map(|[first, last]| [first + 1, last + 1]),
        }
    };
    MapCells {
        columns,
        lines,
        cells: cells.into_iter().map(cell).collect(),
        total: named(&all),
        without_place: named(&unplaced),
        target: None,
    }
}

/// A position in words, to a tenth of a degree.
fn near(east: f64, north: f64) -> String {
    let east = within_turn(east);
    let (ns, ew) = (if north < 0.0 { 'S' } else { 'N' }, if east < 0.0 { 'W' } else { 'E' });
    format!("{:.1}{ns} {:.1}{ew}", north.abs(), east.abs())
}
