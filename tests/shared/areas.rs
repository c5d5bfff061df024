//! Areas of children.

/// A rectangle as GeoJSON.
pub fn rectangle(west: f64, south: f64, east: f64, north: f64) -> String {
    format!(
        r#"{{"type":"Polygon","coordinates":[[[{west},{south}],[{east},{south}],[{east},{north}],[{west},{north}],[{west},{south}]]]}}"#
    )
}
