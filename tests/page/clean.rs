//! Nothing is wrong with any page for those who don't see it, see it otherwise, or have no pointer: in each state, in each mode.

use http_api::auth::{OperatorToken, Settings};

use serde_json::{Value, json};

use crate::{
    browser::{Graphics, Page, browse, browse_with},
    faults,
    line::{Line, State},
    maps::{has_pixels, says},
    services, states,
    tree::Tree,
    world::World,
};

/// The address of a page.
pub fn at(world: &World, path: &str) -> String {
    format!("http://{}/ui{path}", world.manager.address)
}

/// Goes to a page, and waits until its scripts follow what happens.
pub async fn open(page: &Page, world: &World, path: &str) {
    page.go(&at(world, path)).await;
    page.holds("document.querySelector('#live-state')?.dataset.kind === 'live'").await;
}

#[tokio::test]
async fn lists_of_releases_have_no_fault() {
    let empty = World::start().await;
    let full = states::all().await;
    browse(async |page| {
        open(page, &empty, "/releases").await;
        page.reads("There are no releases here yet").await;
        faults::none(page).await;
        for path in ["/releases", "/releases?state=Paused", "/releases?function=nothing"] {
            open(page, &full, path).await;
            faults::none(page).await;
        }
        page.reads("No release fits these filters").await;
    })
    .await;
    empty.stop().await;
    full.stop().await;
}

#[tokio::test]
async fn a_release_in_each_state_has_no_fault() {
    let world = states::all().await;
    browse(async |page| {
        for (id, _) in states::states(&world).await {
            open(page, &world, &format!("/releases/{id}")).await;
            faults::none(page).await;
        }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn pages_of_children_of_the_tree_of_routers_and_for_writing_have_no_fault() {
    let world = states::all().await;
    let listed = world.get("/api/v1/children").await.ok().json();
    let child = listed["items"][0]["id"].as_str().unwrap().to_owned();
    browse(async |page| {
        for path in [
            "/children",
            &format!("/children/{child}"),
            "/children?label=tier:none",
            "/releases/waits/children",
            "/tree",
            "/routers",
            "/services",
            "/strategies/new",
        ] {
            page.go(&at(&world, path)).await;
            page.holds("document.querySelector('h1') !== null").await;
            assert_eq!(page.take_reports().await, Vec::<String>::new(), "{path}");
            faults::none(page).await;
        }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn pages_beside_the_releases_have_no_fault() {
    let open = World::start().await;
    let closed = closed().await;
    browse(async |page| {
        page.go(&at(&open, "/releases/unknown")).await;
        page.reads("is not known").await;
        faults::none(page).await;
        page.go(&at(&closed, "/releases")).await;
        faults::none(page).await;
        page.fill("Token", "a guess").await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        page.reads("This token is not known here").await;
        faults::none(page).await;
        page.fill("Token", SECRET).await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        page.reads("ada").await;
        page.holds("document.querySelector('#live-state')?.dataset.kind === 'live'").await;
        faults::none(page).await;
        page.leave_by(async || page.click("button", "Sign out").await).await;
        page.reads("You are signed out").await;
        faults::none(page).await;
        // The refused pages of above.
        page.take_reports().await;
    })
    .await;
    open.stop().await;
    closed.stop().await;
}

/// Looks at pages that follow what happens.
async fn none_in(page: &Page, world: &World, paths: &[&str]) {
    for path in paths {
        open(page, world, path).await;
        faults::none(page).await;
        assert_eq!(page.take_reports().await, Vec::<String>::new(), "{path}");
    }
}

#[tokio::test]
async fn a_router_a_service_and_a_release_of_a_service_have_no_fault() {
    let (world, [one, other]) = services::shifted().await;
    let release = format!("/releases/{}", services::RELEASE);
    browse(async |page| {
        none_in(page, &world, &["/routers", "/services", "/services/checkout", &format!("/routers/{one}")])
            .await;
        open(page, &world, &format!("/routers/{other}")).await;
        page.reads("port 8080 is taken").await;
        page.reads("unknown directive").await;
        faults::none(page).await;
        open(page, &world, &release).await;
        page.reads("Who gets which share of calls").await;
        page.click("DisclosureTriangle", "How that came about, newest first").await;
        page.reads("B 10.00 %").await;
        faults::none(page).await;
        none_in(page, &world, &[&format!("{release}/children")]).await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_release_with_charts_has_no_fault() {
    let world = states::charts().await;
    browse(async |page| {
        open(page, &world, "/releases/charts").await;
        page.reads("New to base, as a ratio").await;
        assert_eq!(page.evaluate("document.querySelectorAll('svg.drawn').length >= 3").await.unwrap(), true);
        page.evaluate("document.querySelectorAll('#judged details').forEach((it) => { it.open = true; })")
            .await
            .unwrap();
        faults::none(page).await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn what_is_said_after_an_action_has_no_fault() {
    let world = states::all().await;
    let child = world.child().await;
    let goes_on = "rollout: {order: parallel, max_failed: 100%, on_failure: continue}";
    world.submit(&states::of_function("again", "trim", goes_on)).await.ok();
    states::fail(&world, &child, "again").await;
    browse(async |page| {
        // Somebody else was faster: looked at without scripts, which would follow what happens.
        page.scripts(false).await;
        page.go(&at(&world, "/releases/running")).await;
        world.post("/api/v1/releases/running/pause", &json!({"by": "eve", "note": "wait"})).await.ok();
        page.click("DisclosureTriangle", "Abort").await;
        page.fill(NOTE, "mine").await;
        page.scripts(true).await;
        page.leave_by(async || page.click("button", "Abort").await).await;
        page.reads("release running has changed since").await;
        faults::none(page).await;
        page.take_reports().await;
        // The dialog that asks back.
        open(page, &world, "/releases/running").await;
        page.click("DisclosureTriangle", "Abort").await;
        page.click("button", "Abort").await;
        page.find("dialog", "").await;
        faults::none(page).await;
        page.leave_by(async || page.click("button", "Abort").await).await;
        page.reads("You took the release back.").await;
        faults::none(page).await;
        // What is done to a single child.
        open(page, &world, "/releases/again/children?outcome=failed").await;
        page.click("DisclosureTriangle", "Retry").await;
        faults::none(page).await;
        page.click("button", &format!("Retry {child}")).await;
        page.find("dialog", "").await;
        page.leave_by(async || page.click("button", &format!("Retry {child}")).await).await;
        page.reads("You gave the child another attempt.").await;
        faults::none(page).await;
    })
    .await;
    world.stop().await;
}

/// What a note is asked for by where none is wanted.
const NOTE: &str = "Note (optional; it goes into the audit trail)";

#[tokio::test]
async fn a_session_that_is_over_has_no_fault() {
    let world = closed().await;
    world.child().await;
    let token =
        world.request("POST", "/release").bearer_auth(SECRET).header("content-type", "application/yaml");
    world.send(token.body(crate::world::strategy("a"))).await.ok();
    browse(async |page| {
        page.go(&at(&world, "/releases/a")).await;
        page.fill("Token", SECRET).await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        page.holds("document.querySelector('#live-state')?.dataset.kind === 'live'").await;
        page.click("DisclosureTriangle", "Pause").await;
        page.fill(NOTE, "kept").await;
        page.cdp("Network.clearBrowserCookies", json!({})).await.unwrap();
        page.click("button", "Pause").await;
        page.find("dialog", "").await;
        page.leave_by(async || page.click("button", "Pause").await).await;
        page.reads("Your session is over").await;
        faults::none(page).await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

const SECRET: &str = "a-secret-of-adas";

async fn closed() -> World {
    World::with(|options| {
        options.auth = Settings {
            operators: vec![OperatorToken::new("ada", SECRET)],
            operator_required: true,
            ..Settings::default()
        };
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opened_tree_and_what_is_below_a_manager_have_no_fault() {
    let tree = Tree::start().await;
    let led = "rollout: {order: parallel, max_failed: 100%, on_failure: continue}\n";
    tree.root.submit(&(crate::world::strategy("a") + led)).await.ok();
    let [west, middle, east] = &tree.below[..] else { panic!("three managers") };
    west.run().await;
    for agent in &east.agents {
        east.fail(agent).await;
    }
    let (id, other) = (&west.id, &east.id);
    browse(async |page| {
        for (path, says) in [
            (format!("/tree?open={id}&open={other}"), &west.agents[0].id),
            (format!("/tree?release=a&open={id}&open={other}"), &east.agents[1].id),
            (format!("/tree?below={id}"), &west.agents[1].id),
            (format!("/children?below={id}"), &west.agents[1].id),
            (format!("/below/releases?below={id}"), &"a".to_owned()),
            (format!("/children/{id}"), &"Its children".to_owned()),
            ("/children".to_owned(), &middle.id),
            ("/releases/a/children".to_owned(), &middle.id),
        ] {
            page.go(&at(&tree.root, &path)).await;
            page.reads(says).await;
            faults::none(page).await;
        }
        assert_eq!(page.take_reports().await, Vec::<String>::new());
    })
    .await;
    tree.stop().await;
}

#[tokio::test]
async fn the_map_of_the_fleet_a_replay_and_a_map_without_graphics_have_no_fault() {
    let world = states::all().await;
    let child = |item: &Value| item["id"].as_str().unwrap().to_owned();
    let child = child(&world.get("/api/v1/children").await.ok().json()["items"][0]);
    browse(async |page| {
        open(page, &world, "/map").await;
        says(page, "4 heard").await;
        has_pixels(page, "good").await;
        faults::none(page).await;
        page.go(&at(&world, &format!("/map?child={child}"))).await;
        page.reads(&child).await;
        faults::none(page).await;
        open(page, &world, "/releases/taken/map").await;
        page.click("button", "Replay").await;
        page.find("button", "Back to now").await;
        faults::none(page).await;
        assert_eq!(page.take_reports().await, Vec::<String>::new());
    })
    .await;
    browse_with(Graphics::None, async |page| {
        open(page, &world, "/releases/taken/map").await;
        page.reads("This browser has no WebGL: counts by cell.").await;
        faults::none(page).await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn what_is_marked_as_old_has_no_fault() {
    let world = states::all().await;
    let line = Line::to(world.manager.address).await;
    browse(async |page| {
        for path in ["releases", "releases/waits", "releases/taken/map"] {
            line.set(State::Open);
            page.go(&format!("http://{}/ui/{path}", line.address)).await;
            page.holds("document.querySelector('#live-state')?.dataset.kind === 'live'").await;
            if path.ends_with("map") {
                page.holds("document.querySelector('.map-told')?.textContent.length > 0").await;
            }
            line.set(State::Cut);
            page.reads("Not live").await;
            page.holds("document.querySelector('main').hasAttribute('data-old')").await;
            faults::none(page).await;
        }
        // That it couldn't connect.
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}
