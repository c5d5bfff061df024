//! Whether two areas share more than their borders, exactly.
//!
//! Orientations are computed with adaptive precision (Shewchuk 1997, as in `geo`'s robust kernel), so that touching
//! is told from overlapping whatever the numbers are. Both areas are polygons without common interiors, the inside
//! on the left of each edge. Then the interiors meet exactly if one of these holds:
//!
//! 1. two edges cross properly: around the crossing lie all four combinations of inside and outside;
//! 2. a corner of one lies strictly inside the other;
//! 3. where borders touch without crossing: a piece of one's border between two touching points runs through the
//!    inside of the other, or lies on a piece of the other's border with the inside on the same side.
//!
//! If none does, no border enters the other's inside, so an inside that met the other would have to be equal to it,
//! and then their borders run together in the same direction, which is case 3.

use geo::{
    Coord,
    kernels::{Kernel as _, Orientation, RobustKernel},
};

use super::shape::Bounds;

/// Longitude and latitude in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// An edge of a ring; the inside is on its left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    pub from: Point,
    pub to: Point,
}

impl Segment {
    pub fn bounds(&self) -> Bounds {
        Bounds::of([self.from, self.to])
    }

    fn side(&self, point: Point) -> Orientation {
        let coord = |p: Point| Coord { x: p.x, y: p.y };
        RobustKernel::orient2d(coord(self.from), coord(self.to), coord(point))
    }

    /// Whether a point that is on the line through both ends is between them.
    fn spans(&self, point: Point) -> bool {
        let within = |a: f64, b: f64, x: f64| a.min(b) <= x && x <= a.max(b);
        within(self.from.x, self.to.x, point.x) && within(self.from.y, self.to.y, point.y)
    }

    fn holds(&self, point: Point) -> bool {
        self.spans(point) && self.side(point) == Orientation::Collinear
    }

    fn middle(&self) -> Point {
        Point { x: f64::midpoint(self.from.x, self.to.x), y: f64::midpoint(self.from.y, self.to.y) }
    }

    fn runs_like(&self, other: &Self) -> bool {
        let along = |s: &Self| (s.to.x - s.from.x, s.to.y - s.from.y);
        let ((ax, ay), (bx, by)) = (along(self), along(other));
        ax * bx + ay * by > 0.0
    }
}

/// Where a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    Inside,
    Border,
    Outside,
}

/// The border of an area.
pub trait Edges {
    /// Calls for each edge near the rectangle, perhaps twice, until one answers true; whether one did.
    fn near(&self, bounds: &Bounds, each: &mut dyn FnMut(Segment) -> bool) -> bool;

    fn place(&self, point: Point) -> Where;
}

/// Where a point is in an area with these edges: the parity of edges crossed on the way east.
pub fn locate(point: Point, edges: impl Iterator<Item = Segment>) -> Where {
    let mut inside = false;
    for edge in edges {
        let crosses = (edge.from.y > point.y) != (edge.to.y > point.y);
        if !crosses {
            if edge.from.y.min(edge.to.y) <= point.y && edge.holds(point) {
                return Where::Border;
            }
            continue;
        }
        match edge.side(point) {
            Orientation::Collinear => return Where::Border,
            side => {
                let upwards = edge.to.y > edge.from.y;
                inside ^= (side == Orientation::CounterClockwise) == upwards;
            }
        }
    }
    if inside { Where::Inside } else { Where::Outside }
}

/// Whether the interiors of `small` and `large` share a point.
pub fn interiors_meet(small: &super::Shape, large: &impl Edges) -> bool {
    let mut touching = false;
    for edge in small.segments() {
        let crossed = large.near(&edge.bounds(), &mut |other| match crossing(&edge, &other) {
            Crossing::Proper => true,
            Crossing::Touch => {
                touching = true;
                false
            }
            Crossing::None => false,
        });
        if crossed {
            return true;
        }
    }
    if small.points().iter().any(|point| large.place(*point) == Where::Inside) {
        return true;
    }
    let within = |point: Point| small.place(point) == Where::Inside;
    if large.near(small.bounds(), &mut |edge| within(edge.from) || within(edge.to)) {
        return true;
    }
    touching
        && (small.segments().any(|edge| enters(&edge, large))
            || large.near(small.bounds(), &mut |edge| enters(&edge, small)))
}

enum Crossing {
    None,
    Touch,
    Proper,
}

fn crossing(a: &Segment, b: &Segment) -> Crossing {
    let (a_bounds, b_bounds) = (a.bounds(), b.bounds());
    if !a_bounds.touches(&b_bounds) {
        return Crossing::None;
    }
    let on_a = [a.side(b.from), a.side(b.to)];
    let on_b = [b.side(a.from), b.side(a.to)];
    let flat = Orientation::Collinear;
    if on_a.contains(&flat) || on_b.contains(&flat) {
        let touch = a.holds(b.from) || a.holds(b.to) || b.holds(a.from) || b.holds(a.to);
        return if touch { Crossing::Touch } else { Crossing::None };
    }
    if on_a[0] != on_a[1] && on_b[0] != on_b[1] { Crossing::Proper } else { Crossing::None }
}

/// Case 3 for one edge: cut at every corner of the other area that lies on it, a piece runs either along the other's
/// border or through one side of it. The middle of a piece is rounded, which is nothing but for slivers of a
/// millionth of a millimetre.
fn enters(edge: &Segment, other: &impl Edges) -> bool {
    let mut cuts = vec![edge.from, edge.to];
    other.near(&edge.bounds(), &mut |touching| {
        for end in [touching.from, touching.to] {
            if edge.holds(end) && !cuts.contains(&end) {
                cuts.push(end);
            }
        }
        false
    });
    // Along the edge: by the coordinate that changes most.
    let wide = (edge.to.x - edge.from.x).abs() >= (edge.to.y - edge.from.y).abs();
    let along = |p: &Point| if wide { p.x } else { p.y };
    cuts.sort_by(|a, b| along(a).total_cmp(&along(b)));
    let backwards = if wide { edge.to.x < edge.from.x } else { edge.to.y < edge.from.y };
    if backwards {
        cuts.reverse();
    }
    cuts.windows(2).any(|pair| {
        let piece = Segment { from: pair[0], to: pair[1] };
        let mut shared = false;
        let same_side = other.near(&piece.bounds(), &mut |twin| {
            let on_it = twin.holds(piece.from) && twin.holds(piece.to);
            shared |= on_it;
            on_it && twin.runs_like(&piece)
        });
        same_side || (!shared && other.place(piece.middle()) == Where::Inside)
    })
}
