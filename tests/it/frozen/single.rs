//! One manager, with agents in the middle of everything.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Frozen, actor::Actor, json, samples, thaw};
use crate::{
    store::place::{Kind, Place},
    world::World,
};

/// Longest wait for all releases to come to their end.
const PATIENCE: Duration = Duration::from_secs(90);

/// How each ends, now that everything goes well.
const ENDS: [(&str, &str); 11] = [
    ("aborted", "Aborted"),
    ("asked", "Done"),
    ("jump", "Done"),
    ("led", "Done"),
    ("past", "Done"),
    ("paused", "Done"),
    ("queued", "Done"),
    ("rolling", "RolledBack"),
    ("steps", "Done"),
    ("waves", "Done"),
    // One had failed before.
    ("whole", "DoneWithFailures"),
];

pub async fn on(place: &Place) -> World {
    let url = place.url.clone();
    World::with(|options| (options.store, options.functions_root) = (url, samples())).await
}

pub async fn shown(world: &World, release: &str) -> Value {
    world.get(&format!("/api/v1/releases/{release}")).await.ok().json()
}

/// Does what an operator is waited for.
pub async fn operate(world: &World, release: &Value) {
    let act = match release["state"].as_str().unwrap() {
        "AwaitingApproval" => "approve",
        "Paused" => "resume",
        _ => return,
    };
    let id = release["id"].as_str().unwrap();
    world.call("POST", &format!("/api/v1/releases/{id}/{act}")).await.ok();
}

async fn goes_on(form: Frozen, place: &Place) {
    thaw("single", form, place).await;
    let frozen = json("single.json");
    let world = on(place).await;
    for (id, before) in frozen["releases"].as_object().unwrap() {
        let now = shown(&world, id).await;
        assert_eq!(now["state"], before["state"], "{id}: {now:#}");
        assert_eq!(now["counts"]["participants"], before["counts"]["participants"], "{id}: {now:#}");
    }
    let mut actors = Actor::all(&frozen);
    for actor in &actors {
        actor.asks_again(&world).await;
    }
    submitted_again(&world).await;
    let running = timeout(PATIENCE, async {
        while !one_round(&world, &mut actors).await {
            sleep(Duration::from_millis(10)).await;
        }
    });
    let in_time = running.await.is_ok();
    for (id, end) in ENDS {
        let now = shown(&world, id).await;
        assert_eq!(now["state"], end, "{now:#}");
        assert_eq!(now["unconfirmed"], 0, "{now:#}");
    }
    assert!(in_time);
    // What was handed out whole went on as whole: nobody was offered a part of it again.
    for actor in &actors {
        let had_it_whole = ["whole-1", "whole-2", "whole-3"].contains(&actor.name.as_str());
        let again: Vec<_> = actor.taken.iter().filter(|offer| offer.starts_with("whole")).collect();
        assert!(!had_it_whole || again.is_empty(), "{} was offered {again:?}", actor.name);
    }
    let children = world.get("/api/v1/releases/whole/children?limit=100").await.ok().json();
    let children = children["items"].as_array().unwrap();
    let succeeded = children.iter().filter(|child| child["outcome"] == "succeeded").count();
    assert_eq!(succeeded, 5, "{children:#?}");
    world.stop().await;
}

/// Each release as it was submitted: the same one, for its digest is.
async fn submitted_again(world: &World) {
    for (id, _) in ENDS {
        let text = world.get(&format!("/api/v1/releases/{id}/strategy")).await.ok().text();
        let answer = world.submit(&text).await;
        assert_eq!(
            (answer.status, &answer.json()["created"]),
            (200, &Value::Bool(false)),
            "{}",
            answer.text()
        );
    }
}

/// Everybody does one thing; whether all is over.
async fn one_round(world: &World, actors: &mut [Actor]) -> bool {
    let mut is_over = true;
    for actor in actors {
        is_over &= !actor.step(world).await;
    }
    let listed = world.get("/api/v1/releases?limit=100").await.ok().json();
    for release in listed["items"].as_array().unwrap() {
        is_over &= !release["ended"].is_null();
        operate(world, release).await;
    }
    is_over
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_an_earlier_build_is_opened_and_its_open_releases_come_to_their_end() {
    Place::with(Kind::Sqlite, async |place| goes_on(Frozen::File, place).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_an_earlier_build_goes_on_in_postgres() {
    Place::with(Kind::Postgres, async |place| goes_on(Frozen::Export, place).await).await;
}
