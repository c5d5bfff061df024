//! Strategies that reach beyond a manager, from the developer's call to the parent.

use engine::parent::forward::{self, Forward, Forwarding};
use serde_json::json;

use crate::world::{Answer, World, strategy};

/// Two degrees wide, around Berlin.
const OWN: &str =
    r#"{"type":"Polygon","coordinates":[[[12.5,51.5],[14.5,51.5],[14.5,53.5],[12.5,53.5],[12.5,51.5]]]}"#;

/// A strategy for a box from one longitude to another, and one degree of latitude.
fn for_box(id: &str, west: f64, east: f64) -> String {
    let ring = json!([[west, 52.0], [east, 52.0], [east, 53.0], [west, 53.0], [west, 52.0]]);
    let target = json!({"area": {"type": "Polygon", "coordinates": [ring]}});
    strategy(id) + &format!("forward_up: true\ntarget: {target}\n")
}

fn way_to(url: &str, token: Option<&str>) -> Forwarding {
    let settings =
        forward::Settings { url: url.to_owned(), token: token.map(str::to_owned), area: OWN.to_owned() };
    Forwarding::Known(Forward::new(settings).unwrap())
}

async fn below(url: &str) -> World {
    World::with(|options| options.forwarding = way_to(url, None)).await
}

fn url(world: &World) -> String {
    format!("http://{}", world.manager.address)
}

async fn state(world: &World, id: &str) -> Answer {
    world.get(&format!("/api/v1/releases/{id}")).await
}

#[tokio::test]
async fn what_reaches_beyond_a_manager_is_released_by_the_one_above() {
    let root = World::start().await;
    let middle = below(&url(&root)).await;
    let child = root.child().await;
    let yaml = for_box("wide", 13.0, 16.0);
    let answer = middle.submit(&yaml).await.ok();
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("location"), format!("{}/api/v1/releases/wide", url(&root)));
    assert_eq!(answer.json()["forwarded_to"], format!("{}/", url(&root)));
    assert_eq!(state(&root, "wide").await.ok().json()["state"], "Running", "{child} is below the root");
    let there = root.get("/api/v1/releases/wide/strategy").await.ok().text();
    assert_eq!(there, yaml, "the text goes up as it is");
    // Twice is one release, and says so.
    let again = middle.submit(&yaml).await.ok();
    assert_eq!((again.status, again.json()["created"].as_bool()), (200, Some(false)));

    // What is left here says where to ask, also after a restart.
    let expected = "404 /problems/forwarded: release wide reaches beyond this manager's area";
    assert!(state(&middle, "wide").await.problem().starts_with(expected));
    let middle = middle.restart().await;
    assert!(state(&middle, "wide").await.problem().contains(&format!("--url {}/", url(&root))));
    let trail = middle.get("/api/v1/audit").await.ok().text();
    assert!(trail.contains("release_forwarded"), "{trail}");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test]
async fn what_lies_within_a_manager_or_does_not_ask_to_go_up_is_released_there() {
    let root = World::start().await;
    let middle = below(&url(&root)).await;
    let within = for_box("within", 13.0, 14.0);
    assert_eq!(middle.submit(&within).await.ok().json()["forwarded_to"], json!(null));
    let silent = for_box("silent", 13.0, 16.0).replace("forward_up: true\n", "");
    middle.submit(&silent).await.ok();
    let everywhere = strategy("everywhere") + "forward_up: true\n";
    middle.submit(&everywhere).await.ok();
    for id in ["within", "silent", "everywhere"] {
        assert_eq!(state(&root, id).await.status, 404, "{id}");
        state(&middle, id).await.ok();
    }
    // Nobody is above the root.
    root.submit(&for_box("wide", 13.0, 16.0)).await.ok();
    state(&root, "wide").await.ok();
    middle.stop().await;
    root.stop().await;
}

#[tokio::test]
async fn a_plan_says_that_a_strategy_goes_up_and_how_far_it_reaches() {
    let root = World::start().await;
    let middle = below(&url(&root)).await;
    let plan = |yaml: String| middle.submit_to("/api/v1/plan", Box::leak(yaml.into_boxed_str()));
    let wide = plan(for_box("wide", 13.0, 16.0)).await.ok().json();
    assert_eq!(wide["forwards_to"], format!("{}/", url(&root)));
    let (beyond, all) = (wide["beyond_km2"].as_f64().unwrap(), wide["target_km2"].as_f64().unwrap());
    assert!((beyond / all - 0.5).abs() < 1e-4, "from 14.5 to 16 of 13 to 16: {beyond} of {all}");
    let within = plan(for_box("within", 13.0, 14.0)).await.ok().json();
    assert_eq!(within["forwards_to"], json!(null));
    middle.stop().await;
    root.stop().await;
}

#[tokio::test]
async fn while_the_manager_above_is_away_nothing_is_submitted_anywhere() {
    let root = World::start().await;
    let gone = url(&root);
    root.stop().await;
    let middle = below(&gone).await;
    let answer = middle.submit(&for_box("wide", 13.0, 16.0)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "2"));
    assert!(answer.problem().contains("nothing was submitted, try again"), "{}", answer.text());
    assert_eq!(
        state(&middle, "wide").await.problem(),
        "404 /problems/unknown-release: release wide is not known"
    );
    middle.stop().await;
}

#[tokio::test]
async fn what_the_manager_above_says_is_told_and_nothing_is_kept() {
    let root = World::start().await;
    root.submit(&strategy("wide")).await.ok();
    let middle = below(&url(&root)).await;
    let taken = middle.submit(&for_box("wide", 13.0, 16.0)).await;
    let expected = "409 /problems/forward: the manager above refuses it: release wide exists with another content: choose another id (release \
        submit --again takes the next one that is free, --id NEW the one that you name)";
    assert_eq!(taken.problem(), expected);
    assert_eq!(
        state(&middle, "wide").await.problem(),
        "404 /problems/unknown-release: release wide is not known"
    );
    let checked = middle.submit_to("/release?dry_run=true", &for_box("other", 13.0, 16.0)).await.ok();
    assert_eq!(checked.status, 200);
    for world in [&root, &middle] {
        assert_eq!(state(world, "other").await.status, 404);
    }
    middle.stop().await;
    root.stop().await;
}

#[tokio::test]
async fn a_manager_that_does_not_know_its_own_area_refuses_to_guess() {
    let middle = World::with(|options| options.forwarding = Forwarding::AreaUnknown).await;
    let answer = middle.submit(&for_box("wide", 13.0, 16.0)).await;
    let expected = "422 /problems/forward: forward_up: this manager has a parent and can't tell whether the target \
                    reaches beyond its own area: name that one's GeoJSON in parent.area_file, or leave forward_up out";
    assert_eq!(answer.problem(), expected);
    middle.submit(&strategy("everywhere")).await.ok();
    middle.stop().await;
}

#[tokio::test]
async fn managers_in_a_circle_refuse_what_comes_back() {
    let first = World::start().await;
    let second = below(&url(&first)).await;
    // Each takes the other for the one above.
    let address = first.manager.address;
    let above = way_to(&url(&second), None);
    let first = first
        .restart_with(|options| {
            options.listen = address;
            options.forwarding = above;
        })
        .await;
    let answer = second.submit(&for_box("round", 13.0, 16.0)).await;
    assert!(answer.problem().contains("went in a circle"), "{}", answer.text());
    for world in [&first, &second] {
        assert_eq!(state(world, "round").await.status, 404);
    }
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn a_manager_whose_token_is_not_taken_above_is_itself_to_blame() {
    let root = World::with(|options| {
        options.auth.operators = vec![http_api::auth::OperatorToken::new("anna", "the token of an operator")];
        options.auth.operator_required = true;
    })
    .await;
    let middle = below(&url(&root)).await;
    let yaml = for_box("wide", 13.0, 16.0);
    let answer = middle.submit(&yaml).await;
    assert!(answer.problem().starts_with("502 /problems/forward"), "{}", answer.text());
    assert!(answer.problem().ends_with("see parent.operator_token_file"), "{}", answer.text());
    let above = way_to(&url(&root), Some("the token of an operator"));
    let middle = middle.restart_with(|options| options.forwarding = above).await;
    middle.submit(&yaml).await.ok();
    middle.stop().await;
    root.stop().await;
}
