//! What is below a manager, as its parent sees it: an area, a number of agents, runtimes.

use std::{collections::BTreeSet, sync::Arc};

use geo::{BoundingRect, ConvexHull, LineString, MultiPoint, Polygon};

use crate::{
    model::{
        Capabilities, ChildKey,
        area::{self, MAX_POSITIONS},
    },
    release::state::State,
};

/// Children looked at in one go, in between other things may be done.
const SLICE: usize = 10_000;

/// What is known of the children together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Below {
    area: Option<String>,
    agents: u32,
    /// `None`: a child doesn't say what it runs.
    runtimes: Option<BTreeSet<String>>,
}

/// Children, looked at slice by slice.
#[derive(Debug, Default)]
pub struct Look {
    areas: Vec<Arc<str>>,
    agents: u32,
    runtimes: BTreeSet<String>,
    some_say_nothing: bool,
}

impl Below {
    /// GeoJSON: a polygon that contains the areas of all children.
    ///
    /// Their convex hull, which every parent understands; the union of areas that lie apart would be several polygons.
    pub fn area(&self) -> Option<&str> {
        self.area.as_deref()
    }

    pub fn agents(&self) -> u32 {
        self.agents
    }

    pub fn capabilities(&self) -> Option<Capabilities> {
        let runtimes = self.runtimes.as_ref()?.iter().cloned().collect();
        Some(Capabilities { runtimes: Some(runtimes), ..Capabilities::default() })
    }
}

impl From<Look> for Below {
    fn from(look: Look) -> Self {
        let runtimes = (!look.some_say_nothing).then_some(look.runtimes);
        Self { area: hull(&look.areas), agents: look.agents, runtimes }
    }
}

impl Look {
    pub fn add(&mut self, other: Self) {
        self.areas.extend(other.areas);
        self.agents = self.agents.saturating_add(other.agents);
        self.runtimes.extend(other.runtimes);
        self.some_say_nothing |= other.some_say_nothing;
    }
}

/// The next children, and after which of them to go on; `None`: these were the last.
pub fn slice(state: &State, after: Option<ChildKey>) -> (Look, Option<ChildKey>) {
    let (mut look, mut last, mut count) = (Look::default(), None, 0);
    for (key, child) in state.children.after(after).take(SLICE) {
        (last, count) = (Some(key), count + 1);
        look.areas.extend(child.area.clone());
        look.agents = look.agents.saturating_add(child.counted_agents());
        match child.profile.as_ref().and_then(|profile| profile.capabilities.runtimes.as_ref()) {
            Some(runtimes) => look.runtimes.extend(runtimes.iter().cloned()),
            None => look.some_say_nothing = true,
        }
    }
    (look, last.filter(|_| count == SLICE))
}

fn hull(areas: &[Arc<str>]) -> Option<String> {
    let areas = areas.iter().filter_map(|text| area::parse(text).ok());
    let points: MultiPoint = areas
        .flat_map(|area| area.into_iter().flat_map(|polygon| polygon.exterior().clone().into_points()))
        .collect();
    let hull = points.convex_hull();
    let ring = if hull.exterior().0.len() > MAX_POSITIONS {
        let around: Polygon = points.bounding_rect()?.into();
        around.exterior().clone()
    } else {
        hull.exterior().clone()
    };
    (ring.0.len() >= 4).then(|| geojson(&ring))
}

fn geojson(ring: &LineString) -> String {
    let positions: Vec<[f64; 2]> = ring.coords().map(|coord| [coord.x, coord.y]).collect();
    serde_json::json!({"type": "Polygon", "coordinates": [positions]}).to_string()
}
