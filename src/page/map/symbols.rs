//! What states look like on maps: a shape and a colour each, in the drawing, in the legend and in what the script draws.

use std::collections::BTreeMap;

use maud::{Markup, html};
use model::MapState;

/// States of children in a release, those that matter most first.
pub const OF_RELEASE: [MapState; 14] = [
    MapState::Failed,
    MapState::Unconfirmed,
    MapState::TimedOut,
    MapState::Unreachable,
    MapState::Lost,
    MapState::TakingBack,
    MapState::Doing,
    MapState::Held,
    MapState::Waiting,
    MapState::Done,
    MapState::Untested,
    MapState::TakenBack,
    MapState::Excluded,
    MapState::NoPart,
];

/// States of children of the fleet, those that matter most first.
pub const OF_FLEET: [MapState; 4] =
    [MapState::Silent, MapState::Drained, MapState::Cordoned, MapState::Heard];

/// A class of the style, which is a colour, and a path within 16 by 16. No two states of one map have the same shape.
const fn of(state: MapState) -> (&'static str, &'static str) {
    match state {
        // A dot.
        MapState::NoPart => ("lost", "M8 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6z"),
        // A ring.
        MapState::Waiting => (
            "waiting",
            "M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13zm0 2.8a3.7 3.7 0 1 0 0 7.4a3.7 3.7 0 0 0 0-7.4z",
        ),
        // Two bars.
        MapState::Held | MapState::Cordoned => ("asks", "M2.5 2h4v12h-4zM9.5 2h4v12h-4z"),
        // A triangle that points on.
        MapState::Doing => ("going", "M2.5 1l12.5 7l-12.5 7z"),
        // A disc.
        MapState::Done | MapState::Heard => ("good", "M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z"),
        // A cross.
        MapState::Failed => (
            "bad",
            "M3.5 1l4.5 4.5l4.5-4.5l2.5 2.5l-4.5 4.5l4.5 4.5l-2.5 2.5l-4.5-4.5l-4.5 4.5l-2.5-2.5l4.5-4.5l-4.5-4.5z",
        ),
        // A bar that lies.
        MapState::TimedOut | MapState::Silent => ("bad", "M1 5.5h14v5h-14z"),
        // A frame.
        MapState::Unreachable => ("lost", "M1.5 1.5h13v13h-13zm3 3v7h7v-7z"),
        // A plus.
        MapState::Lost => ("lost", "M6 1h4v5h5v4h-5v5h-4v-5h-5v-4h5z"),
        // A triangle that points back.
        MapState::TakingBack => ("back", "M13.5 1l-12.5 7l12.5 7z"),
        // A diamond.
        MapState::TakenBack => ("back", "M8 .8l7.2 7.2l-7.2 7.2l-7.2-7.2z"),
        // A triangle on its tip.
        MapState::Unconfirmed => ("bad", "M1 2.5h14l-7 12.5z"),
        // A square.
        MapState::Untested => ("mixed", "M2 2h12v12h-12z"),
        // A hollow diamond.
        MapState::Excluded | MapState::Drained => {
            ("waiting", "M8 .5l7.5 7.5l-7.5 7.5l-7.5-7.5zm0 4.2l-3.3 3.3l3.3 3.3l3.3-3.3z")
        }
    }
}

/// The class that is its colour.
pub const fn class(state: MapState) -> &'static str {
    of(state).0
}

/// Its path within 16 by 16.
pub const fn shape(state: MapState) -> &'static str {
    of(state).1
}

/// Its shape beside its words.
pub fn sign(state: MapState) -> Markup {
    html! {
        svg.sign.(class(state)) viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false" {
            path d=(shape(state)) fill="currentColor" fill-rule="evenodd" {}
        }
    }
}

/// What a cell is drawn as: the failure that is most, or else what most are.
pub fn of_cell(counts: &BTreeMap<String, u32>) -> Option<MapState> {
    let states = counts.iter().filter_map(|(name, number)| Some((MapState::named(name)?, *number)));
    states.max_by_key(|(state, number)| (state.is_failure(), *number)).map(|(state, _)| state)
}

/// What the script is told of states, in the order of their numbers: words, class, path, whether it is a failure, and its rank; what has
/// a higher one is drawn above.
pub fn for_script() -> String {
    let rank = |state: MapState| {
        let of = |states: &[MapState]| states.iter().rev().position(|other| *other == state);
        of(&OF_RELEASE).or_else(|| of(&OF_FLEET)).unwrap_or_default()
    };
    let told = MapState::ALL.map(|state| {
        serde_json::json!([
            state.words(),
            class(state),
            shape(state),
            state.is_failure(),
            rank(state),
            state.name()
        ])
    });
    serde_json::Value::from(told.to_vec()).to_string()
}
