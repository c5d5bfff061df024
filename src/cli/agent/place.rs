//! A point for an agent that has no better area.

use crate::cli::settings::value::Parsed;

/// Half the side of the square around a point, in degrees: some 550 metres of latitude.
const HALF_SIDE: f64 = 0.005;

/// A latitude and a longitude, in degrees.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    latitude: f64,
    longitude: f64,
}

/// No part is ever not a number.
impl Eq for Place {}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        let bits = |place: &Self| [place.latitude.to_bits(), place.longitude.to_bits()];
        bits(self) == bits(other)
    }
}

impl Place {
    /// `52.52,13.405`.
    fn read(text: &str) -> Option<Self> {
        let (latitude, longitude) = text.split_once(',')?;
        let read =
            |text: &str, most: f64| text.trim().parse().ok().filter(|degrees: &f64| degrees.abs() <= most);
        Some(Self { latitude: read(latitude, 90.0 - HALF_SIDE)?, longitude: read(longitude, 180.0)? })
    }

    /// A square around it, as GeoJSON.
    pub fn area(self) -> String {
        let (south, north) = (self.latitude - HALF_SIDE, self.latitude + HALF_SIDE);
        let (west, east) = (self.longitude - HALF_SIDE, self.longitude + HALF_SIDE);
        // So many places are a tenth of a metre, and hide what binary fractions add.
        let corners = [(west, south), (east, south), (east, north), (west, north), (west, south)];
        let ring: Vec<String> = corners.iter().map(|(x, y)| format!("[{x:.6},{y:.6}]")).collect();
        format!(r#"{{"type":"Polygon","coordinates":[[{}]]}}"#, ring.join(","))
    }
}

/// An empty text unsets it again.
impl Parsed for Option<Place> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = if text.is_empty() {
            None
        } else {
            let wrong = || format!("{text:?} is no latitude and longitude in degrees, as in 52.52,13.405");
            Some(Place::read(text).ok_or_else(wrong)?)
        };
        Ok(())
    }

    fn text(&self) -> String {
        self.map(|place| format!("{},{}", place.latitude, place.longitude)).unwrap_or_default()
    }
}
