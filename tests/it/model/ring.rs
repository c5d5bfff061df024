//! Rings that cross themselves are found, in few looks.

use geo::{Polygon, Validation as _, algorithm::validation::InvalidPolygon};
use proptest::prelude::*;

use geo::{Coord, Intersects as _, Line, LineString};
use model::ring::{Sweep, is_simple};

fn ring(points: &[(f64, f64)]) -> LineString {
    let mut ring: Vec<Coord> = points.iter().map(|(x, y)| Coord { x: *x, y: *y }).collect();
    ring.push(ring[0]);
    ring.into()
}

/// Each edge against each.
fn meets_nothing(ring: &LineString) -> bool {
    let edges: Vec<Line> = ring.lines().collect();
    let meet =
        |one: &Line, other: &Line| one.start != other.end && one.end != other.start && one.intersects(other);
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
        let looks = sweep.looks();
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
