//! A target, prepared so that most children are placed by their bounding box alone.
//!
//! A grid lies over the target's bounding box. An edge marks every cell that it touches; each other cell is wholly
//! inside or wholly outside. A table of sums tells in four look-ups whether a rectangle touches any marked cell: if
//! not, all of it is where its first cell is. Only where a marked cell's edges really reach into the rectangle is
//! the child's polygon looked at.

use geo::{Area as _, BooleanOps as _, MultiPolygon};

use super::{
    edges::{Edges, Point, Segment, Where, interiors_meet, locate},
    shape::{Bounds, Shape},
};
use model::steps;

/// Fewest and most cells along a side of the grid.
const CELLS: std::ops::RangeInclusive<usize> = 16..=512;

/// Cells of slack around an edge, for the rounding of the places at which it passes from row to row.
const SLACK: f64 = 1e-6;

/// Turns around the globe that an area may lie away from another that is the same place: longitudes go to ±540.
const TURNS: std::ops::RangeInclusive<i32> = -3..=3;

/// How a rectangle or an area lies to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// Wholly inside.
    Inside,
    /// Its inside and the target's share something, but not necessarily all.
    Partly,
    Outside,
}

/// A target's area, prepared.
#[derive(Debug)]
pub struct Cover {
    layers: Vec<Layer>,
    polygons: MultiPolygon,
}

impl Cover {
    /// Prepares an area for about `children` children whose areas all lie within `bounds`. The polygons may overlap.
    pub fn new(area: &MultiPolygon, bounds: &Bounds, children: usize) -> Self {
        let side = (children as f64).sqrt() as usize;
        let side = side.clamp(*CELLS.start(), *CELLS.end());
        let layers = layers(area);
        let layers = TURNS
            .flat_map(|turns| layers.iter().map(move |layer| (layer, f64::from(turns) * 360.0)))
            .filter_map(|(polygons, shift)| {
                let mut shape = Shape::empty();
                for at in polygons {
                    shape.add(&area.0[*at], shift);
                }
                shape.bounds().overlaps(bounds).then(|| Layer::new(&shape, side))
            })
            .collect();
        Self { layers, polygons: area.clone() }
    }

    /// Prepares an area for children wherever they are.
    pub fn anywhere(area: &MultiPolygon) -> Self {
        let all = Bounds { min: Point { x: -540.0, y: -90.0 }, max: Point { x: 540.0, y: 90.0 } };
        Self::new(area, &all, 0)
    }

    /// How a child lies to the target whose bounding box is `bounds`, or a bit less; `shape` gives its polygons where
    /// the box alone doesn't tell.
    pub fn place(&self, bounds: &Bounds, mut shape: impl FnMut() -> Option<Shape>) -> Lies {
        let mut read: Option<Option<Shape>> = None;
        let mut found = Lies::Outside;
        for layer in &self.layers {
            match layer.place_box(bounds) {
                Lies::Inside => return Lies::Inside,
                Lies::Outside => {}
                Lies::Partly => {
                    let shape = read.get_or_insert_with(&mut shape);
                    if found == Lies::Outside
                        && shape.as_ref().is_some_and(|shape| interiors_meet(shape, layer))
                    {
                        found = Lies::Partly;
                    }
                }
            }
        }
        found
    }

    pub fn place_shape(&self, shape: &Shape) -> Lies {
        self.place(shape.bounds(), || Some(shape.clone()))
    }

    /// The part of an area that lies in the target, where the area lies: what a child manager is to plan for. Clipping
    /// snaps to a fine grid, so this is good to a millionth; it must not decide who takes part.
    pub fn clip(&self, shape: &Shape) -> MultiPolygon {
        let child = shape.polygons();
        let mut clipped = MultiPolygon::new(Vec::new());
        for layer in self.layers.iter().filter(|layer| layer.bounds.overlaps(shape.bounds())) {
            let common = child.intersection(&layer.polygons);
            clipped = if clipped.0.is_empty() { common } else { clipped.union(&common) };
        }
        clipped
    }

    /// How many square kilometres of an area lie in the target, as good as [`Self::clip`].
    pub fn km2_of(&self, shape: &Shape) -> f64 {
        let clipped = self.clip(shape);
        if clipped.unsigned_area() > 0.0 { Shape::of(&clipped).km2() } else { 0.0 }
    }

    /// Size of the target itself in square kilometres, overlaps counted once.
    pub fn km2(&self) -> f64 {
        match self.polygons.0.as_slice() {
            [_] => Shape::of(&self.polygons).km2(),
            polygons => Shape::of(&geo::unary_union(polygons)).km2(),
        }
    }
}

/// Polygons by layer, so that within a layer no interiors overlap.
fn layers(area: &MultiPolygon) -> Vec<Vec<usize>> {
    let shapes: Vec<Shape> = area.iter().map(|p| Shape::of(&MultiPolygon::new(vec![p.clone()]))).collect();
    let mut layers: Vec<Vec<usize>> = Vec::new();
    for (at, shape) in shapes.iter().enumerate() {
        let free = |layer: &&mut Vec<usize>| {
            layer.iter().all(|other| {
                let other = &shapes[*other];
                !shape.bounds().overlaps(other.bounds()) || !interiors_meet(shape, other)
            })
        };
        match layers.iter_mut().find(free) {
            Some(layer) => layer.push(at),
            None => layers.push(vec![at]),
        }
    }
    layers
}

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Outside,
    Inside,
    Border,
}

/// Polygons without common interiors, under a grid.
#[derive(Debug)]
struct Layer {
    bounds: Bounds,
    polygons: MultiPolygon,
    side: usize,
    /// Cells a degree.
    scale: Point,
    cells: Vec<Cell>,
    /// Border cells in the rectangle from the first cell to before each corner, `(side + 1)²` of them.
    borders: Vec<u32>,
    edges: Vec<Segment>,
    by_cell: Lists,
    by_row: Lists,
}

/// Lists of numbers of edges, packed.
#[derive(Debug)]
struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// From pairs of list and item.
    fn new(lists: usize, pairs: &[(u32, u32)]) -> Self {
        let mut ends = vec![0; lists + 1];
        for (list, _) in pairs {
            ends[*list as usize + 1] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut next = ends.clone();
        let mut items = vec![0; pairs.len()];
        for (list, item) in pairs {
            let place = &mut next[*list as usize];
            items[*place as usize] = *item;
            *place += 1;
        }
        Self { ends, items }
    }

    fn of(&self, list: usize) -> &[u32] {
        &self.items[self.ends[list] as usize..self.ends[list + 1] as usize]
    }
}

impl Layer {
    fn new(shape: &Shape, side: usize) -> Self {
        let bounds = *shape.bounds();
        let cells_a_degree = |from: f64, to: f64| if to > from { side as f64 / (to - from) } else { 1.0 };
        let scale = Point {
            x: cells_a_degree(bounds.min.x, bounds.max.x),
            y: cells_a_degree(bounds.min.y, bounds.max.y),
        };
        steps::take(shape.points().len());
        let mut layer = Self {
            bounds,
            polygons: shape.polygons(),
            side,
            scale,
            cells: vec![Cell::Outside; side * side],
            borders: vec![0; (side + 1) * (side + 1)],
            edges: shape.segments().collect(),
            by_cell: Lists::new(0, &[]),
            by_row: Lists::new(0, &[]),
        };
        layer.mark();
        layer.fill();
        layer.sum();
        layer
    }

    /// Which cell along an axis; monotone, so that what lies between two places is between their cells.
    fn cell(&self, offset: f64, scale: f64) -> usize {
        // Below zero becomes zero.
        ((offset * scale) as usize).min(self.side - 1)
    }

    fn column(&self, x: f64) -> usize {
        self.cell(x - self.bounds.min.x, self.scale.x)
    }

    fn row(&self, y: f64) -> usize {
        self.cell(y - self.bounds.min.y, self.scale.y)
    }

    /// Enters each edge in the cells that it touches.
    fn mark(&mut self) {
        let (mut in_cells, mut in_rows) = (Vec::new(), Vec::new());
        for (number, edge) in self.edges.iter().enumerate() {
            let number = number as u32;
            // In units of cells, upwards.
            let place = |p: Point| {
                ((p.x - self.bounds.min.x) * self.scale.x, (p.y - self.bounds.min.y) * self.scale.y)
            };
            let (mut low, mut high) = (place(edge.from), place(edge.to));
            if low.1 > high.1 {
                std::mem::swap(&mut low, &mut high);
            }
            let last = self.side - 1;
            let clamp = |at: f64| (at.max(0.0) as usize).min(last);
            for row in clamp(low.1 - SLACK)..=clamp(high.1 + SLACK) {
                in_rows.push((row as u32, number));
                // The part of the edge within this row.
                let at = |y: f64| {
                    let share =
                        if high.1 > low.1 { ((y - low.1) / (high.1 - low.1)).clamp(0.0, 1.0) } else { 0.0 };
                    low.0 + (high.0 - low.0) * share
                };
                let (bottom, top) = (row as f64 - SLACK, row as f64 + 1.0 + SLACK);
                let level = high.1 - low.1 <= SLACK;
                let (a, b) = if level { (low.0, high.0) } else { (at(bottom), at(top)) };
                for column in clamp(a.min(b) - SLACK)..=clamp(a.max(b) + SLACK) {
                    let cell = row * self.side + column;
                    self.cells[cell] = Cell::Border;
                    in_cells.push((cell as u32, number));
                }
            }
        }
        self.by_cell = Lists::new(self.side * self.side, &in_cells);
        self.by_row = Lists::new(self.side, &in_rows);
    }

    /// Tells inside from outside: each run of cells between border cells is one or the other.
    fn fill(&mut self) {
        for row in 0..self.side {
            let mut run: Option<Cell> = None;
            for column in 0..self.side {
                let at = row * self.side + column;
                if self.cells[at] == Cell::Border {
                    run = None;
                    continue;
                }
                let kind = *run.get_or_insert_with(|| {
                    let middle = Point {
                        x: self.bounds.min.x + (column as f64 + 0.5) / self.scale.x,
                        y: self.bounds.min.y + (row as f64 + 0.5) / self.scale.y,
                    };
                    let edges = self.by_row.of(row).iter().map(|edge| self.edges[*edge as usize]);
                    if locate(middle, edges) == Where::Inside { Cell::Inside } else { Cell::Outside }
                });
                self.cells[at] = kind;
            }
        }
    }

    fn sum(&mut self) {
        let width = self.side + 1;
        for row in 0..self.side {
            let mut in_row = 0;
            for column in 0..self.side {
                in_row += u32::from(self.cells[row * self.side + column] == Cell::Border);
                self.borders[(row + 1) * width + column + 1] =
                    self.borders[row * width + column + 1] + in_row;
            }
        }
    }

    /// How a rectangle lies; `Partly` if an edge reaches into it.
    fn place_box(&self, bounds: &Bounds) -> Lies {
        if !self.bounds.overlaps(bounds) {
            return Lies::Outside;
        }
        let (left, right) = (self.column(bounds.min.x), self.column(bounds.max.x));
        let (low, high) = (self.row(bounds.min.y), self.row(bounds.max.y));
        let width = self.side + 1;
        let corner = |row: usize, column: usize| self.borders[row * width + column];
        let borders =
            corner(high + 1, right + 1) + corner(low, left) - corner(low, right + 1) - corner(high + 1, left);
        let first = self.cells[low * self.side + left];
        if borders == 0 {
            return if first == Cell::Inside { Lies::Inside } else { Lies::Outside };
        }
        if self.near(bounds, &mut |edge| reaches_into(&edge, bounds)) {
            return Lies::Partly;
        }
        // No edge comes near: all of it is where its corner is.
        if self.place(bounds.min) == Where::Inside { Lies::Inside } else { Lies::Outside }
    }
}

impl Edges for Layer {
    fn near(&self, bounds: &Bounds, each: &mut dyn FnMut(Segment) -> bool) -> bool {
        if !self.bounds.touches(bounds) {
            return false;
        }
        let columns = self.column(bounds.min.x)..=self.column(bounds.max.x);
        (self.row(bounds.min.y)..=self.row(bounds.max.y)).any(|row| {
            columns.clone().any(|column| {
                let edges = self.by_cell.of(row * self.side + column);
                edges.iter().any(|edge| each(self.edges[*edge as usize]))
            })
        })
    }

    fn place(&self, point: Point) -> Where {
        if !self.bounds.touches(&Bounds { min: point, max: point }) {
            return Where::Outside;
        }
        let row = self.row(point.y);
        match self.cells[row * self.side + self.column(point.x)] {
            Cell::Inside => Where::Inside,
            Cell::Outside => Where::Outside,
            Cell::Border => locate(point, self.by_row.of(row).iter().map(|edge| self.edges[*edge as usize])),
        }
    }
}

/// Whether an edge may have a point in common with a rectangle; false only if it surely has none.
fn reaches_into(edge: &Segment, bounds: &Bounds) -> bool {
    if !edge.bounds().touches(bounds) {
        return false;
    }
    // On which side of the line the corners lie; a sum that is near zero for its terms decides nothing.
    let (dx, dy) = (edge.to.x - edge.from.x, edge.to.y - edge.from.y);
    let sides = [
        (bounds.min.x, bounds.min.y),
        (bounds.max.x, bounds.min.y),
        (bounds.min.x, bounds.max.y),
        (bounds.max.x, bounds.max.y),
    ]
    .map(|(x, y)| {
        let (a, b) = (dx * (y - edge.from.y), dy * (x - edge.from.x));
        let side = a - b;
        if side.abs() <= (a.abs() + b.abs()) * 1e-12 { 0.0 } else { side }
    });
    !(sides.iter().all(|side| *side > 0.0) || sides.iter().all(|side| *side < 0.0))
}
