//! Pages of children say what the API says.

use serde_json::{Value, json};

use super::read::{Browser, all, fields, html, page, rows, said, text_of};
use crate::{
    http::tenants::Shared,
    random::Random,
    world::{AREA, STAGE, World, settled, strategy},
};

/// What somebody may call something, to be shown as text.
const HOSTILE: [&str; 4] = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script>",
    "\u{202e}txt.exe & 'more'",
    "שלום 🐙🐙🐙",
];

async fn poll(world: &World, body: &Value) -> String {
    let mut body = body.clone();
    body["number_of_children"] = json!(0);
    poll_as(world, &body).await
}

async fn poll_as(world: &World, body: &Value) -> String {
    let mut body = body.clone();
    body["geographic_area"] = serde_json::from_str(AREA).unwrap();
    let id = world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned();
    body["id"] = json!(id);
    world.post("/poll", &body).await.ok();
    id
}

/// Children in whatever states a seed makes of them.
async fn fleet(world: &World, random: &mut Random) -> Vec<String> {
    let mut children = Vec::new();
    for at in 0..24 {
        let mut body = json!({"id": "", "kind": "agent"});
        if random.chance(0.5) {
            body["name"] = json!(format!("{} {at}", HOSTILE[at % HOSTILE.len()]));
        }
        let child = poll(world, &body).await;
        if random.chance(0.4) {
            let path = format!("/api/v1/children/{child}/labels/tier");
            let value = HOSTILE[(at + 1) % HOSTILE.len()];
            world.send_json("PUT", &path, &json!({"value": value})).await.ok();
        }
        for (what, chance) in [("cordon", 0.2), ("drain", 0.1)] {
            if random.chance(chance) {
                world.call("POST", &format!("/api/v1/children/{child}/{what}")).await.ok();
            }
        }
        children.push(child);
    }
    world.submit(&strategy("first")).await.ok();
    for child in &children {
        let (_, offer) = world.poll(child).await;
        if offer.is_empty() || random.chance(0.3) {
            continue;
        }
        world.fetch(child, &offer).await.ok();
        if random.chance(0.7) {
            let status = if random.chance(0.3) { 5 } else { 2 };
            world.report(child, &offer, STAGE, status).await;
        }
    }
    children
}

#[tokio::test]
async fn lists_and_pages_of_children_say_what_the_api_says_of_random_fleets() {
    for seed in 0..3 {
        let world = World::start().await;
        fleet(&world, &mut Random::new(seed)).await;
        let known = all(&world, "/api/v1/children").await;
        let shown = rows(&page(&world, "/ui/children").await);
        assert_eq!(shown.len(), known.len());
        for child in &known {
            let id = child["id"].as_str().unwrap();
            let row = &shown[id];
            assert_eq!(settled(&row["doing"]), said(&child["doing"]), "{child}");
            assert_eq!(row["place"], said(&child["place"]), "{child}");
            assert_eq!(row["kind"].contains("cordoned"), child["cordon"] == "cordoned", "{row:?}");
            assert_eq!(row["kind"].contains("drained"), child["cordon"] == "drained", "{row:?}");
            let labels: String = child["labels"]
                .as_object()
                .unwrap()
                .iter()
                .fold(String::new(), |all, (key, value)| all + &format!("{key}:{}", said(value)));
            assert_eq!(row["labels"], if labels.is_empty() { "–".to_owned() } else { labels });
            let one = page(&world, &format!("/ui/children/{id}")).await;
            let facts = fields(&one);
            for name in ["place", "labels"] {
                assert_eq!(facts[name], row[name]);
            }
            assert_eq!(settled(&facts["doing"]), settled(&row["doing"]));
            for release in child["releases"].as_array().unwrap() {
                let link = format!("<a href=\"/ui/releases/{}\"", release.as_str().unwrap());
                assert!(one.contains(&link), "{one}");
            }
            let runs = all(&world, &format!("/api/v1/deployments?child={id}")).await;
            let told = rows(&one);
            assert_eq!(told.len(), runs.len());
            for run in runs {
                let row = &told[run["function"].as_str().unwrap()];
                for name in ["variant", "path", "release"] {
                    assert_eq!(row[name], said(&run[name]));
                }
            }
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn who_takes_part_in_a_release_is_shown_with_what_each_waits_for_and_reported() {
    let world = World::start().await;
    fleet(&world, &mut Random::new(7)).await;
    let known = all(&world, "/api/v1/releases/first/children").await;
    let shown = rows(&page(&world, "/ui/releases/first/children").await);
    assert_eq!(shown.len(), known.len());
    assert!(known.iter().any(|child| !child["results"].as_array().unwrap().is_empty()));
    for child in &known {
        let row = &shown[child["child"].as_str().unwrap()];
        assert_eq!(settled(&row["waits_for"]), said(&child["waits_for"]));
        assert_eq!(row["wave"], child["wave"].to_string());
        assert_eq!(row["stage"], format!("{} {}", said(&child["stage"]), said(&child["stage_status"])));
        for result in child["results"].as_array().unwrap() {
            assert!(row["results"].contains(&said(&result["status"])), "{row:?}");
            for (key, value) in result["summary"].as_object().unwrap() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                assert!(row["results"].contains(&format!("{key}{value}")), "{key} {value}: {row:?}");
            }
        }
    }
    for status in ["Todo", "Doing", "Done", "Failed"] {
        let path = format!("/releases/first/children?status={status}");
        let known = all(&world, &format!("/api/v1{path}")).await;
        assert_eq!(rows(&page(&world, &format!("/ui{path}")).await).len(), known.len(), "{status}");
    }
    let first = page(&world, "/ui/releases/first").await;
    assert!(first.contains("href=\"/ui/releases/first/children\""));
    world.stop().await;
}

#[tokio::test]
async fn filters_and_further_pages_of_children_are_those_of_the_api() {
    let world = World::start().await;
    let children = fleet(&world, &mut Random::new(11)).await;
    for query in
        ["cordon=cordoned", "cordon=drained", "cordon=open", "kind=rm", "kind=agent", "silent_for=5m"]
    {
        let known = all(&world, &format!("/api/v1/children?{query}")).await;
        let shown = rows(&page(&world, &format!("/ui/children?{query}")).await);
        let ids = known.iter().map(|child| child["id"].as_str().unwrap().to_owned());
        assert_eq!(shown.into_keys().collect::<Vec<_>>(), {
            let mut ids: Vec<String> = ids.collect();
            ids.sort();
            ids
        });
    }
    let (mut path, mut seen) = ("/ui/children?limit=10&cordon=".to_owned(), 0);
    loop {
        let text = page(&world, &path).await;
        seen += rows(&text).len();
        let Some((_, rest)) = text.split_once("<a rel=\"next\" href=\"") else { break };
        path = rest.split_once('"').unwrap().0.replace("&amp;", "&");
    }
    assert_eq!(seen, children.len());
    // What the API refuses is said in its words.
    let refused = world.get("/ui/children?cordon=x").await;
    assert_eq!(refused.status, 400);
    assert!(text_of(&refused.text()).contains("`cordon` is one of open, cordoned, drained"));
    world.stop().await;
}

#[tokio::test]
async fn names_and_labels_with_markup_are_text() {
    let world = World::start().await;
    for (at, hostile) in HOSTILE.into_iter().enumerate() {
        let labels = json!({ "tier": hostile });
        let body = json!({"id": "", "kind": "agent", "name": hostile, "capabilities": {"labels": labels}});
        let child = poll(&world, &body).await;
        let path = format!("/api/v1/children/{child}/labels/own-{at}");
        world.send_json("PUT", &path, &json!({"value": hostile})).await.ok();
        for path in ["/ui/children".to_owned(), format!("/ui/children/{child}"), "/ui/tree".to_owned()] {
            let text = page(&world, &path).await;
            for mark in ["<img", "<script>alert", "onerror=alert(1)>"] {
                assert!(!text.contains(mark), "{path} has {mark}");
            }
            let escaped = hostile.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let escaped = escaped.replace('"', "&quot;");
            assert!(text.contains(&format!("<bdi>{escaped}</bdi>")), "{path} lacks {hostile}");
        }
    }
    let query = form_urlencoded(HOSTILE[1]);
    for path in [
        format!("/ui/children?label=a:{query}"),
        format!("/ui/children?silent_for={query}"),
        format!("/ui/children/{query}"),
    ] {
        let text = html(world.get(&path).await);
        assert!(!text.contains("<script>alert"), "{path}: {text}");
    }
    world.stop().await;
}

fn form_urlencoded(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| all + &format!("%{byte:02X}"))
}

#[tokio::test]
async fn what_is_not_there_has_a_page_that_says_so() {
    let world = World::start().await;
    for (path, words) in [
        ("/ui/children/nobody", "child nobody is not known here"),
        ("/ui/releases/none/children", "none"),
        ("/ui/children?below=nobody", "child nobody is not known here"),
        ("/ui/tree?below=nobody", "child nobody is not known here"),
        ("/ui/tree?release=none", "none"),
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(text_of(&html(answer)).contains(words), "{path}");
    }
    assert_eq!(world.get("/ui/below/releases").await.status, 400);
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_sees_its_own_children_alone() {
    let shared = Shared::start().await;
    let (own, other) = (shared.child_of("acme").await, shared.child_of("umbra").await);
    let ann = Browser::of(&shared, "ann").await;
    for path in ["/ui/children", "/ui/tree"] {
        let (status, text) = ann.get(path).await;
        assert_eq!(status, 200);
        assert!(text.contains(&own) && !text.contains(&other), "{path}: {text}");
    }
    assert_eq!(ann.get(&format!("/ui/children/{own}")).await.0, 200);
    let (status, text) = ann.get(&format!("/ui/children/{other}")).await;
    assert_eq!(status, 404);
    assert_eq!(text_of(&text).matches(&other).count(), 1, "{text}");
    shared.submit("uma", &strategy("theirs")).await.ok();
    for path in ["/ui/releases/theirs/children", "/ui/tree?release=theirs", "/ui/tree?release=~umbra~theirs"]
    {
        assert_eq!(ann.get(path).await.0, 404, "{path}");
    }
    let uma = Browser::of(&shared, "uma").await;
    let (status, text) = uma.get("/ui/tree?release=theirs").await;
    assert_eq!((status, text.contains(&other), text.contains(&own)), (200, true, false));
    // Whoever is of the whole manager sees both.
    let (_, text) = Browser::of(&shared, "root").await.get("/ui/children").await;
    assert!(text.contains(&own) && text.contains(&other));
    shared.world.stop().await;
}

#[tokio::test]
async fn a_child_leads_to_its_place_on_each_map_and_is_led_to_from_there() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    let shown = page(&world, &format!("/ui/children/{child}")).await;
    let to_child = format!("<a href=\"/ui/children/{child}\">");
    for map in [format!("/ui/map?child={child}"), format!("/ui/releases/a/map?child={child}")] {
        assert!(shown.contains(&format!("href=\"{map}\"")), "{shown}");
        let found = page(&world, &map).await;
        let found = found.split_once("id=\"found\"").unwrap().1.split("</p>").next().unwrap();
        assert!(found.contains(&to_child), "{found}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_child_that_tipped_the_scales_is_named_and_led_to() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&(strategy("b") + "rollout: {order: parallel, max_failed: 0}\n")).await.ok();
    assert_eq!(world.poll(&child).await.1, "b");
    world.fetch(&child, "b").await.ok();
    world.report(&child, "b", STAGE, 5).await.ok();
    let api = world.get("/api/v1/releases/b").await.ok().json();
    assert_eq!(api["why"]["child"], child, "{api:#}");
    let shown = page(&world, "/ui/releases/b").await;
    let named = format!("data-field=\"why.child\"><a href=\"/ui/children/{child}\">");
    assert!(shown.contains(&named), "{shown}");
    world.stop().await;
}

/// What stands in the last cell of a child's line: what can be done to it.
fn can_be_done(page: &str, child: &str) -> String {
    let row = page.split_once(&format!("data-key=\"{child}\"")).unwrap().1.split("</tr>").next().unwrap();
    text_of(row.rsplit_once("<td>").unwrap().1)
}

#[tokio::test]
async fn child_actions_show_scope_and_place_or_why_unavailable() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    let body = json!({"kind": "rm", "capabilities": {"leads": "whole"}, "number_of_children": 500});
    let manager = poll_as(&world, &body).await;
    world.submit(&(strategy("a") + "rollout: {order: parallel, on_failure: continue}\n")).await.ok();
    assert_eq!(world.poll(&one).await.1, "a");
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 5).await.ok();
    world.run(&two, "a").await;
    let list = async || page(&world, "/ui/releases/a/children").await;
    let shown = list().await;
    let place = "at 52.5200N 13.4050E.";
    let failed = can_be_done(&shown, &one);
    assert!(
        failed.contains(&format!("Gives this child alone another attempt. It is 1 agent, {place}")),
        "{failed}"
    );
    assert_eq!(can_be_done(&shown, &two), "It ended well: there is nothing to try again.");
    let waits = can_be_done(&shown, &manager);
    assert!(waits.contains(&format!("Below it 500 agents are in the release, {place}")), "{waits}");
    assert!(waits.contains("Nobody waits for this child any more"), "{waits}");
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    let shown = list().await;
    assert_eq!(can_be_done(&shown, &one), "The release is not under way: it can be tried again as a whole.");
    world.stop().await;
}
