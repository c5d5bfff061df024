//! Where those are who would take part in a release that isn't submitted yet.

use std::sync::Arc;

use super::{
    areas::target_of,
    around::Around,
    cells::count,
    rows::{Part, Rows},
    window::{WORLD, Window},
};
use crate::scope::Scope;
use domain::{plan::Plan, release::state::Snapshot};
use language::Strategy;
use model::{MapState, globe::within_turn};
use protocol::api::PlannedMap;

/// Cells from west to east.
const COLUMNS: u32 = 30;

/// Room around those who take part, as a share of what they span, and at least so many degrees.
const ROOM: (f64, f64) = (0.1, 2.0);

/// Counts by cell, in a window around those who would take part. Looks at each child that whoever plans may see.
pub fn planned(state: &Snapshot, scope: &Scope, strategy: &Strategy, plan: &Plan) -> PlannedMap {
    let mut turns = vec![0; plan.members.len()];
    for (turn, member) in (0..).zip(&plan.sequence) {
        if let Some(found) = turns.get_mut(*member as usize) {
            *found = turn;
        }
    }
    let wave = |at: usize| {
        if plan.waves.is_empty() { turns.get(at).copied().unwrap_or(0) } else { plan.wave(at) as u32 }
    };
    let members = plan.members.iter().enumerate();
    let parts: Vec<Part> =
        members.map(|(at, key)| Part { number: key.0, state: MapState::Waiting, wave: wave(at) }).collect();
    let mut around = Around::default();
    for middle in plan.members.iter().filter_map(|key| state.children.areas().middle(*key)) {
        around.take(middle);
    }
    let window = around.bounds().map_or(WORLD, with_room);
    let rows = Arc::new(Rows::of_release(state, scope, &parts));
    PlannedMap {
        window: [window.west, window.south, window.east, window.north],
        cells: count(&rows, window, COLUMNS),
        target: target_of(strategy, window),
    }
}

/// A box with some room around it, about twice as wide as high as far as the globe goes.
fn with_room([west, south, east, north]: [f64; 4]) -> Window {
    let width = if east < west { east + 360.0 - west } else { east - west };
    let (share, least) = ROOM;
    let half = (width / 2.0).max(north - south).mul_add(1.0 + 2.0 * share, 2.0 * least).min(180.0);
    let (x, y) = (west + width / 2.0, f64::midpoint(south, north));
    if half >= 179.0 {
        return WORLD;
    }
    let x = within_turn(x);
    let high = (half / 2.0).min(90.0);
    let y = y.clamp(high - 90.0, 90.0 - high);
    Window { west: x - half, south: y - high, east: x + half, north: y + high }
}
