//! Pictures of the pages, for the documentation. `tests/pictures` makes them anew.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use http_api::auth::{OperatorToken, Settings};

use crate::{
    browser::{Mode, Page, browse},
    clean::{at, open},
    services, states,
    world::World,
};

/// Where they lie.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/pictures");

/// Largest picture, in bytes.
const MAX_PICTURE: u64 = 150 * 1024;

const MODES: [Mode; 4] = [Mode::Light, Mode::Dark, Mode::Phone, Mode::Forced];

/// What is pictured: the name of a page, and its address.
const PAGES: [(&str, &str); 10] = [
    ("releases", "/releases"),
    ("waits-for-approval", "/releases/waits"),
    ("failed", "/releases/failed"),
    ("taken-back", "/releases/taken"),
    ("children", "/children"),
    ("fleet-map", "/map"),
    ("release-children", "/releases/failed/children"),
    ("tree", "/tree"),
    ("map", "/releases/taken/map"),
    ("strategy", "/strategies/new"),
];

/// How the release of the plan is led.
const PLANNED: &str = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}";

/// The same of a manager whose children lead routers.
const OF_SERVICES: [(&str, &str); 3] =
    [("routers", "/routers"), ("service", "/services/checkout"), ("service-release", "/releases/shift")];

/// What has no address of its own, or one that differs from time to time.
const BESIDE: [&str; 7] = ["plan", "keys", "sign-in", "dialog", "child", "router", "charts"];

/// All pictures together, in bytes.
const MAX_ALL: u64 = 4 * 1024 * 1024;

async fn keep(page: &Page, name: &str) {
    keep_at(page, name, "html").await;
}

/// With what this selects at the top of the window, as far as the page reaches.
async fn keep_at(page: &Page, name: &str, selected: &str) {
    for mode in MODES {
        page.look(mode).await;
        page.evaluate(&format!(
            "document.querySelector('{selected}').scrollIntoView({{ behavior: 'instant' }})"
        ))
        .await
        .unwrap();
        page.keep_picture(&Path::new(FOLDER).join(format!("{name}-{}.webp", mode.name()))).await;
    }
    page.look(Mode::Light).await;
}

#[tokio::test]
#[ignore = "it changes the pictures in the documentation: tests/pictures runs it"]
async fn of_each_page_are_made() {
    let world = states::all().await;
    let closed = World::with(|options| {
        options.auth = Settings {
            operators: vec![OperatorToken::new("ada", "a-secret-of-adas")],
            operator_required: true,
            ..Settings::default()
        };
    })
    .await;
    let (shifted, [_, router]) = services::shifted().await;
    let charts = states::charts().await;
    let listed = world.get("/api/v1/children").await.ok().json();
    let child = listed["items"][0]["id"].as_str().unwrap();
    std::fs::create_dir_all(FOLDER).unwrap();
    std::fs::write(Path::new(FOLDER).join(INDEX), index()).unwrap();
    browse(async |page| {
        for (name, path) in PAGES {
            page.go(&at(&world, path)).await;
            page.holds("document.readyState === 'complete'").await;
            if path.ends_with("/map") {
                page.holds("document.querySelector('.map-told')?.textContent.length > 0").await;
            }
            keep(page, name).await;
        }
        for (name, path) in OF_SERVICES {
            open(page, &shifted, path).await;
            keep(page, name).await;
        }
        open(page, &shifted, &format!("/routers/{router}")).await;
        keep(page, "router").await;
        open(page, &world, &format!("/children/{child}")).await;
        keep(page, "child").await;
        open(page, &charts, "/releases/charts").await;
        keep_at(page, "charts", "#judged").await;
        open(page, &world, "/releases/waits").await;
        page.click("DisclosureTriangle", "Approve").await;
        page.click("button", "Approve").await;
        page.find("dialog", "").await;
        keep(page, "dialog").await;
        page.go(&at(&world, "/strategies/new")).await;
        page.fill("Strategy", &states::of_function("next", "scale", PLANNED)).await;
        page.leave_by(async || page.click("button", "Check and plan").await).await;
        keep(page, "plan").await;
        open(page, &world, "/releases").await;
        page.type_text("?").await;
        page.find("dialog", "Keys").await;
        keep(page, "keys").await;
        page.go(&at(&closed, "/releases")).await;
        keep(page, "sign-in").await;
    })
    .await;
    for world in [world, closed, shifted, charts] {
        world.stop().await;
    }
}

#[test]
fn each_is_there_in_each_mode_and_small() {
    let mut all = 0;
    for name in PAGES.into_iter().chain(OF_SERVICES).map(|(name, _)| name).chain(BESIDE) {
        for mode in MODES {
            let path = Path::new(FOLDER).join(format!("{name}-{}.webp", mode.name()));
            let bytes = std::fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).len();
            assert!((1_000..=MAX_PICTURE).contains(&bytes), "{}: {bytes} bytes", path.display());
            all += bytes;
        }
    }
    assert!(all <= MAX_ALL, "{all} bytes");
}

/// The list of all pictures, as it lies beside them: a line for each page, with a picture in each mode.
fn index() -> String {
    let mut text = "# Pictures of the web page\n\nEach page as a test saw it, in light, dark and forced colours and on a phone of 320 \
         pixels. `tests/pictures` makes them anew.\n"
        .to_owned();
    for (name, what) in NAMES {
        let _ = write!(text, "\n## {what}\n\n");
        for mode in MODES {
            let _ = writeln!(text, "![{what}, {mode}]({name}-{mode}.webp)", mode = mode.name());
        }
    }
    text
}

/// What each picture shows.
const NAMES: [(&str, &str); 20] = [
    ("releases", "Releases, one line each"),
    ("waits-for-approval", "A release that waits for an approval"),
    ("dialog", "What is asked before something is done"),
    ("taken-back", "A release that is taken back"),
    ("failed", "A release that is done, with failures"),
    ("charts", "A release whose new version is slower, compared"),
    ("service-release", "A release that shifts calls of a service"),
    ("release-children", "Who takes part in a release"),
    ("map", "A release on the map"),
    ("fleet-map", "All children on the map"),
    ("tree", "The tree of managers and agents"),
    ("children", "Children"),
    ("child", "One child"),
    ("routers", "Routers"),
    ("router", "One router, and what was asked of it"),
    ("service", "A service, over all its routers and at each"),
    ("strategy", "A strategy is written"),
    ("plan", "What a strategy would do"),
    ("keys", "What the keyboard does"),
    ("sign-in", "Signing in"),
];

#[test]
fn the_list_beside_them_has_each() {
    let all: BTreeSet<&str> =
        PAGES.into_iter().chain(OF_SERVICES).map(|(name, _)| name).chain(BESIDE).collect();
    assert_eq!(NAMES.map(|(name, _)| name).into_iter().collect::<BTreeSet<_>>(), all);
    let found = std::fs::read_to_string(Path::new(FOLDER).join(INDEX)).unwrap_or_default();
    assert!(found == index(), "{INDEX} is not what it should be: run tests/pictures");
}

const INDEX: &str = "README.md";
