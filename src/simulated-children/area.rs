//! Where the simulated children are: one small polygon each, laid out from the seed.

use std::str::FromStr;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::Serialize;
use serde_json::{json, value::RawValue};

use super::error::FleetError;

/// A box in degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundingBox {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
}

impl BoundingBox {
    /// GeoJSON.
    pub fn polygon(&self) -> serde_json::Value {
        let Self { west, south, east, north } = *self;
        json!({"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north],
            [west, south]]]})
    }

    pub(super) fn is_valid(&self) -> bool {
        -180.0 <= self.west
            && self.west < self.east
            && self.east <= 180.0
            && -90.0 <= self.south
            && self.south < self.north
            && self.north <= 90.0
    }
}

/// `WEST,SOUTH,EAST,NORTH`.
impl FromStr for BoundingBox {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        let numbers: Vec<f64> = text
            .split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| FleetError::Spread)?;
        let [west, south, east, north] = numbers[..] else { return Err(FleetError::Spread) };
        let bounds = Self { west, south, east, north };
        if bounds.is_valid() { Ok(bounds) } else { Err(FleetError::Spread) }
    }
}

/// Corners of a child's area.
const CORNERS: usize = 6;

/// The area of child `index` of `agents`: a hexagon inside its own cell of a grid over the box, so that no two
/// touch. Its place and size within the cell follow from the seed.
pub fn area_of(index: usize, agents: usize, seed: u64, bounds: &BoundingBox) -> Box<RawValue> {
    let columns = (agents as f64).sqrt().ceil().max(1.0);
    let rows = (agents as f64 / columns).ceil().max(1.0);
    let (width, height) = ((bounds.east - bounds.west) / columns, (bounds.north - bounds.south) / rows);
    let column = index as f64 % columns;
    let row = (index as f64 / columns).floor();
    let mut rng = StdRng::seed_from_u64(seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // Radius and shift add up to less than half a cell.
    let radius = rng.random_range(0.2..0.3);
    let x = bounds.west + (column + 0.5 + rng.random_range(-0.15..0.15)) * width;
    let y = bounds.south + (row + 0.5 + rng.random_range(-0.15..0.15)) * height;
    let mut ring: Vec<[f64; 2]> = (0..CORNERS)
        .map(|corner| {
            // Counter-clockwise, as RFC 7946 wants an outer ring.
            let angle = corner as f64 / CORNERS as f64 * std::f64::consts::TAU;
            [x + radius * width * angle.cos(), y + radius * height * angle.sin()]
        })
        .collect();
    ring.push(ring[0]);
    let polygon = json!({"type": "Polygon", "coordinates": [ring]}).to_string();
    RawValue::from_string(polygon).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
