//! Longitudes around the globe.

use model::globe::{Span, around, within_turn};

/// West and east, in degrees.
type Ends = (f64, f64);

#[test]
fn a_longitude_is_within_one_turn() {
    for (longitude, expected) in
        [(0.0, 0.0), (180.0, -180.0), (-180.0, -180.0), (190.0, -170.0), (-540.0, -180.0), (539.0, 179.0)]
    {
        assert!((within_turn(longitude) - expected).abs() < 1e-9, "{longitude}");
    }
}

#[test]
fn the_widest_gap_is_left_out() {
    let cases: [(&[Ends], Option<Ends>); 8] = [
        (&[(170.0, 180.0), (-180.0, -170.0)], Some((170.0, 190.0))),
        (&[(10.0, 20.0)], Some((10.0, 20.0))),
        (&[(10.0, 20.0), (30.0, 60.0)], Some((10.0, 60.0))),
        // Beyond the antimeridian, and over what comes after it.
        (&[(170.0, 195.0), (-175.0, -170.0)], Some((170.0, 195.0))),
        (&[(-190.0, -170.0), (0.0, 1.0)], Some((0.0, 190.0))),
        // None is wider than that across the antimeridian.
        (&[(-100.0, -80.0), (80.0, 100.0)], Some((-100.0, 100.0))),
        (&[(-180.0, 180.0)], None),
        (&[], None),
    ];
    for (spans, expected) in cases {
        let found = around(spans.iter().map(|(west, east)| Span { west: *west, east: *east }));
        assert_eq!(found.map(|span| (span.west, span.east)), expected, "{spans:?}");
    }
}
