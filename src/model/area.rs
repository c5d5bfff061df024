//! The area that a child is responsible for, as GeoJSON.
//!
//! Planar, as RFC 7946 has it: longitude and latitude in degrees. Across the antimeridian an area is two polygons,
//! or has longitudes beyond ±180. Rings that cross themselves are refused, and so is an edge over 180° long, which
//! is almost always a forgotten antimeridian; only the edge along the whole globe, with both ends on ±180, is meant.

use geo::{
    BoundingRect, Coord, CoordsIter as _, Intersects as _, LineString, MapCoords as _, MultiPolygon, Polygon,
    Rect, Relate as _, RemoveRepeatedPoints as _, Validation, coordinate_position::CoordPos,
    dimensions::Dimensions,
};
use geojson::{GeoJson, GeometryValue, Position};

use super::{ring::is_simple, text};

/// Most vertices that an area may have. The position that closes a ring is none.
pub const MAX_VERTICES: usize = 1_000;

/// Longest GeoJSON of an area, in bytes.
pub const MAX_AREA_BYTES: usize = 128 * 1024;

/// Highest absolute value of a longitude: one turn beyond ±180, for areas across the antimeridian.
pub const MAX_LONGITUDE: f64 = 540.0;

/// Highest absolute value of a latitude.
pub const MAX_LATITUDE: f64 = 90.0;

/// Longest difference of longitudes along one edge, in degrees.
const MAX_EDGE_DEGREES: f64 = 180.0;

/// How far a union moves a corner at most, of the width or height of all: it is made on a grid of 2^30 places a side.
const UNION_SHIFT: f64 = 4e-9;

/// Why a GeoJSON is not an area.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AreaError {
    #[error("the area has {0} bytes, at most {MAX_AREA_BYTES} are accepted")]
    TooLong(usize),
    #[error("the area is not GeoJSON: {0}")]
    NotGeoJson(String),
    #[error("an area is a Polygon or a MultiPolygon, not a {0}")]
    Kind(&'static str),
    #[error("the area is empty")]
    Empty,
    #[error("the area has {found} vertices, at most {max} are accepted")]
    TooManyVertices { found: usize, max: usize },
    #[error("a position has {0} numbers, longitude and latitude are needed")]
    Position(usize),
    #[error("longitude {0} is out of range")]
    Longitude(f64),
    #[error("latitude {0} is out of range")]
    Latitude(f64),
    #[error("a ring has {0} positions, at least 4 are needed")]
    ShortRing(usize),
    #[error("a ring does not end where it begins")]
    OpenRing,
    #[error(
        "an edge spans {0}° of longitude: across the antimeridian use two polygons or longitudes beyond ±180"
    )]
    LongEdge(f64),
    #[error("the area is not valid: {0}")]
    Invalid(String),
}

/// Reads and checks an area.
pub fn parse(text: &str) -> Result<MultiPolygon, AreaError> {
    if text.len() > MAX_AREA_BYTES {
        return Err(AreaError::TooLong(text.len()));
    }
    let parsed: GeoJson = text.parse().map_err(|e: geojson::Error| AreaError::NotGeoJson(one_line(&e)))?;
    let GeoJson::Geometry(geometry) = parsed else {
        return Err(AreaError::Kind(match parsed {
            GeoJson::Feature(_) => "Feature",
            _ => "FeatureCollection",
        }));
    };
    let polygons = polygons_of(geometry.value)?;
    let found: usize = polygons.iter().flatten().map(|ring| ring.len().saturating_sub(1)).sum();
    if found > MAX_VERTICES {
        return Err(AreaError::TooManyVertices { found, max: MAX_VERTICES });
    }
    let polygons = polygons.iter().map(|rings| polygon(rings)).collect::<Result<Vec<_>, _>>()?;
    if polygons.is_empty() {
        return Err(AreaError::Empty);
    }
    let area = MultiPolygon::new(polygons);
    check_shape(&area)?;
    Ok(area)
}

/// Reads the area of a file, which may also be a Feature or a `FeatureCollection`: their polygons together. Answers them
/// as the text of a Polygon or a `MultiPolygon`.
pub fn read_file(text: &str) -> Result<String, AreaError> {
    if text.len() > MAX_AREA_BYTES {
        return Err(AreaError::TooLong(text.len()));
    }
    let parsed: GeoJson = text.parse().map_err(|e: geojson::Error| AreaError::NotGeoJson(one_line(&e)))?;
    let mut polygons = Vec::new();
    match parsed {
        GeoJson::Geometry(geometry) => polygons.extend(polygons_of(geometry.value)?),
        GeoJson::Feature(feature) => polygons.extend(polygons_of_feature(feature)?),
        GeoJson::FeatureCollection(collection) => {
            for feature in collection.features {
                polygons.extend(polygons_of_feature(feature)?);
            }
        }
    }
    let polygons = polygons.iter().map(|rings| polygon(rings)).collect::<Result<Vec<_>, _>>()?;
    for polygon in &polygons {
        check_polygon(polygon)?;
    }
    // Features may overlap; an area may not.
    let whole = MultiPolygon::new(polygons);
    let whole = if check_shape(&whole).is_ok() { whole } else { united(&whole) };
    let text = geojson(&whole);
    parse(&text).map(|_| text)
}

/// Polygons that overlap, as an area. A union moves corners a little: those that were there are put back, so that whoever lies just beside
/// them is not in the area. Places where borders cross are new corners, good to [`UNION_SHIFT`].
fn united(polygons: &MultiPolygon) -> MultiPolygon {
    let Some(around) = polygons.bounding_rect() else { return polygons.clone() };
    let most = around.width().max(around.height()) * UNION_SHIFT;
    let given: Vec<Coord> = polygons.coords_iter().collect();
    let back = |at: Coord| {
        let distance = |other: &Coord| (other.x - at.x).abs().max((other.y - at.y).abs());
        let nearest = given.iter().min_by(|one, two| distance(one).total_cmp(&distance(two)));
        nearest.copied().filter(|given| distance(given) <= most).unwrap_or(at)
    };
    geo::unary_union(polygons).map_coords(back)
}

fn polygons_of_feature(feature: geojson::Feature) -> Result<Vec<Rings>, AreaError> {
    feature.geometry.map_or(Ok(Vec::new()), |geometry| polygons_of(geometry.value))
}

type Rings = Vec<Vec<Position>>;

fn polygons_of(geometry: GeometryValue) -> Result<Vec<Rings>, AreaError> {
    match geometry {
        GeometryValue::Polygon { coordinates } => Ok(vec![coordinates]),
        GeometryValue::MultiPolygon { coordinates } => Ok(coordinates),
        other => Err(AreaError::Kind(other.type_name())),
    }
}

/// An area as GeoJSON: a Polygon where it is one.
pub fn geojson(area: &MultiPolygon) -> String {
    let ring = |ring: &LineString| ring.coords().map(|at| [at.x, at.y]).collect::<Vec<_>>();
    let polygon = |polygon: &Polygon| {
        let holes = polygon.interiors().iter().map(ring);
        std::iter::once(ring(polygon.exterior())).chain(holes).collect::<Vec<_>>()
    };
    let mut polygons: Vec<_> = area.iter().map(polygon).collect();
    match (polygons.len(), polygons.pop()) {
        (1, Some(only)) => serde_json::json!({"type": "Polygon", "coordinates": only}).to_string(),
        (_, last) => {
            polygons.extend(last);
            serde_json::json!({"type": "MultiPolygon", "coordinates": polygons}).to_string()
        }
    }
}

/// Refuses rings that cross themselves or each other, holes outside, polygons that overlap. Polygons may share edges, as fields of a map
/// do: to make them one would move their corners.
pub fn check_shape(area: &MultiPolygon) -> Result<(), AreaError> {
    area.iter().try_for_each(check_polygon)?;
    let boxes: Vec<Option<Rect>> = area.iter().map(BoundingRect::bounding_rect).collect();
    let pairs = (0..area.0.len()).flat_map(|one| (one + 1..area.0.len()).map(move |two| (one, two)));
    // What lies in boxes apart from each other can't meet, and of most pairs that is all that has to be known.
    let near = |(one, two): &(usize, usize)| match (&boxes[*one], &boxes[*two]) {
        (Some(one), Some(two)) => one.intersects(two),
        _ => false,
    };
    let overlap = |(one, two): &(usize, usize)| {
        let how = area.0[*one].relate(&area.0[*two]);
        how.get(CoordPos::Inside, CoordPos::Inside) == Dimensions::TwoDimensional
    };
    let found = pairs.filter(near).find(overlap);
    found.map_or(Ok(()), |(one, two)| Err(AreaError::Invalid(format!("polygons {one} and {two} overlap"))))
}

/// Refuses a polygon that is not valid, and says why.
pub fn check_polygon(polygon: &Polygon) -> Result<(), AreaError> {
    if !is_simple(polygon.exterior()) {
        return Err(AreaError::Invalid("a ring crosses itself".to_owned()));
    }
    if !polygon.interiors().is_empty() {
        // Holes are rare: here the general check is good enough.
        return polygon.check_validation().map_err(|error| AreaError::Invalid(one_line(&error)));
    }
    if polygon.exterior().remove_repeated_points().0.len() < 4 {
        return Err(AreaError::Invalid("a ring has fewer than 3 distinct positions".to_owned()));
    }
    Ok(())
}

fn polygon(rings: &[Vec<Position>]) -> Result<Polygon, AreaError> {
    let mut rings = rings.iter().map(|ring| line(ring)).collect::<Result<Vec<_>, _>>()?.into_iter();
    let exterior = rings.next().ok_or(AreaError::Empty)?;
    Ok(Polygon::new(exterior, rings.collect()))
}

fn line(ring: &[Position]) -> Result<LineString, AreaError> {
    ring_of(ring.iter().map(|position| coord(position.as_slice())).collect::<Result<Vec<_>, _>>()?)
}

/// A ring of positions that are in range each, if it is closed and each of its edges is meant.
#[expect(clippy::float_cmp, reason = "a ring ends with the very position it begins with")]
pub fn ring_of(coords: Vec<Coord>) -> Result<LineString, AreaError> {
    if coords.len() < 4 {
        return Err(AreaError::ShortRing(coords.len()));
    }
    if coords.first() != coords.last() {
        return Err(AreaError::OpenRing);
    }
    for edge in coords.windows(2) {
        let span = (edge[0].x - edge[1].x).abs();
        let whole_globe = edge.iter().all(|end| end.x.abs() == 180.0);
        if span > MAX_EDGE_DEGREES && !whole_globe {
            return Err(AreaError::LongEdge(span));
        }
    }
    Ok(LineString::new(coords))
}

/// A position in range; what follows longitude and latitude says nothing here.
pub fn coord(position: &[f64]) -> Result<Coord, AreaError> {
    let [x, y, ..] = *position else { return Err(AreaError::Position(position.len())) };
    // JSON has no NaN, and infinities are out of range.
    if x.abs() > MAX_LONGITUDE {
        return Err(AreaError::Longitude(x));
    }
    if y.abs() > MAX_LATITUDE {
        return Err(AreaError::Latitude(y));
    }
    Ok(Coord { x, y })
}

/// Longest reason that another library gives, in characters.
const MAX_REASON_CHARS: usize = 200;

fn one_line(error: &impl std::fmt::Display) -> String {
    text::one_line(&error.to_string()).chars().take(MAX_REASON_CHARS).collect()
}
