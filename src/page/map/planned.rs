//! The map of a plan: where those are who would take part, and in which waves.

use maud::{Markup, html};
use model::MapState;

use super::{
    drawing::{drawing, outline},
    symbols,
    table::{sum, waves},
    window::Window,
};
use crate::text;
use protocol::api::{MapCell, PlannedMap};

/// Lines of the table.
const MAX_LINES: usize = 100;

/// The drawing, and the same as a table: a line a cell in which anybody would take part.
pub fn shown(map: &PlannedMap) -> Markup {
    let [west, south, east, north] = map.window;
    let window = Window { west, south, east, north };
    let taking: Vec<&MapCell> =
        map.cells.cells.iter().filter(|cell| of(cell, MapState::Waiting) > 0).collect();
    let placeless = map.cells.without_place.get(MapState::Waiting.name()).copied().unwrap_or(0);
    html! {
        figure.planned {
            (drawing(&map.cells, window, text::map::PLANNED, &outline(map.target.as_deref().unwrap_or_default(), window)))
            figcaption.hint {
                (symbols::sign(MapState::Waiting)) " " (text::map::TAKES_PART) " "
                (symbols::sign(MapState::NoPart)) " " (text::map::NO_PART)
                @if map.target.is_some() { " " (text::map::TARGET_LINE) }
                @if placeless > 0 { " " (text::map::children_have(placeless.into())) " " (text::map::NO_PLACE) }
            }
        }
        @if !taking.is_empty() {
            details {
                summary { (text::map::PLACES) }
                div.wide tabindex="0" role="group" aria-label=(text::map::PLACES) { table.cells {
                    thead { tr {
                        th scope="col" { (text::map::PLACE) } th scope="col" { (text::map::WOULD) }
                        th scope="col" { (text::map::OTHERS) } th scope="col" { (text::map::WAVES) }
                    } }
                    tbody { @for cell in taking.iter().take(MAX_LINES) { tr data-key=(cell.near) {
                        th scope="row" { (cell.near) }
                        td.number { (text::grouped(of(cell, MapState::Waiting).into())) }
                        td.number { (text::grouped(sum(&cell.counts) - u64::from(of(cell, MapState::Waiting)))) }
                        td { (waves(cell)) }
                    } } }
                } }
                @if taking.len() > MAX_LINES { p.hint { (text::grouped((taking.len() - MAX_LINES) as u64)) " " (text::map::MORE_PLACES) } }
            }
        }
    }
}

fn of(cell: &MapCell, state: MapState) -> u32 {
    cell.counts.get(state.name()).copied().unwrap_or(0)
}
