//! The coordinates of an area that was checked when it came in, without the tree that the general parser of GeoJSON builds.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// Longitude and latitude in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    pub x: f64,
    pub y: f64,
}

/// What of GeoJSON matters, borrowed.
#[derive(Deserialize)]
struct GeoJsonParts<'t> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    coordinates: &'t RawValue,
}

/// The polygons of a `Polygon` or a `MultiPolygon`: each an exterior and its holes. `None` for anything else.
pub fn polygons(text: &str) -> Option<Vec<Vec<Vec<Position>>>> {
    let GeoJsonParts { kind, coordinates } = serde_json::from_str(text).ok()?;
    match kind.as_ref() {
        "Polygon" => Some(vec![serde_json::from_str(coordinates.get()).ok()?]),
        "MultiPolygon" => serde_json::from_str(coordinates.get()).ok(),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;

        impl<'de> de::Visitor<'de> for Numbers {
            type Value = Position;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("longitude and latitude")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut numbers: A) -> Result<Position, A::Error> {
                let mut next = || numbers.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self));
                let (x, y) = (next()?, next()?);
                while numbers.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Position { x, y })
            }
        }

        deserializer.deserialize_seq(Numbers)
    }
}
