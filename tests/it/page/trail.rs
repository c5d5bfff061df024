//! What happened in a release, from its first entry to its last.

use serde_json::{Value, json};

use super::read::{page, text_of};
use crate::world::{World, strategy};

/// The ids of the entries that a page shows.
fn entries(html: &str) -> Vec<String> {
    let ids = html.split("<li id=\"e").skip(1).filter_map(|entry| entry.split('"').next());
    ids.map(str::to_owned).collect()
}

/// Where the link leads that says this.
fn link(html: &str, words: &str) -> Option<String> {
    let link = html.split("<a ").find(|link| text_of(&format!("<{link}")).starts_with(words))?;
    let (_, href) = link.split_once("href=\"")?;
    Some(href.split('"').next().unwrap().replace("&amp;", "&"))
}

/// All pages from this one on, by links that say this.
async fn walked(world: &World, first: &str, words: &str) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut next) = (Vec::new(), 0, Some(first.to_owned()));
    while let Some(path) = next {
        let html = page(world, &path).await;
        ids.extend(entries(&html));
        pages += 1;
        next = link(&html, words);
    }
    (ids, pages)
}

/// As the API has them.
async fn told(world: &World, query: &str) -> Vec<String> {
    let all = world.get(&format!("/api/v1/audit?release=a&limit=1000&{query}")).await.ok().json();
    assert_eq!(all["next"], Value::Null);
    all["items"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn all_of_a_trail_can_be_read_page_by_page() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    let few = page(&world, "/ui/releases/a").await;
    assert_eq!(link(&few, "Older entries"), None);
    world.submit(&strategy("b")).await.ok();
    for _ in 0..60 {
        world.post("/api/v1/releases/b/pause", &json!({"note": "<b>bold"})).await.ok();
        world.call("POST", "/api/v1/releases/b/resume").await.ok();
    }
    let first = page(&world, "/ui/releases/b").await;
    assert_eq!(entries(&first).len(), 100);
    assert!(first.contains("&lt;b&gt;bold") && !first.contains("<b>bold"), "{first}");
    // From the release's own page on, and from the first page of the trail.
    let all = world.get("/api/v1/audit?release=b&told=true&limit=1000").await.ok().json();
    let all: Vec<_> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    for from in ["/ui/releases/b", "/ui/releases/b/trail"] {
        let (ids, pages) = walked(&world, from, "Older entries").await;
        assert_eq!((ids, pages), (all.clone(), 2), "{from}");
    }
    let second = page(&world, &link(&first, "Older entries").unwrap()).await;
    assert_eq!(entries(&page(&world, &link(&second, "The newest entries").unwrap()).await), entries(&first));
    world.stop().await;
}

#[tokio::test]
async fn what_single_children_did_is_shown_if_it_is_asked_for_and_leads_to_them() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    let whole = link(&page(&world, "/ui/releases/a").await, "All that happened").unwrap();
    assert_eq!(whole, "/ui/releases/a/trail");
    let html = page(&world, &whole).await;
    assert_eq!(entries(&html), told(&world, "told=true").await);
    assert!(!html.contains(&format!("href=\"/ui/children/{child}\"")), "{html}");
    let steps = link(&html, "With what single children did").unwrap();
    let html = page(&world, &steps).await;
    assert_eq!(entries(&html), told(&world, "").await);
    assert!(html.contains(&format!("href=\"/ui/children/{child}\"")), "{html}");
    assert!(html.contains("aria-current=\"true\">With what single children did"), "{html}");
    let empty = page(&world, &format!("{steps}&after=99999999-0")).await;
    assert!(empty.contains("There is nothing on this page."), "{empty}");
    assert_eq!(world.get("/ui/releases/none/trail").await.status, 404);
    world.stop().await;
}
