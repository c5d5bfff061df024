//! Where those are who would take part in a release, before it is submitted.

use serde_json::{Value, json};

use super::{child_at, rectangle};
use crate::{
    http::tenants::Shared,
    world::{World, strategy},
};

async fn planned(world: &World, yaml: &str) -> Value {
    world.submit_to("/api/v1/plan?map=true", yaml).await.ok().json()["map"].clone()
}

/// State → children, over all cells.
fn sums(map: &Value, state: &str) -> u64 {
    let cells = map["cells"]["cells"].as_array().unwrap().iter();
    cells.filter_map(|cell| cell["counts"][state].as_u64()).sum()
}

fn in_waves(order: &str) -> String {
    strategy("a") + order
}

#[tokio::test]
async fn who_would_take_part_is_counted_where_they_are_by_wave() {
    let world = World::start().await;
    for east in [13.0, 13.0, 40.0] {
        child_at(&world, Some(rectangle(east, 52.0, east + 1.0, 53.0))).await;
    }
    child_at(&world, None).await;
    let map = planned(&world, &in_waves("rollout: {order: waves, waves: [1, 2, 100%]}\n")).await;
    let [west, south, east, north] = serde_json::from_value::<[f64; 4]>(map["window"].clone()).unwrap();
    assert!(west < 13.5 && east > 40.5 && south < 52.5 && north > 52.5, "{map}");
    let cells = map["cells"]["cells"].as_array().unwrap();
    let seen: Vec<(&Value, &Value)> = cells.iter().map(|cell| (&cell["counts"], &cell["waves"])).collect();
    let (two, one) = (json!({"waiting": 2}), json!({"waiting": 1}));
    assert_eq!(seen, [(&two, &json!([1, 2])), (&one, &json!([3, 3]))]);
    assert_eq!(map["cells"]["without_place"], json!({"waiting": 1}));
    // Nobody asked, nobody is told.
    let plan = world.submit_to("/api/v1/plan", &strategy("a")).await.ok().json();
    assert_eq!(plan.get("map"), None);
    // Location after location, each is a wave of its own, the nearest first.
    let map =
        planned(&world, &in_waves("rollout: {order: location_sequential, start_at: [40.5, 52.5]}\n")).await;
    let cells = map["cells"]["cells"].as_array().unwrap();
    assert_eq!(cells.last().unwrap()["waves"], json!([1, 1]), "{map}");
    world.stop().await;
}

#[tokio::test]
async fn map_shows_targets_at_antimeridian_pole_empty_and_worldwide() {
    let world = World::start().await;
    // Fiji from both sides, and who lives at the pole.
    let areas = [rectangle(177.0, -19.0, 179.0, -17.0), rectangle(-180.0, -19.0, -178.0, -17.0)];
    for area in areas.into_iter().chain([rectangle(10.0, 88.0, 20.0, 90.0)]) {
        child_at(&world, Some(area)).await;
    }
    let fiji = "target: {area: {type: MultiPolygon, coordinates: [[[[177,-19],[180,-19],[180,-16],[177,-16],[177,-19]]],\
                [[[-180,-19],[-178,-19],[-178,-16],[-180,-16],[-180,-19]]]]}}\n";
    let map = planned(&world, &in_waves(fiji)).await;
    let [west, _, east, _] = serde_json::from_value::<[f64; 4]>(map["window"].clone()).unwrap();
    assert!(west < 178.0 && east > 181.0 && east - west < 20.0, "the short way around: {map}");
    assert_eq!((sums(&map, "waiting"), map["target"].as_array().unwrap().len()), (2, 2));
    let pole = "target: {area: {type: Polygon, coordinates: [[[0,85],[30,85],[30,90],[0,90],[0,85]]]}}\n";
    let map = planned(&world, &in_waves(pole)).await;
    let [_, south, _, north] = serde_json::from_value::<[f64; 4]>(map["window"].clone()).unwrap();
    assert!(south < 89.0 && north <= 90.0, "{map}");
    assert_eq!(sums(&map, "waiting"), 1);
    let nobody = "target: {area: {type: Polygon, coordinates: [[[0,0],[1,0],[1,1],[0,1],[0,0]]]}}\n";
    let map = planned(&world, &in_waves(nobody)).await;
    assert_eq!(map["window"], json!([-180.0, -90.0, 180.0, 90.0]));
    assert_eq!((sums(&map, "waiting"), sums(&map, "no_part")), (0, 3));
    let map = planned(&world, &strategy("a")).await;
    assert_eq!((sums(&map, "waiting"), map.get("target")), (3, None));
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_plans_over_its_own_children_alone() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.child_of("umbra").await;
    for (who, all) in [("ann", 1), ("uma", 1)] {
        let request = shared.world.request("POST", "/api/v1/plan?map=true").bearer_auth(Shared::secret(who));
        let request = request.header("content-type", "application/yaml").body(strategy("a"));
        let map = shared.world.send(request).await.ok().json()["map"].clone();
        assert_eq!((sums(&map, "waiting"), sums(&map, "no_part")), (all, 0), "{who} {map}");
    }
    shared.world.stop().await;
}
