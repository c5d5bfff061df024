//! Maps: what is told of them as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Children counted by cell: `GET /api/v1/map/cells`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapCells {
    /// Cells from west to east.
    pub columns: u32,
    /// Cells from south to north.
    pub lines: u32,
    /// Those in which anybody is, at most 2,000: from south to north, each line from west to east.
    pub cells: Vec<MapCell>,
    /// All children by state, those outside of the box among them.
    pub total: BTreeMap<String, u32>,
    /// Children whose area is not known, by state.
    pub without_place: BTreeMap<String, u32>,
    /// Of a release whose target has an area: its rings, with as many corners as are seen in the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Vec<Vec<[f64; 2]>>>,
}

/// Children whose areas have their middles in a rectangle, in degrees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapCell {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
    /// Its middle in words: `52.5N 13.4E`.
    pub near: String,
    /// State → children.
    pub counts: BTreeMap<String, u32>,
    /// Of a release or a plan: the first and the last wave of those there that take part, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<[u32; 2]>,
}

/// Where those are who would take part in a release: `POST /api/v1/plan?map=true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMap {
    /// What is shown, with some room around those who would take part; the world, if nobody would: west, south, east, north in
    /// degrees. Across the antimeridian east is beyond 180.
    pub window: [f64; 4],
    /// Children by cell: `waiting`, who would take part, and `no_part`.
    pub cells: MapCells,
    /// The rings of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Vec<Vec<[f64; 2]>>>,
}

/// Who a point of a map is: `GET /api/v1/map/children/{number}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapChild {
    pub number: u32,
    pub id: String,
    pub name: Option<String>,
    /// The middle of its area in words.
    pub place: Option<String>,
    /// The same as longitude and latitude in degrees.
    #[serde(default)]
    pub at: Option<[f64; 2]>,
    /// `agent` or `rm`.
    pub kind: String,
    /// `no_part`, `waiting`, `held`, `doing`, `done`, `failed`, `timed_out`, `unreachable`, `lost`, `taking_back`, `taken_back`,
    /// `unconfirmed`, `untested`, `excluded`; of the fleet `heard`, `silent`, `cordoned`, `drained`.
    pub state: String,
    /// The same for people.
    pub says: String,
    /// In a release: from 1.
    pub wave: Option<u32>,
    /// What waits for it or what it has in hand, over all releases.
    pub doing: String,
    pub last_call: Option<String>,
}

/// Outlines of areas: `GET /api/v1/map/areas`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapAreas {
    /// At most 500.
    pub areas: Vec<MapArea>,
    /// More areas meet the box than are told.
    pub more: bool,
    /// Of a release: the rings of its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Vec<Vec<[f64; 2]>>>,
}

/// The outline of one child's area.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapArea {
    /// The child's number in the map.
    pub number: u32,
    /// Rings of longitude and latitude in degrees, holes among them; corners that nobody would see are left out.
    pub rings: Vec<Vec<[f64; 2]>>,
}
