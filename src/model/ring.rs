//! Whether a ring crosses itself.

use geo::{Intersects as _, Line, LineString};

/// Whether no two edges of a closed ring meet, but for neighbours at the position that they share.
///
/// Edges are taken from west to east, and each is held against those alone that reach into its box. Of rings as they are
/// drawn on maps that is a handful each; of the worst ones it is all of them, once.
pub fn is_simple(ring: &LineString) -> bool {
    let mut edges: Vec<Edge> = ring.lines().map(Edge::of).collect();
    edges.sort_unstable_by(|one, other| one.west.total_cmp(&other.west));
    edges.iter().enumerate().all(|(place, edge)| {
        let near = edges[place + 1..].iter().take_while(|other| other.west <= edge.east);
        near.filter(|other| edge.shares_latitudes(other)).all(|other| !edge.crosses(other))
    })
}

/// An edge and the box around it.
struct Edge {
    line: Line,
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Edge {
    fn of(line: Line) -> Self {
        let (from, to) = (line.start, line.end);
        Self {
            line,
            west: from.x.min(to.x),
            east: from.x.max(to.x),
            south: from.y.min(to.y),
            north: from.y.max(to.y),
        }
    }

    fn shares_latitudes(&self, other: &Self) -> bool {
        self.south <= other.north && other.south <= self.north
    }

    /// Neighbours share a position, and that is no crossing.
    fn crosses(&self, other: &Self) -> bool {
        let (one, two) = (&self.line, &other.line);
        one.start != two.end && one.end != two.start && one.intersects(two)
    }
}

#[cfg(test)]
mod tests {
    use geo::{Coord, Polygon, Validation as _};
    use proptest::prelude::*;

    use super::*;

    fn ring(points: &[(i8, i8)]) -> LineString {
        let coord = |(x, y): &(i8, i8)| Coord { x: f64::from(*x), y: f64::from(*y) };
        let mut ring: Vec<Coord> = points.iter().map(coord).collect();
        ring.push(ring[0]);
        ring.into()
    }

    proptest! {
        /// On a coarse grid, where edges touch, overlap and repeat as often as not.
        #[test]
        fn it_says_of_every_ring_what_the_general_check_says(
            points in proptest::collection::vec((-4_i8..4, -4_i8..4), 3..9),
        ) {
            let ring = ring(&points);
            let errors = Polygon::new(ring.clone(), Vec::new()).validation_errors();
            let crosses = errors.iter().any(|error| matches!(error, geo::algorithm::validation::InvalidPolygon::SelfIntersection(_)));
            prop_assert_eq!(is_simple(&ring), !crosses, "{:?}", points);
        }
    }
}
