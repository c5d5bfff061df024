//! What a manager reports of where it is, before anybody is below it and after.

use serde_json::json;

use super::levels::{parent, url};
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_manager_has_no_children_its_own_area_is_reported() {
    let root = World::start().await;
    let own =
        r#"{"coordinates":[[[13.0,52.0],[14.0,52.0],[14.0,53.0],[13.0,53.0],[13.0,52.0]]],"type":"Polygon"}"#;
    let mut settings = parent(url(&root));
    settings.service_area = Some(own.to_owned());
    let middle = World::with(|options| options.parent = Some(settings)).await;
    let listed = root.until("/api/v1/children", |list| list["items"].as_array().unwrap().len() == 1).await;
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/children/{id}");
    let shown = root.until(&path, |child| !child["area"].is_null()).await;
    assert_eq!(shown["area"], serde_json::from_str::<serde_json::Value>(own).unwrap());
    assert_eq!(shown["kind"], json!("rm"));
    // Those who are there say more exactly where that is.
    middle.child().await;
    let area: serde_json::Value = serde_json::from_str(crate::world::AREA).unwrap();
    root.until(&path, |child| child["area"] == area).await;
    for world in [middle, root] {
        world.stop().await;
    }
}
