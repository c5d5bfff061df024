//! Counts by cell as a drawing.

use std::fmt::Write as _;

use maud::{Markup, html};
use model::MapState;

use super::{symbols, window::Window};
use crate::{assets, text};
use protocol::api::{MapCell, MapCells};

/// Parts of a degree in which the land is drawn.
const LAND_PER_DEGREE: f64 = 100.0;

/// Units from west to east. The height follows.
const WIDTH: f64 = 1_000.0;

/// Most corners of lines around a target, over all its rings and all turns in which they are seen.
const MAX_CORNERS: usize = 4_000;

/// The lines around a target, as a path of the drawing; a ring that is left of the window stands to the right of it, too. Corners that are
/// nearer to each other than a unit are one.
pub fn outline(rings: &[Vec<[f64; 2]>], window: Window) -> String {
    let per_degree = WIDTH / window.width();
    let (mut path, mut left) = (String::new(), MAX_CORNERS);
    for turn in turns(window) {
        for ring in rings {
            let mut last: Option<(f64, f64)> = None;
            for [x, y] in ring {
                let at = ((x + turn * 360.0 - window.west) * per_degree, (window.north - y) * per_degree);
                let is_seen =
                    last.is_none_or(|last| (last.0 - at.0).abs() >= 1.0 || (last.1 - at.1).abs() >= 1.0);
                if !is_seen || left == 0 {
                    continue;
                }
                let _ = write!(path, "{}{:.1} {:.1}", if last.is_none() { 'M' } else { 'L' }, at.0, at.1);
                (last, left) = (Some(at), left - 1);
            }
            if last.is_some() {
                path.push('z');
            }
        }
    }
    path
}

/// The drawing of what is in a window. `outline`: a path around what is looked at; empty: none.
pub fn drawing(cells: &MapCells, window: Window, label: &str, outline: &str) -> Markup {
    let per_degree = WIDTH / window.width();
    let height = window.height() * per_degree;
    let most = cells.cells.iter().map(sum).max().unwrap_or(1);
    let land = assets::path("land.svg");
    html! {
        svg.map viewBox=(format!("0 0 {WIDTH} {height:.1}")) role="img" aria-label=(label) {
            rect.sea x="0" y="0" width="100%" height="100%" {}
            g.land transform=(format!("translate({:.3} {:.3}) scale({:.6})", -window.west * per_degree,
                window.north * per_degree, per_degree / LAND_PER_DEGREE)) {
                @for turn in turns(window) { use href={ (land) "#land" } x=(turn * 360.0 * LAND_PER_DEGREE) {} }
            }
            @if !outline.is_empty() { path.target d=(outline) {} }
            @for cell in &cells.cells { (drawn(cell, window, per_degree, most)) }
        }
    }
}

/// How many times around the globe land is seen in the window.
fn turns(window: Window) -> Vec<f64> {
    // Rings go on beyond the antimeridian, to the east or to the west: Eurasia lies between 170 and 378 degrees west.
    let is_seen = |turn: &f64| turn * 360.0 + 400.0 > window.west && turn * 360.0 - 400.0 < window.east;
    [-2.0, -1.0, 0.0, 1.0, 2.0].into_iter().filter(is_seen).collect()
}

fn sum(cell: &MapCell) -> u64 {
    cell.counts.values().map(|number| u64::from(*number)).sum()
}

/// Shade by number, shape and colour by state, and the number.
fn drawn(cell: &MapCell, window: Window, per_degree: f64, most: u64) -> Markup {
    let Some(state) = symbols::of_cell(&cell.counts) else { return Markup::default() };
    let number = sum(cell);
    let shade = 0.08 + 0.25 * (number as f64).ln_1p() / (most as f64).ln_1p();
    let place = |degrees: f64| format!("{:.2}", degrees * per_degree);
    let (x, y) = (place(cell.west - window.west), place(window.north - cell.north));
    let side = (cell.east - cell.west).min(cell.north - cell.south) * per_degree;
    let sign = format!("translate({:.2} {:.2}) scale({:.4})", side * 0.28, side * 0.06, side * 0.44 / 16.0);
    html! {
        g.cell.(symbols::class(state)) data-state=(state.name()) transform=(format!("translate({x} {y})")) {
            title { (cell.near) ": " (words(cell)) @if let Some(waves) = waves_of(cell) { ", " (waves) } }
            rect width=(place(cell.east - cell.west)) height=(place(cell.north - cell.south))
                fill="currentColor" fill-opacity=(format!("{shade:.3}")) {}
            path transform=(sign) d=(symbols::shape(state)) fill="currentColor" fill-rule="evenodd" {}
            text x=(format!("{:.2}", side / 2.0)) y=(format!("{:.2}", side * 0.9)) font-size=(format!("{:.2}", side * 0.36)) { (short(number)) }
        }
    }
}

/// `12 children: 10 done, 2 failed`.
fn words(cell: &MapCell) -> String {
    let states = cell.counts.iter().filter_map(|(name, number)| Some((MapState::named(name)?, *number)));
    let parts = states.map(|(state, number)| format!("{} {}", text::grouped(number.into()), state.words()));
    format!("{}: {}", text::release::children(sum(cell)), parts.collect::<Vec<_>>().join(", "))
}

/// `wave 2`, `waves 1 to 3`.
fn waves_of(cell: &MapCell) -> Option<String> {
    let [first, last] = cell.waves?;
    Some(text::map::waves_in_words(first, last))
}

/// In at most four signs.
fn short(number: u64) -> String {
    match number {
        0..=9_999 => number.to_string(),
        10_000..=999_999 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}
