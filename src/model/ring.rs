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

struct Sweep {
    /// No two in a row are the same.
    at: Vec<Coord>,
    /// The edges that the line cuts, from south to north.
    cut: Vec<Edge>,
    /// How many times an edge was looked at.
    looks: Cell<usize>,
}

impl Sweep {
    fn over(ring: &LineString) -> Self {
        let mut at: Vec<Coord> = ring.coords().map(|at| Coord { x: at.x + 0.0, y: at.y + 0.0 }).collect();
        at.dedup();
        at.pop();
        Self { at, cut: Vec::new(), looks: Cell::new(0) }
    }

    fn meets_nothing(&mut self) -> bool {
        if self.at.len() <= 3 {
            // Every two of the edges are neighbours.
            return true;
        }
        let mut order: Vec<usize> = (0..self.at.len()).collect();
        order.sort_unstable_by(|one, other| sweeps(self.at[*one], self.at[*other]));
        let is_twice = order.windows(2).any(|two| self.at[two[0]] == self.at[two[1]]);
        !is_twice && order.into_iter().all(|vertex| self.passes(vertex))
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

#[cfg(test)]
mod tests {
    use geo::{Polygon, Validation as _, algorithm::validation::InvalidPolygon};
    use proptest::prelude::*;

    use super::*;

    fn ring(points: &[(f64, f64)]) -> LineString {
        let mut ring: Vec<Coord> = points.iter().map(|(x, y)| Coord { x: *x, y: *y }).collect();
        ring.push(ring[0]);
        ring.into()
    }

    /// Each edge against each.
    fn meets_nothing(ring: &LineString) -> bool {
        let edges: Vec<Line> = ring.lines().collect();
        let meet = |one: &Line, other: &Line| {
            one.start != other.end && one.end != other.start && one.intersects(other)
        };
        edges.iter().enumerate().all(|(at, one)| edges[at + 1..].iter().all(|other| !meet(one, other)))
    }

    /// Long edges side by side, in whose boxes all the others reach; `shift` moves one position across them.
    fn zigzag(teeth: usize, shift: f64) -> LineString {
        let tooth = |n: usize| [(n as f64 * 1e-4, 0.0), (n as f64 * 1e-4 + 10.0, 10.0)];
        let mut points: Vec<(f64, f64)> = (0..teeth).flat_map(tooth).collect();
        points[teeth].1 += shift;
        points.push((20.0, -1.0));
        ring(&points)
    }

    /// Positions on a coarse grid, where edges touch, overlap and lie on each other as often as not. None repeats the one
    /// before.
    fn on_grid(size: i8, most: usize) -> impl Strategy<Value = Vec<(f64, f64)>> {
        let point = (-size..size, -size..size).prop_map(|(x, y)| (f64::from(x), f64::from(y)));
        let points = proptest::collection::vec(point, 3..most).prop_map(|mut points| {
            points.dedup();
            if points.len() > 1 && points.first() == points.last() {
                points.pop();
            }
            points
        });
        points.prop_filter("a ring has three positions", |points| points.len() >= 3)
    }

    #[test]
    fn the_worst_ring_takes_few_looks_for_each_position() {
        for positions in [100, 1_000, 10_000] {
            let mut sweep = Sweep::over(&zigzag(positions / 2, 0.0));
            assert!(sweep.meets_nothing());
            let looks = sweep.looks.get();
            assert!(looks < 25 * positions, "{looks} looks for {positions} positions");
        }
        assert!(!is_simple(&zigzag(500, 5.0)));
    }

    #[test]
    fn zero_has_two_signs_and_is_one_position() {
        assert!(is_simple(&ring(&[(-0.0, 5.0), (0.0, 3.0), (-0.0, 1.0), (4.0, 2.0)])));
        assert!(!is_simple(&ring(&[(0.0, 0.0), (2.0, 2.0), (4.0, 0.0), (-0.0, -0.0), (2.0, -2.0)])));
    }

    proptest! {
        #![proptest_config(crate::cases::cases(4_000))]

        #[test]
        fn it_says_of_every_ring_what_the_general_check_says(points in on_grid(4, 9)) {
            let ring = ring(&points);
            let errors = Polygon::new(ring.clone(), Vec::new()).validation_errors();
            let crosses = errors.iter().any(|error| matches!(error, InvalidPolygon::SelfIntersection(_)));
            prop_assert_eq!(is_simple(&ring), !crosses, "{:?}", points);
        }

        #[test]
        fn it_says_what_each_edge_against_each_says(points in on_grid(6, 16)) {
            let ring = ring(&points);
            prop_assert_eq!(is_simple(&ring), meets_nothing(&ring), "{:?}", points);
        }

        #[test]
        fn a_position_said_twice_is_one(points in on_grid(4, 9)) {
            let twice: Vec<_> = points.iter().flat_map(|point| [*point, *point]).collect();
            prop_assert_eq!(is_simple(&ring(&twice)), is_simple(&ring(&points)), "{:?}", points);
        }

        /// Seen from the middle the positions come in turn, so nothing crosses; then one of them is moved.
        #[test]
        fn so_it_does_of_long_rings_and_of_those_that_hardly_cross(
            far in proptest::collection::vec(1.0_f64..100.0, 3..200),
            moved in any::<prop::sample::Index>(),
            by in -1.5_f64..1.5,
        ) {
            let place = |(at, far): (usize, &f64), count: usize| {
                let angle = std::f64::consts::TAU * at as f64 / count as f64;
                (far * libm::cos(angle), far * libm::sin(angle))
            };
            let mut points: Vec<_> = far.iter().enumerate().map(|one| place(one, far.len())).collect();
            prop_assert!(is_simple(&ring(&points)));
            let at = moved.index(points.len());
            points[at] = (points[at].0 * by, points[at].1 * by);
            prop_assert_eq!(is_simple(&ring(&points)), meets_nothing(&ring(&points)), "{:?}", points);
        }
    }
}
