//! An area as the planner needs it: oriented rings, their bounds, their size on the globe.

use geo::{Coord, LineString, MultiPolygon, Polygon};

use super::edges::{Edges, Point, Segment, Where, locate};
use model::{
    area,
    coordinates::{self, Position},
};

/// Radius of the sphere with the surface of the WGS 84 ellipsoid (its authalic radius), in kilometres. Areas on it
/// differ from those on the ellipsoid by at most 0.7 %.
const EARTH_RADIUS_KM: f64 = 6_371.007_2;

/// A rectangle; empty until something is put in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub min: Point,
    pub max: Point,
}

impl Bounds {
    pub const EMPTY: Self = Self {
        min: Point { x: f64::INFINITY, y: f64::INFINITY },
        max: Point { x: f64::NEG_INFINITY, y: f64::NEG_INFINITY },
    };

    pub fn of(points: impl IntoIterator<Item = Point>) -> Self {
        let mut bounds = Self::EMPTY;
        points.into_iter().for_each(|point| bounds.take(point));
        bounds
    }

    pub fn take(&mut self, point: Point) {
        self.min = Point { x: self.min.x.min(point.x), y: self.min.y.min(point.y) };
        self.max = Point { x: self.max.x.max(point.x), y: self.max.y.max(point.y) };
    }

    /// Whether they share more than an edge.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min.x < other.max.x
            && other.min.x < self.max.x
            && self.min.y < other.max.y
            && other.min.y < self.max.y
    }

    /// Whether they share at least a point.
    pub fn touches(&self, other: &Self) -> bool {
        self.min.x <= other.max.x
            && other.min.x <= self.max.x
            && self.min.y <= other.max.y
            && other.min.y <= self.max.y
    }
}

/// What encloses less than this part of the box around it encloses nothing.
const FLAT: f64 = 1e-12;

/// Polygons whose interiors don't overlap. Exteriors run counter-clockwise and holes clockwise, so that the inside is
/// always on the left of an edge.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The rings one after the other, each closed.
    points: Vec<Point>,
    /// Where each ring ends in `points`, and whether it is an exterior.
    rings: Vec<(usize, bool)>,
    bounds: Bounds,
}

impl Shape {
    /// Reads an area that was checked when it came in; `None` for anything else.
    pub fn read(text: &str) -> Option<Self> {
        quick(text).or_else(|| area::parse(text).ok().map(|area| Self::of(&area)))
    }

    pub fn of(polygons: &MultiPolygon) -> Self {
        let mut shape = Self::empty();
        polygons.iter().for_each(|polygon| shape.add(polygon, 0.0));
        shape
    }

    pub(super) fn empty() -> Self {
        Self { points: Vec::new(), rings: Vec::new(), bounds: Bounds::EMPTY }
    }

    /// Adds a polygon, moved east by `shift` degrees.
    pub(super) fn add(&mut self, polygon: &Polygon, shift: f64) {
        let points = |ring: &LineString| -> Vec<Point> {
            ring.coords().map(|c| Point { x: c.x + shift, y: c.y }).collect()
        };
        self.ring(points(polygon.exterior()), true);
        for hole in polygon.interiors() {
            self.ring(points(hole), false);
        }
    }

    fn ring(&mut self, mut ring: Vec<Point>, exterior: bool) {
        if (signed_area(&ring) > 0.0) != exterior {
            ring.reverse();
        }
        if exterior {
            for point in &ring {
                self.bounds.take(*point);
            }
        }
        self.points.append(&mut ring);
        self.rings.push((self.points.len(), exterior));
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    fn rings(&self) -> impl Iterator<Item = (&[Point], bool)> {
        let mut from = 0;
        self.rings.iter().map(move |(end, exterior)| {
            let ring = &self.points[from..*end];
            from = *end;
            (ring, *exterior)
        })
    }

    /// The outlines of its polygons.
    pub fn exteriors(&self) -> impl Iterator<Item = &[Point]> {
        self.rings().filter(|(_, exterior)| *exterior).map(|(ring, _)| ring)
    }

    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.rings().flat_map(|(ring, _)| ring.windows(2).map(|pair| Segment { from: pair[0], to: pair[1] }))
    }

    /// Size on the globe in square kilometres.
    ///
    /// The integral of sin φ dλ around each ring, times the radius squared (Green's theorem on the sphere). Edges are
    /// straight in longitude and latitude (RFC 7946), so the mean of sin φ along one is exactly
    /// sin((φ₁+φ₂)/2) · sin(δ)/δ with δ = (φ₂-φ₁)/2.
    pub fn km2(&self) -> f64 {
        let around: f64 = self
            .segments()
            .map(|Segment { from, to }| {
                let half = (to.y - from.y).to_radians() / 2.0;
                let shrink = if half.abs() < 1e-9 { 1.0 } else { half.sin() / half };
                let mean_sine = ((to.y + from.y).to_radians() / 2.0).sin() * shrink;
                (to.x - from.x).to_radians() * mean_sine
            })
            .sum();
        // Counter-clockwise rings count what lies between them and the equator negatively.
        (-around * EARTH_RADIUS_KM * EARTH_RADIUS_KM).max(0.0)
    }

    /// Whether it encloses nothing, but for what rounding makes of a line there and back.
    pub fn is_flat(&self) -> bool {
        let twice: f64 = self.rings().map(|(ring, _)| signed_area(ring)).sum();
        let Bounds { min, max } = self.bounds;
        twice.abs() <= FLAT * (max.x - min.x) * (max.y - min.y)
    }

    pub fn polygons(&self) -> MultiPolygon {
        let mut polygons: Vec<Polygon> = Vec::new();
        for (ring, exterior) in self.rings() {
            let line: LineString =
                ring.iter().map(|point| Coord { x: point.x, y: point.y }).collect::<Vec<_>>().into();
            match polygons.last_mut() {
                Some(last) if !exterior => last.interiors_push(line),
                _ => polygons.push(Polygon::new(line, Vec::new())),
            }
        }
        MultiPolygon::new(polygons)
    }
}

impl Edges for Shape {
    fn near(&self, bounds: &Bounds, each: &mut dyn FnMut(Segment) -> bool) -> bool {
        self.segments().filter(|segment| segment.bounds().touches(bounds)).any(each)
    }

    fn place(&self, point: Point) -> Where {
        locate(point, self.segments())
    }
}

/// Twice the area of a ring in the plane; positive where it runs counter-clockwise.
fn signed_area(ring: &[Point]) -> f64 {
    let Some(origin) = ring.first() else { return 0.0 };
    let relative = |p: &Point| (p.x - origin.x, p.y - origin.y);
    ring.windows(2)
        .map(|pair| {
            let ((ax, ay), (bx, by)) = (relative(&pair[0]), relative(&pair[1]));
            ax * by - bx * ay
        })
        .sum()
}

/// Much quicker than [`area::parse`].
fn quick(text: &str) -> Option<Shape> {
    let mut shape = Shape::empty();
    for rings in coordinates::polygons(text)? {
        for (place, ring) in rings.into_iter().enumerate() {
            shape.ring(ring.into_iter().map(Point::from).collect(), place == 0);
        }
    }
    (!shape.points.is_empty()).then_some(shape)
}

impl From<Position> for Point {
    fn from(Position { x, y }: Position) -> Self {
        Self { x, y }
    }
}
