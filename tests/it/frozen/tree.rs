//! A root and the managers below it, each in the middle of a release.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tokio::time::{sleep, timeout};

use super::{
    Frozen,
    actor::Actor,
    json, samples,
    single::{on, operate, shown},
    thaw,
};
use crate::{
    store::place::{Kind, Place},
    tree::levels::{parent, url},
    world::World,
};

const PATIENCE: Duration = Duration::from_secs(90);

/// A manager below for each release, called like it, and how that ends.
const ENDS: [(&str, &str); 6] = [
    ("barrier", "Done"),
    ("global", "Done"),
    ("paused", "Done"),
    ("plainly", "Done"),
    ("undone", "Aborted"),
    ("waves", "Done"),
];

struct Below {
    world: World,
    actors: Vec<Actor>,
}

impl Below {
    async fn on(form: Frozen, place: &Place, root: &World) -> Self {
        moved(form, place, &url(root)).await;
        let (own, above) = (place.url.clone(), parent(url(root)));
        let world = World::with(|options| {
            (options.store, options.functions_root, options.parent) = (own, samples(), Some(above));
        });
        Self { world: world.await, actors: Vec::new() }
    }
}

/// Where the root was when this was recorded.
const ROOT: &str = "http://127.0.0.1:40443";

/// The root is elsewhere now: to the manager below it is another one, unless its store says so.
async fn moved(form: Frozen, place: &Place, url: &str) {
    let sql = match form {
        Frozen::File => {
            format!("UPDATE outbox SET payload = replace(payload, '{ROOT}', '{url}') WHERE kind = 'enrolled'")
        }
        Frozen::Export => {
            format!("UPDATE settings SET value = replace(value, '{ROOT}', '{url}') WHERE name = 'enrolled'")
        }
    };
    let sql = sqlx::AssertSqlSafe(sql);
    match place.kind {
        Kind::Sqlite => {
            let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
        Kind::Postgres => {
            let mut conn = PgConnection::connect(&place.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
    }
}

/// Files where there is one of the store, else exports.
async fn goes_on(kind: Kind, places: &[Place]) {
    let form = |name: &str| match kind {
        Kind::Sqlite if super::path(&format!("{name}.db")).exists() => Frozen::File,
        _ => Frozen::Export,
    };
    thaw("root", form("root"), &places[0]).await;
    let root = on(&places[0]).await;
    let before = json("root.json");
    for (id, before) in before["releases"].as_object().unwrap() {
        assert_eq!(shown(&root, id).await["state"], before["state"], "{id}");
    }
    let mut all = Vec::new();
    for ((name, _), place) in ENDS.iter().zip(&places[1..]) {
        thaw(name, form(name), place).await;
        let mut below = Below::on(form(name), place, &root).await;
        let frozen = json(&format!("{name}.json"));
        for (id, before) in frozen["releases"].as_object().unwrap() {
            assert_eq!(shown(&below.world, id).await["state"], before["state"], "{id} below");
        }
        below.actors = Actor::all(&frozen);
        for actor in &below.actors {
            actor.asks_again(&below.world).await;
        }
        all.push(below);
    }
    let running = timeout(PATIENCE, async {
        while !one_round(&root, &mut all).await {
            sleep(Duration::from_millis(10)).await;
        }
    });
    let in_time = running.await.is_ok();
    for ((id, end), below) in ENDS.iter().zip(&all) {
        let (above, there) = (shown(&root, id).await, shown(&below.world, id).await);
        assert_eq!(above["state"], *end, "{above:#}\n{there:#}");
        assert_eq!((&above["unconfirmed"], &there["unconfirmed"]), (&0.into(), &0.into()), "{above:#}");
        assert!(!there["ended"].is_null(), "{there:#}");
    }
    assert!(in_time);
    // None has registered anew.
    let children = root.get("/api/v1/children").await.ok().json();
    assert_eq!(children["items"].as_array().unwrap().len(), ENDS.len(), "{children:#}");
    for below in all {
        below.world.stop().await;
    }
    root.stop().await;
}

/// Every agent does one thing, and the operator of the root what is waited for; whether all is over everywhere.
async fn one_round(root: &World, all: &mut [Below]) -> bool {
    let mut is_over = true;
    for below in &mut *all {
        for actor in &mut below.actors {
            is_over &= !actor.step(&below.world).await;
        }
    }
    for world in all.iter().map(|below| &below.world).chain([root]) {
        let listed = world.get("/api/v1/releases?limit=100").await.ok().json();
        is_over &= listed["items"].as_array().unwrap().iter().all(|release| !release["ended"].is_null());
    }
    let listed = root.get("/api/v1/releases?limit=100").await.ok().json();
    for release in listed["items"].as_array().unwrap() {
        operate(root, release).await;
    }
    is_over
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_an_earlier_build_goes_on_from_its_files() {
    Place::several(Kind::Sqlite, 7, async |places: &[Place]| goes_on(Kind::Sqlite, places).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_an_earlier_build_goes_on_in_postgres() {
    Place::several(Kind::Postgres, 7, async |places: &[Place]| goes_on(Kind::Postgres, places).await).await;
}
