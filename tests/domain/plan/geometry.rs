use domain::plan::{AreaIndex, Cover, ENTRY_BYTES, Lies, Shape};
use geo::MultiPolygon;
use model::ChildKey;

use super::{rectangle, strategy};

fn shape(text: &str) -> Shape {
    Shape::read(text).unwrap()
}

fn target(text: &str) -> MultiPolygon {
    shape(text).polygons()
}

fn polygon(rings: &str) -> String {
    format!(r#"{{"type":"Polygon","coordinates":[{rings}]}}"#)
}

fn multi(polygons: &str) -> String {
    format!(r#"{{"type":"MultiPolygon","coordinates":[{polygons}]}}"#)
}

/// How a child lies to a target, found by a coarse grid, a fine one, and the other way round.
fn lies(child: &str, of: &str) -> Lies {
    let anywhere = Cover::anywhere(&target(of));
    let fine = Cover::new(&target(of), shape(child).bounds(), 1_000_000);
    let found = anywhere.place_shape(&shape(child));
    assert_eq!(found, fine.place_shape(&shape(child)), "{child} in {of}");
    let turned = Cover::anywhere(&target(child)).place_shape(&shape(of));
    assert_eq!(found == Lies::Outside, turned == Lies::Outside, "{child} in {of}");
    found
}

const RING: &str = "[[0,0],[10,0],[10,10],[0,10],[0,0]],[[4,4],[4,6],[6,6],[6,4],[4,4]]";

#[test]
fn known_cases_lie_as_they_are_drawn() {
    let square = rectangle(0.0, 0.0, 10.0, 10.0);
    let ring = polygon(RING);
    let diamond = polygon("[[5,-5],[15,5],[5,15],[-5,5],[5,-5]]");
    let cases = [
        ("the same area", square.clone(), square.clone(), Lies::Partly),
        (
            "the same area, begun elsewhere and turned",
            polygon("[[10,10],[10,0],[0,0],[0,10],[10,10]]"),
            square.clone(),
            Lies::Partly,
        ),
        ("well inside", rectangle(1.0, 1.0, 2.0, 2.0), square.clone(), Lies::Inside),
        ("inside, touching an edge", rectangle(0.0, 1.0, 2.0, 2.0), square.clone(), Lies::Partly),
        ("around it", rectangle(-5.0, -5.0, 15.0, 15.0), square.clone(), Lies::Partly),
        ("touching an edge from outside", rectangle(10.0, 2.0, 12.0, 4.0), square.clone(), Lies::Outside),
        ("touching all of an edge", rectangle(10.0, 0.0, 12.0, 10.0), square.clone(), Lies::Outside),
        ("touching a corner", rectangle(10.0, 10.0, 12.0, 12.0), square.clone(), Lies::Outside),
        ("over an edge by a little", rectangle(9.999_999_999, 2.0, 12.0, 4.0), square.clone(), Lies::Partly),
        ("far away", rectangle(100.0, 2.0, 112.0, 4.0), square.clone(), Lies::Outside),
        ("in the hole", rectangle(4.5, 4.5, 5.5, 5.5), ring.clone(), Lies::Outside),
        ("filling the hole", rectangle(4.0, 4.0, 6.0, 6.0), ring.clone(), Lies::Outside),
        ("over the hole's edge", rectangle(4.5, 4.5, 6.5, 5.5), ring.clone(), Lies::Partly),
        ("around the hole", rectangle(3.0, 3.0, 7.0, 7.0), ring.clone(), Lies::Partly),
        ("through its corners", diamond.clone(), square.clone(), Lies::Partly),
        (
            "corners on the edges, all inside",
            polygon("[[5,0],[10,5],[5,10],[0,5],[5,0]]"),
            square.clone(),
            Lies::Partly,
        ),
        (
            "corners on the edges, from one to the next",
            polygon("[[0,0],[10,0],[10,10],[0,0]]"),
            square.clone(),
            Lies::Partly,
        ),
        (
            "a corner on an edge, from outside",
            polygon("[[10,5],[12,4],[12,6],[10,5]]"),
            square.clone(),
            Lies::Outside,
        ),
        (
            "along an edge and beyond, from outside",
            rectangle(10.0, -5.0, 12.0, 15.0),
            square.clone(),
            Lies::Outside,
        ),
        (
            "along an edge and beyond, from inside",
            rectangle(8.0, -5.0, 10.0, 15.0),
            square.clone(),
            Lies::Partly,
        ),
        (
            "between two parts",
            rectangle(4.0, 0.0, 6.0, 10.0),
            multi("[[[0,0],[4,0],[4,10],[0,10],[0,0]]],[[[6,0],[10,0],[10,10],[6,10],[6,0]]]"),
            Lies::Outside,
        ),
        (
            "in the second part",
            rectangle(7.0, 1.0, 8.0, 2.0),
            multi("[[[0,0],[4,0],[4,10],[0,10],[0,0]]],[[[6,0],[10,0],[10,10],[6,10],[6,0]]]"),
            Lies::Inside,
        ),
        (
            "two parts on both sides",
            multi("[[[-3,0],[-1,0],[-1,1],[-3,0]]],[[[11,0],[13,0],[13,1],[11,0]]]"),
            square.clone(),
            Lies::Outside,
        ),
        (
            "an inlet",
            rectangle(4.0, 5.0, 6.0, 9.0),
            polygon("[[0,0],[10,0],[10,10],[7,10],[7,3],[3,3],[3,10],[0,10],[0,0]]"),
            Lies::Outside,
        ),
        (
            "across the antimeridian, beyond 180",
            rectangle(175.0, 0.0, 185.0, 5.0),
            rectangle(-180.0, 0.0, -178.0, 5.0),
            Lies::Partly,
        ),
        (
            "across the antimeridian, beyond -180",
            rectangle(-185.0, 0.0, -175.0, 5.0),
            rectangle(177.0, 0.0, 180.0, 5.0),
            Lies::Partly,
        ),
        (
            "across the antimeridian, in two parts",
            multi(
                "[[[175,0],[180,0],[180,5],[175,5],[175,0]]],[[[-180,0],[-175,0],[-175,5],[-180,5],[-180,0]]]",
            ),
            rectangle(182.0, 1.0, 183.0, 2.0),
            Lies::Partly,
        ),
        (
            "meeting at the antimeridian",
            rectangle(170.0, 0.0, 180.0, 5.0),
            rectangle(-180.0, 0.0, -170.0, 5.0),
            Lies::Outside,
        ),
        (
            "both beyond",
            rectangle(190.0, 0.0, 191.0, 1.0),
            rectangle(-171.0, -1.0, -168.0, 2.0),
            Lies::Inside,
        ),
        (
            "a turn and a half away",
            rectangle(-530.0, 0.0, -529.0, 1.0),
            rectangle(189.0, -1.0, 192.0, 2.0),
            Lies::Inside,
        ),
        (
            "at the pole",
            polygon("[[0,80],[90,80],[90,90],[0,90],[0,80]]"),
            polygon("[[-180,85],[180,85],[180,90],[-180,90],[-180,85]]"),
            Lies::Partly,
        ),
        (
            "below the pole's cap",
            rectangle(0.0, 80.0, 90.0, 85.0),
            polygon("[[-180,85],[180,85],[180,90],[-180,90],[-180,85]]"),
            Lies::Outside,
        ),
        ("the whole globe", square.clone(), rectangle(-180.0, -90.0, 180.0, 90.0), Lies::Inside),
    ];
    for (what, child, of, expected) in cases {
        assert_eq!(lies(&child, &of), expected, "{what}");
    }
}

#[test]
fn polygons_of_a_target_may_overlap_and_share_edges() {
    let overlapping = MultiPolygon::new(
        [rectangle(0.0, 0.0, 6.0, 6.0), rectangle(4.0, 4.0, 10.0, 10.0), rectangle(6.0, 0.0, 8.0, 4.0)]
            .iter()
            .flat_map(|text| target(text).0)
            .collect(),
    );
    let cover = Cover::anywhere(&overlapping);
    for (child, expected) in [
        (rectangle(4.5, 4.5, 5.5, 5.5), Lies::Inside),
        (rectangle(7.0, 6.0, 9.0, 9.0), Lies::Inside),
        (rectangle(5.5, 1.0, 6.5, 2.0), Lies::Partly),
        (rectangle(8.0, 0.0, 10.0, 4.0), Lies::Outside),
        (rectangle(0.0, 6.0, 4.0, 10.0), Lies::Outside),
        (rectangle(6.0, 4.0, 7.0, 5.0), Lies::Partly),
    ] {
        assert_eq!(cover.place_shape(&shape(&child)), expected, "{child}");
    }
    // 36 + 36 - 4 + 8 square degrees at the equator, each about 12,360 km².
    assert!((cover.km2() / 12_330.0 - 76.0).abs() < 0.5, "{}", cover.km2());
}

#[test]
fn sizes_are_those_of_the_globe() {
    let close = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} instead of {expected}");
    };
    // The surface of the ellipsoid WGS 84.
    let globe = 510_065_621.7;
    close(shape(&rectangle(-180.0, -90.0, 180.0, 90.0)).km2(), globe);
    close(shape(&rectangle(0.0, 0.0, 90.0, 90.0)).km2(), globe / 8.0);
    // Half of a hemisphere lies below 30°.
    close(shape(&rectangle(-180.0, 0.0, 180.0, 30.0)).km2(), globe / 4.0);
    let half = shape(&rectangle(0.0, 0.0, 10.0, 10.0)).km2();
    let ring = shape(&polygon(RING)).km2();
    close(ring, half - shape(&rectangle(4.0, 4.0, 6.0, 6.0)).km2());
    // Turned rings and other longitudes make no difference.
    close(shape(&polygon("[[370,10],[370,0],[360,0],[360,10],[370,10]]")).km2(), half);
}

#[test]
fn the_part_within_the_target_is_measured_where_it_lies() {
    let cover = Cover::anywhere(&target(&rectangle(0.0, 0.0, 10.0, 10.0)));
    let child = shape(&rectangle(5.0, -5.0, 15.0, 5.0));
    let common = shape(&rectangle(5.0, 0.0, 10.0, 5.0)).km2();
    assert!((cover.km2_of(&child) / common - 1.0).abs() < 1e-5);
    assert_eq!(cover.clip(&child).0.len(), 1);
    assert!(cover.clip(&shape(&rectangle(10.0, 0.0, 20.0, 10.0))).0.is_empty());
    assert!(cover.km2_of(&shape(&rectangle(20.0, 0.0, 21.0, 1.0))).abs() < 1e-9);
    let beyond = Cover::anywhere(&target(&rectangle(-180.0, 0.0, -175.0, 5.0)));
    let across = shape(&rectangle(175.0, 0.0, 185.0, 5.0));
    assert!((beyond.km2_of(&across) / (across.km2() / 2.0) - 1.0).abs() < 1e-5);
}

#[test]
fn an_area_is_read_however_it_is_written() {
    let plain = shape(&rectangle(1.0, 2.0, 3.0, 4.0));
    for text in [
        r#" { "coordinates" : [[[1,2,7],[3,2,7],[3,4],[1,4],[1,2]]], "bbox": [1,2,3,4], "type" : "Polygon" } "#,
        r#"{"type":"\u0050olygon","coordinates":[[[1.0,2e0],[3,2],[3,4.00],[1,4],[1,2]]]}"#,
        r#"{"type":"MultiPolygon","coordinates":[[[[1,2],[1,4],[3,4],[3,2],[1,2]]]]}"#,
    ] {
        assert_eq!(shape(text).bounds(), plain.bounds());
        assert!((shape(text).km2() - plain.km2()).abs() < 1e-9);
    }
    for text in [
        "",
        "null",
        "[]",
        r#"{"type":"Point","coordinates":[1,2]}"#,
        r#"{"type":"Polygon","coordinates":[]}"#,
    ] {
        assert_eq!(Shape::read(text), None, "{text}");
    }
}

#[test]
fn an_entry_of_the_index_is_small_and_follows_its_child() {
    assert_eq!(ENTRY_BYTES, 24);
    let (here, there) = (rectangle(0.0, 0.0, 1.0, 1.0), rectangle(5.1, 5.1, 6.1, 6.1));
    let mut index = AreaIndex::default();
    index.insert(ChildKey(3), Some(&here), 1);
    index.insert(ChildKey(7), Some(&there), 5);
    index.insert(ChildKey(9), None, 2);
    assert_eq!(index.len(), 3);
    index.move_to(ChildKey(3), Some(&there));
    let bounds = |child| index.get(ChildKey(child)).unwrap().bounds();
    assert_eq!(bounds(3).map(|of| of.min.x), bounds(7).map(|of| of.min.x));
    index.count(ChildKey(7), 8);
    assert_eq!(index.get(ChildKey(7)).unwrap().agents, 8);
    index.remove(ChildKey(7));
    index.remove(ChildKey(7));
    index.move_to(ChildKey(7), Some(&here));
    index.count(ChildKey(7), 1);
    assert_eq!((index.len(), index.get(ChildKey(7))), (2, None));
    assert_eq!(index.get(ChildKey(9)).unwrap().bounds(), None);
    let bounds = index.bounds();
    assert!(bounds.min.x <= 5.1 && bounds.max.y >= 6.1 && bounds.min.x > 5.0);
}

#[test]
fn equal_spellings_in_strategy_and_child_only_touch() {
    // Both ends of the border are written with digits that no binary number has.
    let block = "target: {area: {type: Polygon, coordinates: [[[13.1, 52.3], [13.123456789012345678, 52.3], \
                 [13.123456789012345678, 52.7], [13.1, 52.7], [13.1, 52.3]]]}}";
    let area = strategy(block).target.unwrap().area.unwrap().polygons();
    let child = polygon(
        "[[13.123456789012345678,52.3],[13.9,52.3],[13.9,52.7],[13.123456789012345678,52.7],[13.123456789012345678,52.3]]",
    );
    assert_eq!(Cover::anywhere(&area).place_shape(&shape(&child)), Lies::Outside);
}
