//! Pages follow what happens, over lines that are cut and that fall silent; what they can't follow they mark as old.

use std::time::Duration;

use http_api::auth::{OperatorToken, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    browser::{Key, Page, browse},
    clean::{at, open},
    line::{Line, State},
    states::of_function,
    world::World,
};

const IS_OLD: &str = "document.querySelector('#live-state').dataset.kind === 'old' && document.querySelector('main').hasAttribute('data-old')";
const IS_LIVE: &str = "document.querySelector('#live-state').dataset.kind === 'live' && !document.querySelector('main').hasAttribute('data-old')";

/// The words of the state that is shown at the head of a release.
async fn shows(page: &Page, words: &str) {
    let shown = "document.querySelector('header.release .badge').textContent";
    page.holds(&format!("{shown} === {}", json!(words))).await;
}

async fn act(world: &World, path: &str) {
    world.post(&format!("/api/v1/releases/{path}"), &json!({"by": "eve", "note": "seen"})).await.ok();
}

async fn world() -> World {
    let world = World::start().await;
    world.child().await;
    world.submit(&of_function("r", "resize", "")).await.ok();
    world
}

#[tokio::test]
async fn a_page_whose_line_is_cut_says_so_and_shows_afterwards_what_it_missed() {
    let world = world().await;
    let line = Line::to(world.manager.address).await;
    browse(async |page| {
        page.go(&format!("http://{}/ui/releases/r", line.address)).await;
        page.holds(IS_LIVE).await;
        for round in ["pause", "resume", "pause"] {
            line.set(State::Cut);
            page.holds(IS_OLD).await;
            page.reads("Not live").await;
            act(&world, &format!("r/{round}")).await;
            // Whatever was shown as new since then shows what happened: it is looked at in one go.
            page.evaluate(LOOK).await.unwrap();
            line.set(State::Open);
            let words = if round == "pause" { "paused" } else { "running" };
            page.holds(IS_LIVE).await;
            shows(page, words).await;
            let wrong = wrongly_live(page, words).await;
            assert!(wrong.is_empty(), "{wrong:?} is not {words}");
        }
        let trail = page.text_of("region", "What happened").await;
        let times = trail.matches("paused").count();
        assert_eq!(times, 2, "each event is there once: {trail}");
        // That it couldn't connect.
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_page_whose_line_falls_silent_says_so_by_itself() {
    let world = world().await;
    let line = Line::to(world.manager.address).await;
    browse(async |page| {
        page.go(&format!("http://{}/ui/releases/r", line.address)).await;
        page.holds(IS_LIVE).await;
        line.set(State::Frozen);
        act(&world, "r/pause").await;
        page.holds(IS_OLD).await;
        shows(page, "running").await;
        line.set(State::Open);
        page.holds(IS_LIVE).await;
        shows(page, "paused").await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn what_changes_is_said_once_and_the_focus_stays() {
    let world = world().await;
    browse(async |page| {
        open(page, &world, "/releases").await;
        page.type_text("j").await;
        assert_eq!(page.focus().await, "link \"r\"");
        page.evaluate(
            "globalThis.said = []; new MutationObserver(() => said.push(document.querySelector('#said').textContent)) \
             .observe(document.querySelector('#said'), { childList: true, characterData: true, subtree: true })",
        )
        .await
        .unwrap();
        act(&world, "r/pause").await;
        page.holds("said.length > 0").await;
        world.submit(&of_function("s", "blur", "")).await.ok();
        page.reads("s").await;
        page.holds("document.querySelectorAll('#main a[data-open]').length === 2").await;
        assert_eq!(page.evaluate("said").await.unwrap(), json!(["r: paused"]));
        assert_eq!(page.focus().await, "link \"r\"");
        page.leave_by(async || page.press(Key::Enter).await).await;
        shows(page, "paused").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn whose_clock_is_off_by_hours_reads_how_long_ago_it_was_all_the_same() {
    let world = world().await;
    for hours in [-3, 3] {
        browse(async |page| {
            page.clock_off(hours).await;
            page.zone("Pacific/Chatham").await;
            open(page, &world, "/releases/r").await;
            let shown = page.evaluate("document.querySelector('.facts time').textContent").await.unwrap();
            let shown = shown.as_str().unwrap();
            assert!(shown.contains("second") || shown.contains("now") || shown.contains("minute"), "{shown}");
            assert!(!shown.contains("hour") && !shown.contains("in "), "{hours} {shown}");
        })
        .await;
    }
    world.stop().await;
}

#[tokio::test]
async fn times_are_those_of_the_viewers_zone() {
    let world = world().await;
    let release = world.get("/api/v1/releases/r").await.ok().json();
    let submitted: Timestamp = release["submitted"].as_str().unwrap().parse().unwrap();
    let mut all = Vec::new();
    // Zones that have no summer time, with their minutes.
    for (zone, minutes) in [("Asia/Kathmandu", 345), ("America/Caracas", -240), ("UTC", 0)] {
        browse(async |page| {
            page.zone(zone).await;
            open(page, &world, "/releases/r").await;
            let shown = "document.querySelector('[data-field=submitted] time').textContent";
            let local = (submitted + SignedDuration::from_mins(minutes)).strftime("%H:%M:%S").to_string();
            page.holds(&format!("{shown}.includes({})", json!(local))).await;
            all.push(local);
        })
        .await;
    }
    assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
    world.stop().await;
}

/// What a note is asked for by where none is wanted.
const NOTE: &str = "Note (optional; it goes into the audit trail)";

#[tokio::test]
async fn a_note_that_is_half_written_and_the_focus_survive_what_happens() {
    let world = world().await;
    browse(async |page| {
        open(page, &world, "/releases/r").await;
        page.click("DisclosureTriangle", "Abort").await;
        page.fill(NOTE, "it is ").await;
        let field = "document.activeElement.form?.dataset.action === 'abort' && document.activeElement.value";
        for round in ["pause", "resume", "pause", "resume"] {
            act(&world, &format!("r/{round}")).await;
            shows(page, if round == "pause" { "paused" } else { "running" }).await;
            assert_eq!(page.evaluate(field).await.unwrap(), "it is ");
            assert_eq!(page.focus().await, format!("textbox {NOTE:?}"));
        }
        // Where somebody writes, they go on to write.
        page.type_text("odd").await;
        assert_eq!(page.evaluate(field).await.unwrap(), "it is odd");
        page.click("button", "Abort").await;
        page.find("dialog", "").await;
        page.leave_by(async || page.click("button", "Abort").await).await;
        page.reads("You took the release back.").await;
    })
    .await;
    let release = world.get("/api/v1/releases/r").await.ok().json();
    assert_eq!(release["why"]["note"], "it is odd");
    world.stop().await;
}

#[tokio::test]
async fn confirming_outdated_action_does_nothing_and_reports_conflict() {
    let world = world().await;
    browse(async |page| {
        open(page, &world, "/releases/r").await;
        page.click("DisclosureTriangle", "Abort").await;
        page.fill(NOTE, "mine").await;
        page.click("button", "Abort").await;
        page.find("dialog", "").await;
        act(&world, "r/pause").await;
        // The page behind the dialog knows already.
        shows(page, "paused").await;
        page.leave_by(async || page.click("button", "Abort").await).await;
        page.reads("release r has changed since").await;
        assert_eq!(
            page.evaluate("document.querySelector('#actions details[open] textarea').value").await.unwrap(),
            "mine"
        );
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 412")), "{reports:?}");
    })
    .await;
    assert_eq!(world.get("/api/v1/releases/r").await.ok().json()["state"], "Paused");
    world.stop().await;
}

#[tokio::test]
async fn who_says_yes_to_what_cannot_be_done_any_more_hears_of_it() {
    let world = world().await;
    browse(async |page| {
        open(page, &world, "/releases/r").await;
        page.click("DisclosureTriangle", "Pause").await;
        page.fill(NOTE, "mine").await;
        page.click("button", "Pause").await;
        page.find("dialog", "").await;
        act(&world, "r/abort").await;
        // There is no such form on the page any more.
        page.holds("document.querySelector('form[data-action=pause]') === null").await;
        page.leave_by(async || page.click("button", "Pause").await).await;
        page.reads("release r has changed since").await;
        page.holds("[...document.querySelectorAll('textarea')].some((field) => field.value === 'mine')")
            .await;
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 412")), "{reports:?}");
    })
    .await;
    world.stop().await;
}

const SECRET: &str = "a-secret-of-adas";

#[tokio::test]
async fn a_session_that_ends_in_a_dialog_does_nothing_says_so_and_keeps_the_note() {
    let world = World::with(|options| {
        options.auth = Settings {
            operators: vec![OperatorToken::new("ada", SECRET)],
            operator_required: true,
            ..Settings::default()
        };
        options.page.session = SESSION;
    })
    .await;
    world.child().await;
    let yaml =
        world.request("POST", "/release").bearer_auth(SECRET).header("content-type", "application/yaml");
    world.send(yaml.body(of_function("r", "resize", ""))).await.ok();
    browse(async |page| {
        page.go(&at(&world, "/releases/r")).await;
        page.fill("Token", SECRET).await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        page.holds(IS_LIVE).await;
        page.click("DisclosureTriangle", "Pause").await;
        page.fill(NOTE, "what I think of it").await;
        page.click("button", "Pause").await;
        page.find("dialog", "").await;
        // The page behind the dialog says that it is over, and asks nobody.
        page.reads("Your session is over.").await;
        page.holds(IS_OLD).await;
        page.leave_by(async || page.click("button", "Pause").await).await;
        page.reads("Nothing was done.").await;
        page.holds("document.querySelector('textarea').value === 'what I think of it'").await;
        // Signed in again, the release is there as it was.
        page.leave_by(async || page.click("link", "Sign in").await).await;
        page.fill("Token", SECRET).await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        assert!(page.address().await.ends_with("/ui/releases/r"), "{}", page.address().await);
        page.take_reports().await;
    })
    .await;
    let release =
        world.send(world.request("GET", "/api/v1/releases/r").bearer_auth(SECRET)).await.ok().json();
    assert_ne!(release["state"], "Paused");
    world.stop().await;
}

/// Longer than it takes to sign in and to open a dialog.
const SESSION: Duration = Duration::from_secs(15);

#[tokio::test]
async fn over_a_line_on_which_everything_trickles_a_page_becomes_right_and_is_never_wrong() {
    let world = world().await;
    let line = Line::to(world.manager.address).await;
    browse(async |page| {
        page.go(&format!("http://{}/ui/releases/r", line.address)).await;
        page.holds(IS_LIVE).await;
        line.set(State::Trickling);
        for round in ["pause", "resume", "pause"] {
            act(&world, &format!("r/{round}")).await;
            shows(page, if round == "pause" { "paused" } else { "running" }).await;
        }
        let trail = page.text_of("region", "What happened").await;
        assert_eq!(trail.matches("paused").count(), 2, "each event is there once: {trail}");
        line.set(State::Open);
        page.holds(IS_LIVE).await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_thousand_refreshes_leave_the_page_as_large_as_it_was() {
    let world = crate::states::all().await;
    browse(async |page| {
        open(page, &world, "/releases").await;
        let refresh = "(async (times) => { \
            const { morph } = await import(document.querySelector('script').src.replace('page.js', 'morph.js')); \
            const { tellTimes } = await import(document.querySelector('script').src.replace('page.js', 'times.js')); \
            const read = (path) => new Promise((done, not) => { const asked = new XMLHttpRequest(); \
                asked.responseType = 'document'; asked.onload = () => done(asked.response.querySelector('#main')); \
                asked.onerror = not; asked.open('GET', path); asked.send(); }); \
            const all = [await read('/ui/releases'), await read('/ui/releases?state=Paused'), await read('/ui/releases')]; \
            const main = document.querySelector('#main'); \
            for (let at = 0; at < times; at += 1) { for (const one of all) morph(main, one.cloneNode(true)); tellTimes(main); } \
            return document.querySelectorAll('*').length; })";
        let count = async |page: &Page| {
            page.cdp("HeapProfiler.collectGarbage", json!({})).await.unwrap();
            let counted = page.cdp("Memory.getDOMCounters", json!({})).await.unwrap();
            (counted["nodes"].as_u64().unwrap(), counted["jsEventListeners"].as_u64().unwrap())
        };
        let elements = page.promised(&format!("{refresh}(3)")).await.unwrap();
        let (nodes, listeners) = count(page).await;
        assert_eq!(page.promised(&format!("{refresh}(1000)")).await.unwrap(), elements);
        let (after, listeners_after) = count(page).await;
        assert_eq!(listeners_after, listeners);
        assert!(after <= nodes + nodes / 10, "{nodes} nodes became {after}");
    })
    .await;
    world.stop().await;
}

/// What was shown as live although it was none of `words`, while something was looked at.
async fn wrongly_live(page: &Page, words: &str) -> Vec<String> {
    let seen = page.evaluate("seen.disconnect(); wrong").await.unwrap();
    let seen = seen.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
    seen.filter(|seen| seen != words).collect()
}

/// Looks at whatever is shown as live from now on.
const LOOK: &str = "globalThis.wrong = []; globalThis.seen = new MutationObserver(() => { \
    const words = document.querySelector('header.release .badge').textContent; \
    if (document.querySelector('#live-state').dataset.kind === 'live') wrong.push(words); }); \
    seen.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })";

#[tokio::test]
async fn a_stale_view_without_its_mark_would_be_noticed() {
    let world = world().await;
    let line = Line::to(world.manager.address).await;
    browse(async |page| {
        page.go(&format!("http://{}/ui/releases/r", line.address)).await;
        page.holds(IS_LIVE).await;
        line.set(State::Cut);
        page.holds(IS_OLD).await;
        act(&world, "r/pause").await;
        page.evaluate(LOOK).await.unwrap();
        // A page that claims to be live over a line that is cut.
        page.evaluate("document.querySelector('#live-state').dataset.kind = 'live'").await.unwrap();
        page.holds("wrong.length > 0").await;
        let wrong = wrongly_live(page, "paused").await;
        assert!(!wrong.is_empty() && wrong.iter().all(|words| words == "running"), "{wrong:?}");
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}
