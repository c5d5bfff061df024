//! The area that a manager reports: everything that its children's areas cover, in at most so many positions as an area
//! may have.
//!
//! The union of the areas where that is simple enough, else the cells of a grid that they touch, on a grid as fine as
//! the positions allow, and in the end their convex hull or the box around them. Each of these contains every child's
//! area, with a margin that is larger than what the computation may lose.
//!
//! Deliberately not here: the antimeridian. Areas beyond ±180 stay there; the parent's plan tries a turn further.

use std::{collections::BTreeSet, sync::Arc};

use geo::{
    BoundingRect as _, Buffer as _, ConvexHull as _, Coord, Intersects as _, LineString, MultiPoint,
    MultiPolygon, Orient as _, Point, Polygon, Rect,
    algorithm::buffer::{BufferStyle, LineJoin},
    orient::Direction,
    unary_union,
};

use model::area::{self, geojson};

/// The union is computed on a grid of about 360° / 2^30; this many degrees, about 20 cm, are more than it may lose.
const MARGIN_DEGREES: f64 = 2e-6;

/// Positions up to which the union itself is computed: more of them take seconds.
const MAX_UNION_POSITIONS: usize = 20_000;

/// Most positions that are reported, those that close rings among them: no parent refuses so many.
pub const MAX_POSITIONS: usize = 1_000;

/// Cells along each side of the grids that are tried, finest first.
const GRIDS: [usize; 5] = [40, 24, 14, 8, 4];

/// Looks whether a cell meets a polygon, in positions looked at; beyond it the box around the polygon counts.
const MAX_CELL_WORK: usize = 20_000_000;

/// Longest part of an edge in degrees of longitude: an edge over 180° would be understood to go the other way round.
const LONGEST_EDGE_DEGREES: f64 = 90.0;

/// A corner sharper than this many radians is cut off by the margin, not drawn out.
const SHARPEST_CORNER: f64 = 0.5;

/// GeoJSON that contains the areas of all children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// As close as may be: a Polygon or a `MultiPolygon`.
    pub close: Option<String>,
    /// A Polygon, for a parent that understands nothing else.
    pub polygon: Option<String>,
}

/// What is reported for children with these areas; nothing if none has one.
pub fn reported(areas: &[Arc<str>]) -> Reported {
    let texts: BTreeSet<&Arc<str>> = areas.iter().collect();
    let parsed: Vec<(&Arc<str>, MultiPolygon)> =
        texts.into_iter().filter_map(|text| Some((text, area::parse(text).ok()?))).collect();
    if let [(text, only)] = parsed.as_slice()
        && only.0.len() == 1
        && positions(&only.0[0]) <= MAX_POSITIONS
    {
        let text = Some(geojson_as_sent(text, only));
        return Reported { polygon: text.clone(), close: text };
    }
    let polygons: Vec<Polygon> = parsed
        .into_iter()
        .flat_map(|(_, area)| area)
        .map(|polygon| polygon.orient(Direction::Default))
        .collect();
    let Some(bounds) = Bounds::of(&polygons) else { return Reported::default() };
    let polygon = hull(&polygons, &bounds);
    match union(&polygons, &bounds)
        .or_else(|| GRIDS.iter().find_map(|cells| grid(&polygons, &bounds, *cells)))
    {
        Some((close, true)) => Reported { close: Some(close.clone()), polygon: Some(close) },
        Some((close, false)) => Reported { close: Some(close), polygon },
        None => Reported { close: polygon.clone(), polygon },
    }
}

/// A single area is reported as it came, as a Polygon.
fn geojson_as_sent(text: &str, area: &MultiPolygon) -> String {
    if text.contains("MultiPolygon") { geojson(area) } else { text.to_owned() }
}

/// The box around all, and how far a position may lie.
struct Bounds {
    around: Rect,
    /// Nothing lay beyond ±180, and nothing shall.
    within_globe: bool,
}

impl Bounds {
    fn of(polygons: &[Polygon]) -> Option<Self> {
        let mut boxes = polygons.iter().filter_map(Polygon::bounding_rect);
        let first = boxes.next()?;
        let around = boxes.fold(first, |all, one| {
            let (low, high) = (all.min(), all.max());
            Rect::new(
                Coord { x: low.x.min(one.min().x), y: low.y.min(one.min().y) },
                Coord { x: high.x.max(one.max().x), y: high.y.max(one.max().y) },
            )
        });
        Some(Self { around, within_globe: around.min().x >= -180.0 && around.max().x <= 180.0 })
    }

    /// Back into the range of an area; what a margin added beyond it is nowhere.
    fn clamp(&self, at: Coord) -> Coord {
        let farthest = if self.within_globe { 180.0 } else { 360.0 };
        Coord { x: at.x.clamp(-farthest, farthest), y: at.y.clamp(-90.0, 90.0) }
    }

    /// A ring in range, without repetitions and without edges that are too long to be understood.
    fn ring(&self, ring: &LineString) -> LineString {
        let mut out: Vec<Coord> = Vec::with_capacity(ring.0.len());
        for at in ring.coords().map(|at| self.clamp(*at)) {
            let Some(before) = out.last().copied() else {
                out.push(at);
                continue;
            };
            let parts = ((at.x - before.x).abs() / LONGEST_EDGE_DEGREES).ceil().max(1.0);
            for part in 1..parts as usize {
                let share = part as f64 / parts;
                out.push(Coord {
                    x: before.x + (at.x - before.x) * share,
                    y: before.y + (at.y - before.y) * share,
                });
            }
            if at != before {
                out.push(at);
            }
        }
        LineString::new(out)
    }

    /// The text of polygons, and whether they are one; `None` if it is no area that a parent would take.
    fn text(&self, polygons: &MultiPolygon) -> Option<(String, bool)> {
        let positions: usize = polygons.iter().map(positions).sum();
        if positions == 0 || positions > MAX_POSITIONS {
            return None;
        }
        let in_range = polygons.iter().map(|polygon| {
            let holes = polygon.interiors().iter().map(|hole| self.ring(hole)).collect();
            Polygon::new(self.ring(polygon.exterior()), holes)
        });
        let in_range: MultiPolygon = in_range.collect();
        let text = geojson(&in_range);
        area::parse(&text).is_ok().then_some((text, in_range.0.len() == 1))
    }
}

fn positions(polygon: &Polygon) -> usize {
    polygon.exterior().0.len() + polygon.interiors().iter().map(|hole| hole.0.len()).sum::<usize>()
}

/// The union with a margin, without its holes if it would have too many positions with them.
fn union(polygons: &[Polygon], bounds: &Bounds) -> Option<(String, bool)> {
    if polygons.iter().map(positions).sum::<usize>() > MAX_UNION_POSITIONS {
        return None;
    }
    let style = BufferStyle::new(MARGIN_DEGREES).line_join(LineJoin::Miter(SHARPEST_CORNER));
    let union = unary_union(polygons).buffer_with_style(style);
    bounds.text(&union).or_else(|| {
        let filled = union.iter().map(|polygon| Polygon::new(polygon.exterior().clone(), Vec::new()));
        bounds.text(&unary_union(&filled.collect::<Vec<_>>()))
    })
}

/// The cells of a grid that the polygons touch.
fn grid(polygons: &[Polygon], bounds: &Bounds, cells: usize) -> Option<(String, bool)> {
    let (low, size) = (bounds.around.min(), bounds.around);
    let (width, height) = (size.width() / cells as f64, size.height() / cells as f64);
    let index = |at: f64, low: f64, step: f64| (((at - low) / step) as usize).min(cells - 1);
    let cell = |column: usize, row: usize, columns: usize| {
        let at = |column: usize, row: usize| Coord {
            x: low.x + column as f64 * width,
            y: low.y + row as f64 * height,
        };
        grown(at(column, row), at(column + columns, row + 1))
    };
    let mut touched = vec![false; cells * cells];
    let mut work = 0_usize;
    for polygon in polygons {
        let Some(around) = polygon.bounding_rect() else { continue };
        let around = grown(around.min(), around.max());
        let columns = index(around.min().x, low.x, width)..=index(around.max().x, low.x, width);
        let rows = index(around.min().y, low.y, height)..=index(around.max().y, low.y, height);
        let is_small = columns.clone().count() == 1 || rows.clone().count() == 1;
        for row in rows {
            for column in columns.clone() {
                let known = touched[row * cells + column];
                if known || is_small || work > MAX_CELL_WORK {
                    touched[row * cells + column] = true;
                    continue;
                }
                work += positions(polygon);
                touched[row * cells + column] = cell(column, row, 1).intersects(polygon);
            }
        }
    }
    let mut runs: Vec<Polygon> = Vec::new();
    for row in 0..cells {
        let mut column = 0;
        while column < cells {
            let length =
                touched[row * cells + column..(row + 1) * cells].iter().take_while(|is| **is).count();
            if length > 0 {
                runs.push(cell(column, row, length).to_polygon().orient(Direction::Default));
            }
            column += length.max(1);
        }
    }
    bounds.text(&unary_union(&runs))
}

/// A box with the margin around it.
fn grown(low: Coord, high: Coord) -> Rect {
    let margin = Coord { x: MARGIN_DEGREES, y: MARGIN_DEGREES };
    Rect::new(low - margin, high + margin)
}

/// The convex hull with the margin; where that has too many positions, the box.
fn hull(polygons: &[Polygon], bounds: &Bounds) -> Option<String> {
    let corners = |at: &Coord| grown(*at, *at).to_polygon().exterior().clone().into_points();
    let points: Vec<Point> =
        polygons.iter().flat_map(|polygon| polygon.exterior().coords().flat_map(corners)).collect();
    let hull = MultiPoint::new(points).convex_hull();
    let around = || grown(bounds.around.min(), bounds.around.max()).to_polygon();
    let hull = bounds.text(&MultiPolygon::new(vec![hull]));
    hull.or_else(|| bounds.text(&MultiPolygon::new(vec![around()]))).map(|(text, _)| text)
}
