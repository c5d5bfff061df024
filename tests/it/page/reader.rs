//! Whoever may only look finds no form that does something, on whatever page links lead to.

use std::collections::{BTreeSet, VecDeque};

use serde_json::json;

use super::read::Browser;
use crate::{
    http::{tenants::Shared, traffic::led},
    world::{STAGE, strategy},
};

/// Forms that are everybody's: who looks, and in which colours. One to check a strategy is on a page of its own.
const OF_ALL: [&str; 2] = ["/ui/sign-out", "/ui/colours"];

/// Most pages that are looked at.
const MOST: usize = 300;

/// All that stands between these marks.
fn parts_of<'a>(html: &'a str, from: &str, to: &'a str) -> impl Iterator<Item = &'a str> {
    html.split(from).skip(1).filter_map(move |rest| rest.split(to).next()).collect::<Vec<_>>().into_iter()
}

/// Every page that links lead to from the first on, and where the forms of each send something.
async fn forms(browser: &Browser) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let (mut seen, mut forms) = (BTreeSet::from(["/ui/releases".to_owned()]), BTreeSet::new());
    let mut next = VecDeque::from(["/ui/releases".to_owned()]);
    while let Some(path) = next.pop_front() {
        let (status, html) = browser.get(&path).await;
        assert_eq!(status, 200, "{path}: {html}");
        for form in parts_of(&html, "<form", ">") {
            let action = parts_of(form, "action=\"", "\"").next().unwrap_or_default();
            if form.contains("method=\"post\"") && !OF_ALL.contains(&action) {
                forms.insert((path.clone(), action.to_owned()));
            }
        }
        for href in parts_of(&html, "href=\"", "\"") {
            let href = href.replace("&amp;", "&");
            let is_page = href.starts_with("/ui/")
                && !href.starts_with("/ui/assets/")
                && !href.starts_with("/ui/strategies/");
            // One order of a list, and one step nearer on a map, stand for all.
            let is_alike = href.contains("sort=") || href.contains("box=");
            if is_page && !is_alike && seen.len() < MOST && seen.insert(href.clone()) {
                next.push_back(href);
            }
        }
    }
    (seen, forms)
}

#[tokio::test]
async fn who_may_only_look_finds_no_form_that_does_something_on_any_page() {
    let shared = Shared::start().await;
    let world = &shared.world;
    let child = shared.child_of("acme").await;
    let router = shared.router_of("acme", "nginx", &json!([led([9_000, 1_000])])).await;
    let led = "rollout: {order: waves, waves: [1, 100%], on_failure: continue}\n";
    shared.submit("ann", &format!("{}{led}", strategy("a"))).await.ok();
    let (_, offer) = world.poll(&child).await;
    world.fetch(&child, &offer).await;
    world.report(&child, &offer, STAGE, 5).await;
    shared.post("ann", &format!("/api/v1/routers/{router}/repair"), &json!({})).await.ok();

    let kinds = [
        "/ui/releases/a",
        "/ui/releases/a/children",
        "/ui/releases/a/trail",
        "/ui/releases/a/map",
        "/ui/map",
        "/ui/children",
        "/ui/tree",
        "/ui/routers",
        "/ui/services",
        "/ui/services/checkout",
    ];
    let of_ids = [format!("/ui/children/{child}"), format!("/ui/routers/{router}")];
    let vic = Browser::of(&shared, "vic").await;
    let (pages, found) = forms(&vic).await;
    for kind in kinds.into_iter().chain(of_ids.iter().map(String::as_str)) {
        assert!(pages.contains(kind), "{kind} is not among {pages:#?}");
    }
    assert!(pages.len() < MOST, "{pages:#?}");
    assert_eq!(found, BTreeSet::new());
    // The same walk finds those of who may do something.
    let (_, found) = forms(&Browser::of(&shared, "ann").await).await;
    for (page, action) in [("/ui/releases/a", "/ui/releases/a/abort"), ("/ui/releases/a/children", "retry")] {
        assert!(
            found.iter().any(|(on, to)| on == page && to.ends_with(action)),
            "{page} {action}: {found:#?}"
        );
    }
    shared.world.stop().await;
}
