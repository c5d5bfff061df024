//! Whether a ring crosses itself.

use std::{cell::Cell, cmp::Ordering};

use geo::{Coord, Intersects as _, Kernel as _, Line, LineString, Orientation, kernels::RobustKernel};

/// Whether no two edges of a closed ring meet, but for neighbours at the position that they share.
///
/// Takes `n log n` looks at edges for `n` positions, whatever the ring looks like. A line sweeps from west to east (on
/// one meridian from south to north) and knows the edges that it cuts, from south to north (Shamos and Hoey, "Geometric
/// Intersection Problems", 1976). Before two edges meet nothing lies between them, so it is enough to hold each edge
/// against those beside it. Nothing is computed but on which side of an edge a position lies, and that exactly.
pub fn is_simple(ring: &LineString) -> bool {
    Sweep::over(ring).meets_nothing()
}

/// The edge `n` leads from position `n` to the next one.
type Edge = usize;

/// The line on its way.
#[derive(Debug)]
pub struct Sweep {
    /// No two in a row are the same.
    at: Vec<Coord>,
    /// The edges that the line cuts, from south to north.
    cut: Vec<Edge>,
    /// How many times an edge was looked at.
    looks: Cell<usize>,
}

impl Sweep {
    pub fn over(ring: &LineString) -> Self {
        let mut at: Vec<Coord> = ring.coords().map(|at| Coord { x: at.x + 0.0, y: at.y + 0.0 }).collect();
        at.dedup();
        at.pop();
        Self { at, cut: Vec::new(), looks: Cell::new(0) }
    }

    /// Whether no two edges meet, as [`is_simple`] says.
    pub fn meets_nothing(&mut self) -> bool {
        if self.at.len() <= 3 {
            // Every two of the edges are neighbours.
            return true;
        }
        let mut order: Vec<usize> = (0..self.at.len()).collect();
        order.sort_unstable_by(|one, other| sweeps(self.at[*one], self.at[*other]));
        let is_twice = order.windows(2).any(|two| self.at[two[0]] == self.at[two[1]]);
        !is_twice && order.into_iter().all(|vertex| self.passes(vertex))
    }

    /// How many times an edge was looked at.
    pub fn looks(&self) -> usize {
        self.looks.get()
    }

    /// Takes the line over a position. False: something meets there.
    fn passes(&mut self, vertex: usize) -> bool {
        let (at, last) = (self.at[vertex], self.at.len() - 1);
        let (before, after) = (vertex.checked_sub(1).unwrap_or(last), vertex);
        let next = if vertex == last { 0 } else { vertex + 1 };
        let has_begun = |end: usize| sweeps(self.at[end], at).is_lt();
        let place = self.cut.partition_point(|edge| self.side(*edge, at) == Orientation::CounterClockwise);
        match (has_begun(before), has_begun(next)) {
            (false, false) => self.begin(place, vertex, [before, after]),
            (true, false) => self.go_on(place, before, after),
            (false, true) => self.go_on(place, after, before),
            (true, true) => self.end(place, [before, after]),
        }
    }

    /// Two edges begin at a position that no other may touch.
    fn begin(&mut self, place: usize, vertex: usize, [before, after]: [Edge; 2]) -> bool {
        let touches = |edge: &Edge| self.side(*edge, self.at[vertex]) == Orientation::Collinear;
        if self.cut.get(place).is_some_and(touches) {
            return false;
        }
        let two = match self.side(before, self.line(after).end) {
            Orientation::CounterClockwise => [before, after],
            Orientation::Clockwise => [after, before],
            Orientation::Collinear => return false,
        };
        self.cut.splice(place..place, two);
        self.is_apart(place) && self.is_apart(place + 2)
    }

    /// An edge ends where the next one begins. If it isn't the first one here, it is not alone.
    fn go_on(&mut self, place: usize, ends: Edge, begins: Edge) -> bool {
        if self.cut.get(place) != Some(&ends) {
            return false;
        }
        self.cut[place] = begins;
        self.is_apart(place) && self.is_apart(place + 1)
    }

    /// Two edges end in one position: they are beside each other.
    fn end(&mut self, place: usize, [before, after]: [Edge; 2]) -> bool {
        match self.cut.get(place..place + 2) {
            Some(two) if *two == [before, after] || *two == [after, before] => {
                self.cut.drain(place..place + 2);
                self.is_apart(place)
            }
            _ => false,
        }
    }

    /// Whether the edge at this place meets the one south of it nowhere.
    fn is_apart(&self, place: usize) -> bool {
        let (Some(south), Some(north)) =
            (place.checked_sub(1).map(|south| self.cut[south]), self.cut.get(place))
        else {
            return true;
        };
        self.looks.update(|looks| looks + 1);
        let last = self.at.len() - 1;
        let are_neighbours = matches!(south.abs_diff(*north), 1) || south.abs_diff(*north) == last;
        are_neighbours || !self.line(south).intersects(&self.line(*north))
    }

    fn line(&self, edge: Edge) -> Line {
        Line::new(self.at[edge], self.at[(edge + 1) % self.at.len()])
    }

    /// On which side of an edge, seen as the line sweeps, a position lies: counterclockwise is north of it.
    fn side(&self, edge: Edge, at: Coord) -> Orientation {
        self.looks.update(|looks| looks + 1);
        let Line { start, end } = self.line(edge);
        let (west, east) = if sweeps(start, end).is_lt() { (start, end) } else { (end, start) };
        RobustKernel::orient2d(west, east, at)
    }
}

/// Which of two positions the line comes to first.
fn sweeps(one: Coord, other: Coord) -> Ordering {
    one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y))
}
