//! The tree: a level at a time, from what is known here, and below by asking.

use serde_json::{Value, json};

use super::{
    read::{html, page, text_of},
    releases::differs,
};
use crate::{
    tree::levels::{below, manager_of},
    world::{AREA, STAGE, World, strategy},
};

/// A root, a manager below it, and one below that with two agents; the ids of both at their parents, and the agents.
async fn three_levels() -> ([World; 3], String, String, [String; 2]) {
    let root = World::start().await;
    let middle = below(&root).await;
    let lowest = below(&middle).await;
    let agents = [lowest.child().await, lowest.child().await];
    let lowest_id = manager_of(&middle, 2).await;
    let middle_id = manager_of(&root, 2).await;
    let deep = format!("/api/v1/tree?below={middle_id}/{lowest_id}");
    root.until(&deep, |level| level["items"].as_array().map(Vec::len) == Some(2)).await;
    ([root, middle, lowest], middle_id, lowest_id, agents)
}

fn ids(level: &Value) -> Vec<&str> {
    level["items"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_is_told_by_whoever_knows_it_with_sums() {
    let ([root, middle, lowest], middle_id, lowest_id, agents) = three_levels().await;
    let path = format!("/api/v1/children/{}/cordon", agents[1]);
    lowest.call("POST", &path).await.ok();
    let top = root.get("/api/v1/tree").await.ok().json();
    assert_eq!(ids(&top), [middle_id.as_str()]);
    let sum = json!({"agents": 2, "done": 0, "failed": 0, "held": 0, "silent": 0});
    assert_eq!((&top["sum"], &top["items"][0]["sum"]), (&sum, &sum));
    assert_eq!((&top["items"][0]["kind"], &top["items"][0]["state"]), (&json!("rm"), &json!("heard")));
    let second = root.get(&format!("/api/v1/tree?below={middle_id}")).await.ok().json();
    assert_eq!(ids(&second), [lowest_id.as_str()]);
    let deep = format!("/api/v1/tree?below={middle_id}/{lowest_id}");
    let third = root.get(&deep).await.ok().json();
    assert_eq!(ids(&third), [agents[0].as_str(), agents[1].as_str()]);
    assert_eq!(third["items"][1]["state"], "cordoned");
    assert_eq!(third["sum"], json!({"agents": 2, "done": 0, "failed": 0, "held": 1, "silent": 0}));
    // As the lowest says itself.
    let own = lowest.get("/api/v1/tree").await.ok().json();
    assert_eq!((&own["sum"], ids(&own)), (&third["sum"], ids(&third)));
    // A page at a time, with the sum of all.
    let first = root.get(&(deep.clone() + "&limit=1")).await.ok().json();
    assert_eq!((ids(&first), &first["sum"]), (vec![agents[0].as_str()], &third["sum"]));
    let after = first["next"].as_str().unwrap();
    let rest = root.get(&format!("{deep}&limit=1&after={after}")).await.ok().json();
    assert_eq!((ids(&rest), &rest["next"]), (vec![agents[1].as_str()], &Value::Null));
    for world in [lowest, middle, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_followed_down_the_tree_and_managers_open_by_links() {
    let ([root, middle, lowest], middle_id, lowest_id, agents) = three_levels().await;
    root.submit(&strategy("seen")).await.ok();
    lowest.until("/api/v1/releases/seen", |shown| shown["state"] == "Running").await;
    let (_, offer) = lowest.poll(&agents[0]).await;
    lowest.fetch(&agents[0], &offer).await.ok();
    lowest.report(&agents[0], &offer, STAGE, 5).await.ok();
    let deep = format!("/api/v1/tree?release=seen&below={middle_id}/{lowest_id}");
    let level = root.until(&deep, |level| level["sum"]["failed"] == 1).await;
    assert_eq!(level["items"][0]["state"], "failed");
    let top = root.until("/api/v1/tree?release=seen", |level| level["sum"]["failed"] == 1).await;
    assert_eq!(top["items"][0]["sum"]["agents"], 2);

    let closed = page(&root, "/ui/tree?release=seen").await;
    assert!(!closed.contains(&agents[0]));
    let open = format!("/ui/tree?release=seen&open={middle_id}&open={middle_id}%2F{lowest_id}");
    let first = closed.split_once("class=\"turn\" href=\"").unwrap().1.split_once('"').unwrap().0;
    assert_eq!(first.replace("&amp;", "&"), format!("/ui/tree?release=seen&open={middle_id}"));
    let text = page(&root, &open).await;
    for agent in &agents {
        assert!(text.contains(&format!("<bdi>{agent}</bdi>")), "{text}");
    }
    assert_eq!(text.matches("<details open>").count(), 2);
    let said = text_of(&text);
    assert!(said.contains("2 agents: 0 done, 1 failed, 0 held, 0 silent"), "{said}");
    // What lies below one that is closed is not opened.
    let hidden = page(&root, &format!("/ui/tree?open={middle_id}%2F{lowest_id}")).await;
    assert!(!hidden.contains(&agents[0]));
    // A level of its own has the way back.
    let alone = page(&root, &format!("/ui/tree?below={middle_id}%2F{lowest_id}")).await;
    assert!(alone.contains(&agents[1]) && alone.contains("href=\"/ui/tree\""), "{alone}");

    // The manager below, with what it answers.
    let manager = page(&root, &format!("/ui/children/{middle_id}")).await;
    assert!(manager.contains(&format!("/ui/children?below={middle_id}")), "{manager}");
    let listed = page(&root, &format!("/ui/children?below={middle_id}%2F{lowest_id}")).await;
    assert!(agents.iter().all(|agent| listed.contains(agent.as_str())));
    let releases = page(&root, &format!("/ui/below/releases?below={middle_id}")).await;
    assert!(releases.contains("data-key=\"seen\""), "{releases}");
    let one = format!("/ui/below/releases/seen?below={middle_id}");
    assert!(releases.contains(&format!("href=\"{one}\"")), "{releases}");
    // As that manager shows it, to be read only.
    let own = middle.get("/api/v1/releases/seen").await.ok().json();
    let shown = page(&root, &one).await;
    assert_eq!(differs(&own, &shown), Vec::<String>::new());
    assert!(!shown.contains("<form class=\"action\"") && !shown.contains("/ui/releases/seen"), "{shown}");
    assert_eq!(root.get(&format!("/ui/below/releases/none?below={middle_id}")).await.status, 404);
    assert_eq!(root.get("/ui/below/releases/seen").await.status, 400);

    lowest.stop().await;
    // One that doesn't answer says so where it is open; the rest of the page is there.
    let text = html(root.get(&open).await.ok());
    assert!(
        text.contains(&lowest_id) && text_of(&text).contains("the manager below was asked, and"),
        "{text}"
    );
    for world in [middle, root] {
        world.stop().await;
    }
}

#[tokio::test]
async fn a_page_of_the_tree_says_whom_it_has_no_room_for() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut managers = Vec::new();
    for at in 0..18 {
        let poll = json!({"id": "", "geographic_area": area, "number_of_children": 1,
            "kind": "rm", "name": format!("m{at}"), "capabilities": {"leads": "whole", "public_url": format!("https://m{at}.example")}});
        let id = world.post("/poll", &poll).await.ok().json()["id"].as_str().unwrap().to_owned();
        let mut again = poll;
        again["id"] = json!(id);
        world.post("/poll", &again).await.ok();
        managers.push(id);
    }
    managers.sort();
    let open = managers.iter().map(|id| format!("open={id}")).collect::<Vec<_>>().join("&");
    let text = page(&world, &format!("/ui/tree?{open}")).await;
    assert_eq!(text.matches("<details open>").count(), 16);
    let said = "This page has no room for another one that is open.";
    assert_eq!(text.matches(said).count(), 2);
    for id in &managers[16..] {
        let row = text.split(&format!("data-key=\"{id}\"")).nth(1).unwrap().split("</li>").next().unwrap();
        assert!(row.contains(said) && row.contains(&format!("href=\"/ui/tree?below={id}\"")), "{row}");
    }
    let sixteen = managers[..16].iter().map(|id| format!("open={id}")).collect::<Vec<_>>().join("&");
    assert!(!page(&world, &format!("/ui/tree?{sixteen}")).await.contains(said));
    // Each has a page of its own, which it named.
    let level = world.get("/api/v1/tree").await.ok().json();
    for node in level["items"].as_array().unwrap() {
        let url = node["public_url"].as_str().unwrap();
        assert!(text.contains(&format!("<a href=\"{url}\" rel=\"noreferrer noopener external\">")), "{url}");
    }
    world.stop().await;
}
