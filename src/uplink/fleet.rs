//! What is below this manager, as its parent sees it: an area, a number of agents, runtimes.

use std::{collections::BTreeSet, sync::Arc};

use super::{PATIENCE, Trouble};
use crate::{
    engine::{Engine, EngineError},
    model::{
        Capabilities, ChildKey,
        area::{self, MAX_POSITIONS},
    },
    release::state::State,
};
use geo::{BoundingRect, ConvexHull, LineString, MultiPoint, Polygon};

/// Children looked at while the engine waits.
const SLICE: usize = 10_000;

/// What is known of the children together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Below {
    area: Option<String>,
    agents: u32,
    /// `None`: a child doesn't say what it runs.
    runtimes: Option<BTreeSet<String>>,
}

/// Children, looked at slice by slice.
#[derive(Default)]
struct Look {
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

    /// Looks at all children.
    pub async fn look(engine: &Engine) -> Result<Self, Trouble> {
        let (mut look, mut after) = (Look::default(), None);
        loop {
            let (slice, next) = engine.query(PATIENCE, move |state| slice(state, after)).await?;
            look.add(slice);
            after = next;
            if next.is_none() {
                break;
            }
        }
        let areas = std::mem::take(&mut look.areas);
        let area =
            tokio::task::spawn_blocking(move || hull(&areas)).await.map_err(|_| EngineError::Failed)?;
        let runtimes = (!look.some_say_nothing).then_some(look.runtimes);
        Ok(Self { area, agents: look.agents, runtimes })
    }
}

impl Look {
    fn add(&mut self, other: Self) {
        self.areas.extend(other.areas);
        self.agents = self.agents.saturating_add(other.agents);
        self.runtimes.extend(other.runtimes);
        self.some_say_nothing |= other.some_say_nothing;
    }
}

fn slice(state: &State, after: Option<ChildKey>) -> (Look, Option<ChildKey>) {
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
