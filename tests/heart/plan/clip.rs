//! The part of a target that a manager below is told of.

use geo::Area as _;
use heart::plan::clipped;
use language::{Target, TargetArea};

fn square(west: f64, south: f64, east: f64, north: f64) -> TargetArea {
    TargetArea(vec![vec![vec![[west, south], [east, south], [east, north], [west, north], [west, south]]]])
}

fn geojson(area: &TargetArea) -> String {
    serde_json::json!({"type": "MultiPolygon", "coordinates": area.0}).to_string()
}

/// Square degrees that are left.
fn left(target: TargetArea, child: &TargetArea) -> f64 {
    let target = Target { area: Some(target), ..Target::default() };
    clipped(&target, &geojson(child)).area.unwrap().polygons().unsigned_area()
}

#[test]
fn a_target_is_clipped_to_the_area_of_a_child_also_across_the_antimeridian() {
    let cases = [
        (square(0.0, 0.0, 10.0, 10.0), square(2.0, 2.0, 4.0, 4.0), 4.0),
        (square(0.0, 0.0, 3.0, 10.0), square(2.0, 2.0, 4.0, 4.0), 2.0),
        (square(179.0, 0.0, 190.0, 10.0), square(-175.0, 0.0, -165.0, 1.0), 5.0),
        // What only touches stays as it is: the child knows best that nobody lies in it.
        (square(0.0, 0.0, 2.0, 2.0), square(2.0, 0.0, 4.0, 4.0), 4.0),
    ];
    for (target, child, expected) in cases {
        let found = left(target, &child);
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }
}

#[test]
fn what_is_no_area_clips_nothing_and_labels_stay() {
    let labels = [("tier".to_owned(), "edge".to_owned())].into();
    let target = Target { area: Some(square(0.0, 0.0, 2.0, 2.0)), labels, ..Target::default() };
    assert_eq!(clipped(&target, "nonsense"), target);
}
