//! The area that a manager reports contains the area of every child.

use std::sync::Arc;

use domain::parent::area::{MAX_POSITIONS, Reported, reported};
use geo::{Contains as _, CoordsIter as _, MultiPolygon, PreparedGeometry, Relate as _};
use model::area;
use proptest::prelude::*;

/// Children of one case that are looked at: a relation takes milliseconds in a build that is not optimised.
const MAX_LOOKED_AT: usize = 60;

fn polygon(ring: &[(f64, f64)]) -> Arc<str> {
    let mut ring: Vec<[f64; 2]> = ring.iter().map(|(x, y)| [*x, *y]).collect();
    ring.push(ring[0]);
    serde_json::json!({"type": "Polygon", "coordinates": [ring]}).to_string().into()
}

fn square(x: f64, y: f64, size: f64) -> Arc<str> {
    polygon(&[(x, y), (x + size, y), (x + size, y + size), (x, y + size)])
}

/// Both texts are areas, small enough, the plain one a single polygon, and both contain every child's area.
fn check(areas: &[Arc<str>]) -> (Reported, MultiPolygon) {
    let all = reported(areas);
    let (close, plain) = (all.close.clone().unwrap(), all.polygon.clone().unwrap());
    for text in [&close, &plain] {
        let parsed = area::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(parsed.coords_count() <= MAX_POSITIONS);
        let parsed = PreparedGeometry::from(parsed);
        for child in areas.iter().step_by(areas.len().div_ceil(MAX_LOOKED_AT)) {
            let child_area = area::parse(child).unwrap();
            assert!(parsed.relate(&child_area).is_contains(), "{child} sticks out of {text}");
        }
    }
    assert!(plain.contains(r#""Polygon""#) && !plain.contains("MultiPolygon"));
    let parsed = area::parse(&close).unwrap();
    (all, parsed)
}

#[test]
fn neighbours_are_one_polygon_and_islands_are_several_for_whoever_understands_that() {
    let (all, close) = check(&[square(10.0, 50.0, 1.0), square(10.5, 50.5, 1.0)]);
    assert_eq!(close.0.len(), 1);
    assert_eq!(all.close, all.polygon);
    let (all, close) = check(&[square(10.0, 50.0, 1.0), square(20.0, 50.0, 1.0)]);
    assert_eq!(close.0.len(), 2);
    assert_ne!(all.close, all.polygon);
    // No child anywhere, no area.
    assert_eq!(reported(&[]), Reported::default());
}

#[test]
fn one_area_is_reported_as_it_came() {
    let only = square(13.0, 52.0, 0.5);
    let all = reported(&[Arc::clone(&only), Arc::clone(&only)]);
    assert_eq!(all.close.as_deref(), Some(&*only));
    assert_eq!(all.polygon.as_deref(), Some(&*only));
}

#[test]
fn the_whole_world_and_areas_beyond_its_edges_stay_in_range() {
    check(&[
        polygon(&[(-180.0, -90.0), (180.0, -90.0), (180.0, 90.0), (-180.0, 90.0)]),
        square(0.0, 0.0, 1.0),
    ]);
    check(&[square(-180.0, 10.0, 5.0), square(175.0, -40.0, 5.0)]);
    check(&[square(178.0, 10.0, 5.0), square(-170.0, 80.0, 10.0)]);
}

#[test]
fn ten_thousand_scattered_children_fit_and_cover_little_more_than_they_do() {
    use geo::Area as _;
    let areas: Vec<_> = (0..10_000_u32)
        .map(|n| square(f64::from(n * 7_919 % 3_000) / 100.0, f64::from(n % 300) / 10.0, 0.05))
        .collect();
    let (_, close) = check(&areas);
    assert!(close.unsigned_area() <= 31.0 * 31.0, "{}", close.unsigned_area());
    // In two far corners: the grid keeps them apart.
    let apart: Vec<_> = (0..4_000_u32)
        .flat_map(|n| {
            let (x, y) = (f64::from(n % 63) / 20.0, f64::from(n / 63) / 20.0);
            [square(x, y, 0.04), square(60.0 + x, 40.0 + y, 0.04)]
        })
        .collect();
    let (_, close) = check(&apart);
    assert!(close.unsigned_area() < 100.0, "{}", close.unsigned_area());
}

fn star() -> impl Strategy<Value = Arc<str>> {
    let rays = proptest::collection::vec(0.2_f64..1.0, 3..12);
    (-170.0_f64..170.0, -75.0_f64..75.0, 0.001_f64..8.0, rays).prop_map(|(x, y, size, rays)| {
        let step = std::f64::consts::TAU / rays.len() as f64;
        let corner = |(place, ray): (usize, &f64)| {
            let (sin, cos) = (step * place as f64).sin_cos();
            (x + cos * ray * size, y + sin * ray * size)
        };
        polygon(&rays.iter().enumerate().map(corner).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(crate::cases::cases(32))]

    #[test]
    fn every_childs_area_is_within_what_is_reported(areas in proptest::collection::vec(star(), 1..160)) {
        check(&areas);
    }
}

#[test]
fn a_file_may_hold_any_geojson_of_polygons() {
    let ring = "[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]";
    let polygon = format!(r#"{{"type": "Polygon", "coordinates": [{ring}]}}"#);
    let feature =
        |geometry: &str| format!(r#"{{"type": "Feature", "properties": {{}}, "geometry": {geometry}}}"#);
    let collection = |features: &[String]| {
        format!(r#"{{"type": "FeatureCollection", "features": [{}]}}"#, features.join(", "))
    };
    let plain = area::read_file(&polygon).unwrap();
    assert_eq!(
        plain,
        r#"{"coordinates":[[[13.0,52.0],[14.0,52.0],[14.0,53.0],[13.0,53.0],[13.0,52.0]]],"type":"Polygon"}"#
    );
    for text in [feature(&polygon), collection(&[feature(&polygon)])] {
        assert_eq!(area::read_file(&text).unwrap(), plain, "{text}");
    }
    let beside = polygon.replace("13,", "15,").replace("14,", "16,");
    let two = area::read_file(&collection(&[feature(&polygon), feature(&beside)])).unwrap();
    assert!(two.contains("MultiPolygon"), "{two}");
    // Features may overlap; what they cover together is meant.
    let across = polygon.replace("13,", "13.5,").replace("14,", "14.5,");
    let joined = area::read_file(&collection(&[feature(&polygon), feature(&across)])).unwrap();
    let joined = area::parse(&joined).unwrap();
    assert_eq!(joined.0.len(), 1);
    assert!(joined.contains(&geo::Point::new(13.1, 52.5)) && joined.contains(&geo::Point::new(14.4, 52.5)));
    // Whoever only touches them is not in the area: no corner moves.
    let edge_of = |joined: &str| {
        let corners: Vec<_> = area::parse(joined).unwrap().exterior_coords_iter().collect();
        corners.iter().map(|corner| corner.x).fold(f64::MIN, f64::max)
    };
    for [one, two] in [["13.1", "13.8"], ["13.1", "13.5"]] {
        let field = |west: &str, east: &str| {
            feature(&polygon.replace("13,", &format!("{west},")).replace("14,", &format!("{east},")))
        };
        let fields = area::read_file(&collection(&[field(one, "13.8"), field(two, "14.1")])).unwrap();
        assert!(edge_of(&fields) <= 14.1, "{fields}");
    }
    for (text, why) in [
        (collection(&[]), "the area is empty"),
        (feature("null"), "the area is empty"),
        (
            feature(r#"{"type": "Point", "coordinates": [13, 52]}"#),
            "an area is a Polygon or a MultiPolygon, not a Point",
        ),
        (polygon.replace("[13, 53], ", ""), ""),
        (polygon.replace("52]", "152]"), "latitude 152 is out of range"),
    ] {
        match area::read_file(&text) {
            Ok(_) => assert_eq!(why, "", "{text}"),
            Err(error) => assert_eq!(error.to_string(), why, "{text}"),
        }
    }
}
