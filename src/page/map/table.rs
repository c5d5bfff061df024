//! The facts of a map as a table, and what its shapes mean.

use std::collections::BTreeMap;

use maud::{Markup, html};
use model::MapState;

use super::{symbols, window::Window};
use crate::{places, text};
use protocol::api::{MapCell, MapCells, WaveOverview};

type Counts = BTreeMap<String, u32>;

fn of(counts: &Counts, state: MapState) -> u32 {
    counts.get(state.name()).copied().unwrap_or(0)
}

pub fn sum(counts: &Counts) -> u64 {
    counts.values().map(|number| u64::from(*number)).sum()
}

/// Every state of such a map with its shape, its words and how many there are.
pub fn legend(states: &[MapState], cells: &MapCells) -> Markup {
    html! {
        section #legend aria-labelledby="legend-title" {
            h2 #legend-title { (text::map::LEGEND) }
            ul.legend {
                @for state in states {
                    @let number = of(&cells.total, *state);
                    li data-state=(state.name()) { (symbols::sign(*state)) " " span.number { (text::grouped(number.into())) } " " (state.words()) }
                }
            }
            p.hint {
                (text::release::children(sum(&cells.total))) ", "
                span #placeless { (text::grouped(sum(&cells.without_place))) } " " (text::map::PLACELESS)
                ". " (text::map::CELLS)
            }
        }
    }
}

/// A line a cell, and the sums.
pub fn table(states: &[MapState], cells: &MapCells, window: Window, base: &str) -> Markup {
    let shown: Vec<MapState> = states.iter().copied().filter(|state| of(&cells.total, *state) > 0).collect();
    let elsewhere = elsewhere(cells);
    // Where there is one wave only, all have their turn in it.
    let has_waves = cells.cells.iter().any(|cell| cell.waves.is_some_and(|[_, last]| last > 1));
    let no_waves = has_waves.then(String::new);
    html! {
        div #cells {
            h2 #cells-title { (text::map::PLACES) }
            @if cells.cells.is_empty() { p { (text::map::NOBODY) } }
            div.wide tabindex="0" role="region" aria-labelledby="cells-title" {
                table.cells {
                    thead { tr {
                        th scope="col" { (text::map::PLACE) }
                        th scope="col" { (text::map::CHILDREN) }
                        @if has_waves { th scope="col" { (text::map::WAVES) } }
                        @for state in &shown { th scope="col" { (symbols::sign(*state)) " " (state.words()) } }
                    } }
                    tbody {
                        (line("all", &html! { (text::map::ALL) }, &cells.total, no_waves.as_deref(), &shown))
                        @if !cells.without_place.is_empty() { (line("placeless", &html! { (text::map::WITHOUT) }, &cells.without_place, no_waves.as_deref(), &shown)) }
                        @if sum(&elsewhere) > 0 { (line("elsewhere", &html! { (text::map::ELSEWHERE) }, &elsewhere, no_waves.as_deref(), &shown)) }
                        @for cell in &cells.cells {
                            @let waves = has_waves.then(|| waves(cell));
                            (line(&format!("{:.4} {:.4}", cell.west, cell.south), &place(cell, window, base), &cell.counts, waves.as_deref(), &shown))
                        }
                    }
                }
            }
        }
    }
}

fn line(key: &str, place: &Markup, counts: &Counts, waves: Option<&str>, shown: &[MapState]) -> Markup {
    html! {
        tr data-key=(key) {
            th scope="row" { (place) }
            td.number { (text::grouped(sum(counts))) }
            @if let Some(waves) = waves { td { (waves) } }
            @for state in shown { td.number { (text::grouped(of(counts, *state).into())) } }
        }
    }
}

/// The cell's place, which leads nearer to it.
fn place(cell: &MapCell, window: Window, base: &str) -> Markup {
    let middle = [f64::midpoint(cell.west, cell.east), f64::midpoint(cell.south, cell.north)];
    html! {
        @match window.nearer(middle) {
            Some(nearer) => a href={ (base) "?box=" (nearer.text()) } data-open="" { (cell.near) },
            None => (cell.near),
        }
    }
}

/// Those with a place that lies in no cell.
fn elsewhere(cells: &MapCells) -> Counts {
    let mut rest = cells.total.clone();
    for counts in cells.cells.iter().map(|cell| &cell.counts).chain([&cells.without_place]) {
        for (state, number) in counts {
            let left = rest.entry(state.clone()).or_default();
            *left = left.saturating_sub(*number);
        }
    }
    rest
}

/// In which waves those of a cell have their turn.
pub fn waves(cell: &MapCell) -> String {
    match cell.waves {
        None => "–".to_owned(),
        Some([first, last]) if first == last => first.to_string(),
        Some([first, last]) => text::map::from_to(first, last),
    }
}

/// How many are where in each wave of a release, each with a link to them.
pub fn by_wave(release: &str, waves: &[WaveOverview]) -> Markup {
    let states: Vec<MapState> = symbols::OF_RELEASE
        .into_iter()
        .filter(|state| waves.iter().any(|wave| of(&wave.children, *state) > 0))
        .collect();
    html! {
        @if !waves.is_empty() {
            div #by-wave {
                h2 #by-wave-title { (text::map::BY_WAVE) }
                div.wide tabindex="0" role="region" aria-labelledby="by-wave-title" {
                    table.counts {
                        thead { tr {
                            th scope="col" { (text::children::WAVE) }
                            th scope="col" { (text::map::CHILDREN) }
                            @for state in &states { th scope="col" { (symbols::sign(*state)) " " (state.words()) } }
                        } }
                        tbody { @for wave in waves {
                            @let place = places::some_children_of(release, "wave", &wave.number.to_string());
                            (line(&format!("wave {}", wave.number), &html! { a href=(place) { (wave.name) } }, &wave.children, None, &states))
                        } }
                    }
                }
            }
        }
    }
}

/// Where the target of a release is, in words.
pub fn target(rings: Option<&Vec<Vec<[f64; 2]>>>) -> Markup {
    let corners = || rings.into_iter().flatten().flatten();
    let least = |at: usize| corners().map(|corner| corner[at]).fold(f64::INFINITY, f64::min);
    let most = |at: usize| corners().map(|corner| corner[at]).fold(f64::NEG_INFINITY, f64::max);
    html! {
        p #target {
            @match corners().next() {
                None => (text::map::NO_TARGET),
                Some(_) => { (text::map::TARGET) " " (format!("{:.2}, {:.2}, {:.2}, {:.2}", least(0), least(1), most(0), most(1))) "." }
            }
        }
    }
}
