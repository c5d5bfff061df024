//! Which managers a tree has, and where they lie.

use proptest::prelude::*;
use simulated_children::{
    BoundingBox, area_of,
    tree::{MAX_MANAGERS, ManagerPlace, TreeSpec},
};

const BOX: BoundingBox = BoundingBox { west: 13.3, south: 52.4, east: 13.6, north: 52.6 };

fn places(spec: &str) -> Vec<ManagerPlace> {
    spec.parse::<TreeSpec>().unwrap().places(BOX)
}

#[test]
fn a_tree_has_as_many_managers_on_each_level_as_it_was_told() {
    let places = places("3x10x100");
    let on = |level| places.iter().filter(|place| place.level == level).count();
    assert_eq!((on(0), on(1), on(2), places.len()), (1, 3, 30, 34));
    assert!(places.iter().all(|place| place.agents == if place.level == 2 { 100 } else { 0 }));
    let named = |name| places.iter().find(|place| place.name == name).unwrap();
    assert_eq!(places[named("3.10").parent.unwrap()].name, "3");
    assert_eq!(places[named("2").parent.unwrap()].name, "root");
}

#[test]
fn what_is_no_tree_is_refused_with_the_reason() {
    let mut said = String::new();
    for text in ["0x3", "3x", "x3", "", "7", "-1x3", "+3x3", "3X3", "3x1.5", "99999999999999999999x1"] {
        said += &format!(
            "{text}: {}\n",
            text.parse::<TreeSpec>().unwrap_err().to_string().split("; a").next().unwrap()
        );
    }
    let many =
        [format!("{MAX_MANAGERS}x1"), "20x20x1".into(), "2x100001".into(), format!("{}1", "1x".repeat(17))];
    for text in many {
        said += &format!("{text}: {}\n", text.parse::<TreeSpec>().unwrap_err());
    }
    said += &format!("{}x1 is the largest: {:?}\n", MAX_MANAGERS - 1, "199x1".parse::<TreeSpec>().is_ok());
    insta::assert_snapshot!(said, @r#"
    0x3: "0" is no number from 1 up
    3x: "" is no number from 1 up
    x3: "" is no number from 1 up
    : "" is no number from 1 up
    7: "7" has no level of managers below the root
    -1x3: "-1" is no number from 1 up
    +3x3: "+3" is no number from 1 up
    3X3: "3X3" is no number from 1 up
    3x1.5: "1.5" is no number from 1 up
    99999999999999999999x1: "99999999999999999999" is no number from 1 up
    200x1: a tree has at most 200 managers, its root included; this one has more
    20x20x1: a tree has at most 200 managers, its root included; this one has more
    2x100001: a tree has at most 200000 agents; this one has more
    1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1: a tree has at most 16 levels of managers below its root, not 17
    199x1 is the largest: true
    "#);
}

fn is_within(inner: &BoundingBox, outer: &BoundingBox) -> bool {
    outer.west <= inner.west
        && inner.east <= outer.east
        && outer.south <= inner.south
        && inner.north <= outer.north
}

fn is_apart(a: &BoundingBox, b: &BoundingBox) -> bool {
    a.east <= b.west || b.east <= a.west || a.north <= b.south || b.north <= a.south
}

fn size(bounds: &BoundingBox) -> f64 {
    (bounds.east - bounds.west) * (bounds.north - bounds.south)
}

/// The corners of a child's area.
fn corners(area: &str) -> Vec<[f64; 2]> {
    let area: serde_json::Value = serde_json::from_str(area).unwrap();
    serde_json::from_value(area["coordinates"][0].clone()).unwrap()
}

proptest! {
    #[test]
    fn areas_nest_and_the_tiles_of_a_manager_cover_it_without_overlapping(
        levels in prop::collection::vec(1_usize..6, 1..4),
        agents in 1_usize..8,
        seed in any::<u64>(),
        (west, south) in (-170.0..170.0_f64, -80.0..80.0_f64),
        (width, height) in (0.01..10.0_f64, 0.01..10.0_f64),
    ) {
        let text = levels.iter().chain([&agents]).map(usize::to_string).collect::<Vec<_>>().join("x");
        let bounds = BoundingBox { west, south, east: west + width, north: south + height };
        let places = text.parse::<TreeSpec>().unwrap().places(bounds);
        for (index, place) in places.iter().enumerate() {
            let below: Vec<&ManagerPlace> = places.iter().filter(|other| other.parent == Some(index)).collect();
            let covered: f64 = below.iter().map(|below| size(&below.bounds)).sum();
            prop_assert!(below.is_empty() || (covered / size(&place.bounds) - 1.0).abs() < 1e-6);
            for (at, one) in below.iter().enumerate() {
                prop_assert!(is_within(&one.bounds, &place.bounds));
                prop_assert!(below[..at].iter().all(|other| is_apart(&one.bounds, &other.bounds)));
            }
            for agent in 0..place.agents {
                for [x, y] in corners(area_of(agent, place.agents, seed, &place.bounds).get()) {
                    let BoundingBox { west, south, east, north } = place.bounds;
                    prop_assert!(west < x && x < east && south < y && y < north);
                }
            }
        }
        prop_assert_eq!(places.iter().map(|place| place.agents).sum::<usize>(), levels.iter().product::<usize>() * agents);
    }
}
