//! What somebody is about to do while the release, the page or the session goes on to be another one.

use serde_json::json;

use crate::{
    browser::{Page, browse},
    clean::at,
    states::{fail, over_waves},
    world::{World, strategy},
};

const LIVE: &str = "document.querySelector('#live-state')?.dataset.kind === 'live'";

/// With an approval before each wave.
fn waves(id: &str) -> String {
    strategy(id) + &over_waves("waves: [1, 2, 100%], approval: before_each_wave")
}

async fn act(world: &World, path: &str) {
    world.post(&format!("/api/v1/releases/{path}"), &json!({"by": "bob", "note": "mine"})).await.ok();
}

async fn opens(page: &Page, action: &str) {
    page.click("DisclosureTriangle", action).await;
    page.click("button", action).await;
    page.find("dialog", "").await;
}

/// Three children, of whom the first waits at the end of its stage: an approval is asked for.
async fn asking() -> World {
    let world = World::start().await;
    let children = [world.child().await, world.child().await, world.child().await];
    world.submit(&waves("a")).await.ok();
    world.run(&children[0], "a").await;
    world
}

#[tokio::test]
async fn a_release_that_waits_is_opened_from_the_list_and_approved() {
    let world = asking().await;
    browse(async |page| {
        page.go(&at(&world, "/releases")).await;
        page.leave_by(async || page.click("link", "a").await).await;
        page.reads("waits for approval").await;
        page.holds(LIVE).await;
        opens(page, "Approve").await;
        page.leave_by(async || page.click("button", "Approve").await).await;
        page.reads("approved").await;
    })
    .await;
    let trail = world.get("/api/v1/audit?release=a&limit=100").await.ok().json().to_string();
    assert_eq!(trail.matches("\"event\":\"release_approved\"").count(), 1, "{trail}");
    world.stop().await;
}

#[tokio::test]
async fn dialog_confirms_what_was_asked_and_reports_earlier_action() {
    let world = asking().await;
    browse(async |page| {
        page.go(&at(&world, "/releases/a")).await;
        page.reads("waits for approval").await;
        page.holds(LIVE).await;
        opens(page, "Approve").await;
        let asked = page.text_of("dialog", "").await;
        act(&world, "a/approve").await;
        // The page below the dialog is another one by now, the form is gone from it, and the dialog is as it was.
        page.holds("!document.querySelector('header.release').innerText.includes('waits for approval')")
            .await;
        assert_eq!(page.text_of("dialog", "").await, asked);
        page.leave_by(async || page.click("button", "Approve").await).await;
        page.reads("bob").await;
        page.reads("approved").await;
        // The page that says so goes on to follow what happens, under its own address.
        page.holds("location.pathname === '/ui/releases/a'").await;
        act(&world, "a/pause").await;
        page.holds("document.querySelector('header.release .badge').textContent === 'paused'").await;
        page.holds(LIVE).await;
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 412")), "{reports:?}");
    })
    .await;
    let trail = world.get("/api/v1/audit?release=a&limit=100").await.ok().json().to_string();
    assert_eq!(trail.matches("\"event\":\"release_approved\"").count(), 1, "{trail}");
    world.stop().await;
}

#[tokio::test]
async fn a_child_that_failed_while_it_was_to_be_left_out_is_not_tried_again() {
    let world = World::start().await;
    // The other one keeps the release under way.
    let (child, _other) = (world.child().await, world.child().await);
    world.submit(&(strategy("a") + "rollout: {order: parallel, on_failure: continue}\n")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    browse(async |page| {
        page.go(&at(&world, "/releases/a/children")).await;
        page.holds(LIVE).await;
        let (called, other) = ("Leave out", "Retry");
        let row = format!("document.querySelector('[data-key=\"{child}\"]')");
        page.evaluate(&format!("{row}.querySelector('summary').click()")).await.unwrap();
        page.click("button", &format!("{called} {child}")).await;
        page.find("dialog", "").await;
        fail(&world, &child, "a").await;
        page.holds(&format!("{row}.querySelector('form.action')?.innerText.includes('{other}')")).await;
        page.leave_by(async || page.click("button", &format!("{called} {child}")).await).await;
        page.take_reports().await;
    })
    .await;
    let parts = world.get("/api/v1/releases/a/children").await.ok().json();
    let part = parts["items"].as_array().unwrap().iter().find(|part| part["child"] == child.as_str());
    assert_eq!(part.unwrap()["attempt"], 1, "{parts:#}");
    world.stop().await;
}

#[tokio::test]
async fn what_somebody_writes_stays_where_it_is_and_is_given_back_where_it_cannot() {
    let world = asking().await;
    browse(async |page| {
        page.go(&at(&world, "/releases/a")).await;
        page.holds(LIVE).await;
        // A note for what comes after something that goes away.
        page.click("DisclosureTriangle", "Abort").await;
        page.evaluate("document.querySelector('[data-action=abort] textarea').focus()").await.unwrap();
        page.type_text("half a note").await;
        page.evaluate("globalThis.field = document.activeElement").await.unwrap();
        act(&world, "a/approve").await;
        page.holds("!document.querySelector('[data-action=approve]')").await;
        assert_eq!(
            page.evaluate("document.activeElement === field && field.isConnected").await.unwrap(),
            true
        );
        page.type_text(", and the rest").await;
        let written = page.evaluate("document.querySelector('[data-action=abort] textarea').value").await;
        assert_eq!(written.unwrap(), "half a note, and the rest");
        // Nobody can abort what is over: the note is not lost.
        act(&world, "a/abort").await;
        page.holds("!document.querySelector('[data-action=abort]')").await;
        page.holds("document.querySelector('#given-back textarea')?.value === 'half a note, and the rest'")
            .await;
    })
    .await;
    world.stop().await;
}

/// Notes every stream that the page opens.
const STREAMS: &str = "globalThis.streams = []; const Real = EventSource; \
    globalThis.EventSource = class extends Real { constructor(...given) { super(...given); streams.push(this); } };";

/// How many streams of a page are open.
const OPEN: &str = "streams.filter((stream) => stream.readyState !== 2).length";

fn hidden(is: bool) -> String {
    format!(
        "Object.defineProperty(document, 'hidden', {{ value: {is}, configurable: true }}); \
         document.dispatchEvent(new Event('visibilitychange'));"
    )
}

async fn told(page: &Page, text: &str) {
    page.holds(&format!("document.querySelector('.map-told')?.textContent === {}", json!(text))).await;
}

#[tokio::test]
async fn a_map_that_nobody_looks_at_holds_no_connection_and_shows_afterwards_what_it_missed() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": STREAMS})).await.unwrap();
        page.go(&at(&world, "/releases/a/map")).await;
        told(page, "1 waiting").await;
        page.holds(&format!("{OPEN} === 2")).await;
        page.evaluate(&hidden(true)).await.unwrap();
        page.holds(&format!("{OPEN} === 0")).await;
        world.run(&child, "a").await;
        assert_eq!(page.evaluate(OPEN).await.unwrap(), 0);
        page.evaluate(&hidden(false)).await.unwrap();
        told(page, "1 done").await;
        page.holds(LIVE).await;
        page.holds(&format!("{OPEN} === 2")).await;
    })
    .await;
    world.stop().await;
}

/// The map's own stream brings nothing, and nobody says so, while the page's own goes on.
const DEAF_MAP: &str = "const add = EventSource.prototype.addEventListener; \
    EventSource.prototype.addEventListener = function (...given) { if (!this.url.includes('/map/changes')) add.apply(this, given); }; \
    globalThis.marks = [];";

#[tokio::test]
async fn a_map_whose_stream_alone_is_dead_says_so_by_itself() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": DEAF_MAP})).await.unwrap();
        page.go(&at(&world, "/releases/a/map")).await;
        told(page, "1 waiting").await;
        page.evaluate(
            "new MutationObserver(() => marks.push(document.querySelector('.map-stale').textContent)) \
             .observe(document.querySelector('.map-stale'), { childList: true, characterData: true, subtree: true })",
        )
        .await
        .unwrap();
        world.run(&child, "a").await;
        page.holds("marks.some((mark) => mark.startsWith('Not live'))").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn fleet_map_updates_new_and_cordoned_children_without_reload() {
    let world = World::start().await;
    let child = world.child().await;
    browse(async |page| {
        page.go(&at(&world, "/map")).await;
        told(page, "1 heard").await;
        world.call("POST", &format!("/api/v1/children/{child}/cordon")).await.ok();
        page.holds("/^1 (?!heard)/.test(document.querySelector('.map-told').textContent)").await;
        world.child().await;
        page.holds("/1 heard/.test(document.querySelector('.map-told').textContent)").await;
    })
    .await;
    world.stop().await;
}
