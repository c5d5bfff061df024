//! Where children are shown: across the antimeridian, at the poles, all at one point, nowhere.

use serde_json::{Value, json};

use super::{Map, child_at, map_of, rectangle};
use crate::world::{World, strategy};

const DEGREE: f64 = 1e7;

fn at(map: &Map, place: usize) -> (f64, f64, u8) {
    let (x, y, state, _) = map.children.values().nth(place).copied().unwrap();
    (f64::from(x) / DEGREE, f64::from(y) / DEGREE, state)
}

#[tokio::test]
async fn the_fleet_is_shown_where_it_is() {
    let world = World::start().await;
    let areas = [
        Some(rectangle(13.0, 52.0, 14.0, 53.0)),
        // Fiji: across the antimeridian, with longitudes beyond it.
        Some(rectangle(179.0, -19.0, 183.0, -17.0)),
        Some(rectangle(-180.0, -90.0, 180.0, 90.0)),
        Some(rectangle(-180.0, 89.0, 180.0, 90.0)),
        None,
        Some(rectangle(13.0, 52.0, 14.0, 53.0)),
    ];
    for area in areas {
        child_at(&world, area).await;
    }
    let map = map_of(&world, "/api/v1/map").await;
    let close = |place: usize, east: f64, north: f64, state: u8| {
        let (x, y, found) = at(&map, place);
        assert!((x - east).abs() < 1e-5 && (y - north).abs() < 1e-5, "{place}: {x} {y}");
        assert_eq!(found, state, "{place}");
    };
    let (heard, wide) = (0x0e, 0x0e | 0x40);
    close(0, 13.5, 52.5, heard);
    close(1, -179.0, -18.0, heard);
    close(2, 0.0, 0.0, wide);
    close(3, 0.0, 89.5, wide);
    assert_eq!(map.children.values().nth(4).unwrap().0, i32::MIN);
    close(5, 13.5, 52.5, heard);
    // Around the antimeridian, in one box.
    let cells = world.get("/api/v1/map/cells?box=170,-30,190,0&columns=2").await.ok().json();
    assert_eq!(cells["cells"].as_array().unwrap().len(), 1, "{cells}");
    assert_eq!(
        (&cells["cells"][0]["counts"], &cells["cells"][0]["west"]),
        (&json!({"heard": 1}), &json!(180.0))
    );
    assert_eq!((&cells["total"], &cells["without_place"]), (&json!({"heard": 6}), &json!({"heard": 1})));
    let all = world.get("/api/v1/map/cells?columns=60").await.ok().json();
    let counted =
        all["cells"].as_array().unwrap().iter().map(|cell| cell["counts"]["heard"].as_u64().unwrap());
    assert_eq!(counted.sum::<u64>(), 5);
    // An area across it is met from both sides, and the one of the whole world everywhere.
    for view in ["175,-30,185,0", "-185,-30,-175,0"] {
        let areas = world.get(&format!("/api/v1/map/areas?box={view}")).await.ok().json();
        assert_eq!(areas["areas"].as_array().unwrap().len(), 2, "{areas}");
    }
    world.stop().await;
}

/// As RFC 7946 wants it: two polygons, of which neither lies across.
fn cut(south: f64, north: f64, east_of: f64, west_of: f64) -> Value {
    let part =
        |west: f64, east: f64| rectangle(west, south, east, north)["coordinates"].as_array().unwrap().clone();
    json!({"type": "MultiPolygon", "coordinates": [part(east_of, 180.0), part(-180.0, west_of)]})
}

#[tokio::test]
async fn what_is_cut_at_the_antimeridian_is_shown_beside_it() {
    let world = World::start().await;
    let fiji = child_at(&world, Some(cut(-19.0, -17.0, 177.0, -179.0))).await;
    child_at(&world, Some(rectangle(-180.0, -19.0, 180.0, -17.0))).await;
    child_at(&world, Some(cut(60.0, 70.0, 70.0, -60.0))).await;
    let map = map_of(&world, "/api/v1/map").await;
    let (heard, wide) = (0x0e, 0x0e | 0x40);
    // Fiji; all around the globe; and beside the antimeridian, over more than half of it.
    let shown = [(179.0, -18.0, heard), (0.0, -18.0, wide), (-175.0, 65.0, wide)];
    for (place, (east, north, state)) in shown.into_iter().enumerate() {
        let (x, y, found) = at(&map, place);
        assert!((x - east).abs() < 1e-5 && (y - north).abs() < 1e-5, "{place}: {x} {y}");
        assert_eq!(found, state, "{place}");
    }
    let listed = world.get(&format!("/api/v1/children/{fiji}")).await.ok().json();
    assert_eq!(listed["place"], "18.0000S 179.0000E");
    let cells = world.get("/api/v1/map/cells?box=170,-30,190,0&columns=2").await.ok().json();
    assert_eq!(cells["cells"].as_array().unwrap().len(), 1, "{cells}");
    world.submit(&strategy("a")).await.ok();
    let actions = world.get("/api/v1/releases/a/actions").await.ok().json();
    let abort = actions["actions"].as_array().unwrap().iter().find(|one| one["action"] == "abort").unwrap();
    assert_eq!(abort["places"][0], "18.0000S 179.0000E");
    world.stop().await;
}

#[tokio::test]
async fn an_outline_has_no_more_corners_than_are_seen() {
    let world = World::start().await;
    // A circle of 900 corners.
    let corner = |at: u32| {
        let angle = f64::from(at) / 900.0 * std::f64::consts::TAU;
        json!([13.0 + angle.cos(), 52.0 + angle.sin() / 2.0])
    };
    let mut ring: Vec<Value> = (0..900).map(corner).collect();
    ring.push(ring[0].clone());
    child_at(&world, Some(json!({"type": "Polygon", "coordinates": [ring]}))).await;
    for view in ["11,51,15,53", "-180,-90,180,90"] {
        let areas = world.get(&format!("/api/v1/map/areas?box={view}")).await.ok().json();
        let rings = areas["areas"][0]["rings"].as_array().unwrap();
        let ring = rings[0].as_array().unwrap();
        assert_eq!((rings.len(), ring.first()), (1, ring.last()));
        assert!((4..=64).contains(&ring.len()), "{}", ring.len());
    }
    assert_eq!(world.get("/api/v1/map/areas?box=100,0,110,10").await.ok().json()["areas"], json!([]));
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_box_and_nobody_is_refused() {
    let world = World::start().await;
    let child = child_at(&world, Some(rectangle(13.0, 52.0, 14.0, 53.0))).await;
    for wrong in
        ["1,2,3", "1,2,3,4,5", "3,2,1,4", "0,0,361,1", "a,b,c,d", "0,-91,1,1", "NaN,0,1,1", "0,0,inf,1"]
    {
        let answer = world.get(&format!("/api/v1/map/cells?box={wrong}")).await;
        assert!(answer.problem().starts_with("400 about:blank: `box` is WEST,SOUTH,EAST,NORTH"), "{wrong}");
    }
    for columns in ["0", "61"] {
        assert_eq!(world.get(&format!("/api/v1/map/cells?columns={columns}")).await.status, 400);
    }
    for number in ["999", "-1", "x"] {
        assert_eq!(world.get(&format!("/api/v1/map/children/{number}")).await.status, 404, "{number}");
    }
    let number = *map_of(&world, "/api/v1/map").await.children.keys().next().unwrap();
    let one = world.get(&format!("/api/v1/map/children/{number}")).await.ok().json();
    assert_eq!(
        (&one["id"], &one["state"], &one["place"]),
        (&json!(child), &json!("heard"), &json!("52.5000N 13.5000E"))
    );
    for path in ["map", "map/cells", "map/areas", "map/changes", "map/history"] {
        let answer = world.get(&format!("/api/v1/releases/x/{path}")).await;
        assert_eq!(answer.problem(), "404 /problems/unknown-release: release x is not known", "{path}");
    }
    world.submit(&strategy("a")).await.ok();
    let after = world.get("/api/v1/releases/a/map/changes?after=x").await;
    assert_eq!(after.problem(), "400 about:blank: an event's id looks like 12-0");
    world.stop().await;
}
