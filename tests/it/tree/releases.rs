//! The releases of managers below, shown at the top.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    levels::{below, manager_of, parent, url},
    questions::poll,
};
use crate::{
    cli::registry::said,
    world::{World, strategy},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_two_levels_below_are_listed_and_shown_at_the_top() {
    let root = World::start().await;
    let middle = below(&root).await;
    let lowest = below(&middle).await;
    lowest.child().await;
    let lowest_id = manager_of(&middle, 1).await;
    let middle_id = manager_of(&root, 1).await;
    let path = format!("{middle_id}/{lowest_id}");
    for id in ["first", "second"] {
        lowest.submit(&strategy(id)).await.ok();
    }
    middle.submit(&strategy("between")).await.ok();
    let all_are_there = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 3);
    lowest.until("/api/v1/releases", all_are_there).await;
    root.until(&format!("/api/v1/children?below={path}"), |page| page["items"].is_array()).await;

    let listed = root.get(&format!("/api/v1/releases?below={path}&limit=2&counts=true")).await.ok().json();
    let own = lowest.get("/api/v1/releases?limit=2&counts=true").await.ok().json();
    let ids = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&listed), &listed["next"], &listed["open"]), (ids(&own), &own["next"], &own["open"]));
    let next = listed["next"].as_str().unwrap();
    let rest = root.get(&format!("/api/v1/releases?below={path}&limit=2&after={next}")).await.ok().json();
    assert_eq!((ids(&rest).len(), &rest["next"]), (1, &Value::Null), "{rest:#}");
    // By the names of managers, too.
    let shown = said(&root, Path::new("."), &["release", "list", "--below", "middle/middle"]).await;
    assert!(shown.contains("\nsecond  ") && shown.contains("\nbetween  "), "{shown}");
    let named = root.get(&format!("/api/v1/releases?below={path}&name=SEC")).await.ok().json();
    assert_eq!(ids(&named), [json!("second")]);

    let shown = root.get(&format!("/api/v1/releases/first?manager={path}")).await.ok().json();
    assert_eq!(shown["strategy"], lowest.get("/api/v1/releases/first").await.ok().json()["strategy"]);
    assert_eq!(root.get(&format!("/api/v1/releases/nothing?manager={path}")).await.status, 404);
    assert_eq!(root.get(&format!("/api/v1/releases/first?manager={middle_id}")).await.status, 404);
    assert_eq!(root.get("/api/v1/releases/first?manager=nobody").await.status, 404);
    assert_eq!(root.get(&format!("/api/v1/releases/first?manager={path}&below=true")).await.status, 400);
    // Nothing of it is kept here.
    assert_eq!(root.get("/api/v1/releases/first").await.status, 404);
    for world in [lowest, middle, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_people_reach_a_manager_is_told_above_and_nothing_else_is_taken_for_it() {
    let root = World::start().await;
    let mut above = parent(url(&root));
    above.public_url = Some("https://middle.example/choir".to_owned());
    let middle = World::with(|options| options.parent = Some(above)).await;
    middle.child().await;
    let id = manager_of(&root, 1).await;
    let path = format!("/api/v1/children/{id}");
    root.until(&path, |child| child["public_url"] == "https://middle.example/choir").await;
    let root = root.restart().await;
    assert_eq!(root.get(&path).await.ok().json()["public_url"], "https://middle.example/choir");
    let page = root.get(&format!("/ui/children/{id}")).await.ok().text();
    assert!(
        page.contains("<a href=\"https://middle.example/choir\" rel=\"noreferrer noopener external\""),
        "{page}"
    );
    let mut told = poll("", &["questions"]);
    for (wrong, status) in [
        ("javascript:alert(1)", 400),
        ("http://middle.example", 400),
        ("https://user:word@middle.example", 400),
        ("https://middle.example/?q=\"", 400),
        ("http://127.0.0.1:8080", 200),
    ] {
        told["capabilities"]["public_url"] = json!(wrong);
        assert_eq!(root.post("/poll", &told).await.status, status, "{wrong}");
    }
    middle.stop().await;
    root.stop().await;
}
