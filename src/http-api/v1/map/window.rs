//! The part of the world that a map shows: a rectangle, which may lie across the antimeridian.

use super::rows::{NOWHERE, PER_DEGREE};
use crate::problem::Problem;

/// West, south, east and north in degrees; east is within a turn of west.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
}

/// Everything.
pub const WORLD: Window = Window { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };

impl Window {
    /// `WEST,SOUTH,EAST,NORTH`; nothing is the whole world.
    pub fn read(asked: Option<&str>) -> Result<Self, Problem> {
        let Some(text) = asked.filter(|text| !text.is_empty()) else { return Ok(WORLD) };
        let refused = || {
            Problem::bad_request(
                "`box` is WEST,SOUTH,EAST,NORTH in degrees: longitudes of -540 to 540 with east at most 360 beyond west, \
                 latitudes of -90 to 90",
            )
        };
        let numbers: Vec<f64> = text.split(',').map_while(|part| part.parse().ok()).collect();
        let [west, south, east, north] = numbers[..] else { return Err(refused()) };
        let is_in = |value: f64, most: f64| value.is_finite() && value.abs() <= most;
        let are_in = is_in(west, 540.0) && is_in(east, 540.0) && is_in(south, 90.0) && is_in(north, 90.0);
        let fits =
            are_in && west < east && east - west <= 360.0 && south < north && text.split(',').count() == 4;
        fits.then_some(Self { west, south, east, north }).ok_or_else(refused)
    }

    pub fn width(&self) -> f64 {
        self.east - self.west
    }

    pub fn height(&self) -> f64 {
        self.north - self.south
    }

    /// How far east and north of its south-western corner a position lies, both from 0 to 1; `None`: outside of it.
    pub fn share(&self, x: i32, y: i32) -> Option<(f64, f64)> {
        if x == NOWHERE {
            return None;
        }
        let (east, north) = (f64::from(x) / PER_DEGREE, f64::from(y) / PER_DEGREE);
        let right = (east - self.west).rem_euclid(360.0);
        let up = north - self.south;
        (right <= self.width() && up >= 0.0 && up <= self.height())
            .then(|| (right / self.width(), up / self.height()))
    }

    /// Whether it meets a rectangle that may lie a turn further east or west.
    pub fn meets(&self, west: f64, south: f64, east: f64, north: f64) -> bool {
        let turns = [-720.0, -360.0, 0.0, 360.0, 720.0];
        south <= self.north
            && north >= self.south
            && turns.iter().any(|turn| west + turn <= self.east && east + turn >= self.west)
    }
}
