//! Changes of a map, followed: nothing is missed although the stream is cut, and one look serves all.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use tokio::time::timeout;

use super::{Map, assert_agrees, map_of};
use crate::{
    http::tenants::Shared,
    world::{STAGE, World, strategy},
};

const MAP: &str = "/api/v1/releases/a/map";

struct Stream {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
    /// From where it would go on.
    last: String,
}

impl Stream {
    async fn open(world: &World, after: &str) -> Self {
        let answer = world.request("GET", &format!("{MAP}/changes")).header("Last-Event-ID", after);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        Self { bytes: answer.bytes_stream().boxed(), text: String::new(), last: after.to_owned() }
    }

    async fn of(world: &World, map: &Map) -> Self {
        Self::open(world, &format!("{}-{}", map.epoch, map.generation)).await
    }

    /// The next event and its data; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                    line.unwrap_or_default().to_owned()
                };
                if !field("id").is_empty() {
                    self.last = field("id");
                }
                if !field("event").is_empty() {
                    return Some((field("event"), serde_json::from_str(&field("data")).unwrap_or_default()));
                }
                continue;
            }
            let more = timeout(Duration::from_mins(1), self.bytes.next()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&more?.unwrap()).unwrap());
        }
    }

    /// Takes changes in until the map is so.
    async fn until(&mut self, states: &mut BTreeMap<u32, u8>, wanted: &BTreeMap<u32, u8>) {
        while states != wanted {
            let (event, data) = self.next().await.expect("it goes on");
            assert_eq!(event, "changes");
            for alike in data.as_array().unwrap() {
                let mut number = 0;
                for difference in alike[2].as_array().unwrap() {
                    number += difference.as_u64().unwrap() as u32;
                    states.insert(number, (alike[0].as_u64().unwrap() & 0x3f) as u8);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_map_that_is_followed_is_the_one_that_is_loaded() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    let map = map_of(&world, MAP).await;
    let mut states = map.states();
    assert_eq!(states.values().collect::<Vec<_>>(), [&1, &1]);
    // What happens between is not missed.
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    let mut stream = Stream::of(&world, &map).await;
    let now = assert_agrees(&world, "a").await.states();
    stream.until(&mut states, &now).await;
    assert_eq!(states.values().collect::<Vec<_>>(), [&3, &1]);
    // Cut, while more happens.
    let last = stream.last.clone();
    drop(stream);
    world.report(&one, "a", STAGE, 2).await.ok();
    world.poll(&two).await;
    world.fetch(&two, "a").await.ok();
    let mut stream = Stream::open(&world, &last).await;
    let now = assert_agrees(&world, "a").await.states();
    stream.until(&mut states, &now).await;
    assert!(!states.values().any(|state| *state == 1), "both have begun: {states:?}");
    // One fact that changes all, which nobody has to ask for.
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    let wanted = |states: &BTreeMap<u32, u8>| states.values().all(|state| *state > 8);
    while !wanted(&states) {
        let (event, data) = stream.next().await.unwrap();
        assert_eq!(event, "changes");
        for alike in data.as_array().unwrap() {
            let mut number = 0;
            for difference in alike[2].as_array().unwrap() {
                number += difference.as_u64().unwrap() as u32;
                states.insert(number, (alike[0].as_u64().unwrap() & 0x3f) as u8);
            }
        }
    }
    assert_eq!(states, assert_agrees(&world, "a").await.states());
    world.stop().await;
}

#[tokio::test]
async fn whoever_cannot_go_on_is_told_to_load_the_map_again() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let map = map_of(&world, MAP).await;
    // Of another life of the manager, and from the future.
    for after in
        [format!("{}-{}", map.epoch + 1, map.generation), format!("{}-{}", map.epoch, map.generation + 7)]
    {
        let mut stream = Stream::open(&world, &after).await;
        assert_eq!(stream.next().await.unwrap().0, "load");
        assert_eq!(stream.next().await, None, "it ends");
    }
    // Somebody joins: the map has nobody of that number.
    let mut stream = Stream::of(&world, &map).await;
    world.child().await;
    world.call("POST", "/api/v1/releases/a/extend").await.ok();
    assert_eq!(stream.next().await.unwrap().0, "load");
    world.stop().await;
}

#[tokio::test]
async fn streams_do_not_hold_up_a_shutdown() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let map = map_of(&world, MAP).await;
    let mut stream = Stream::of(&world, &map).await;
    timeout(Duration::from_secs(5), world.stop()).await.expect("it stops although somebody watches");
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn a_tenant_sees_its_own_children_and_releases_on_maps() {
    let shared = Shared::start().await;
    let mine = shared.child_of("acme").await;
    let theirs = shared.child_of("umbra").await;
    shared.submit("ann", &strategy("mine")).await.ok();
    shared.submit("uma", &strategy("theirs")).await.ok();
    let fleet = Map::read(&shared.get("ann", "/api/v1/map").await.ok().body);
    let own = Map::read(&shared.get("ann", "/api/v1/releases/mine/map").await.ok().body);
    assert_eq!((fleet.children.len(), own.states().into_values().collect::<Vec<_>>()), (1, vec![1]));
    let number = *fleet.children.keys().next().unwrap();
    let one = shared.get("ann", &format!("/api/v1/map/children/{number}?release=mine")).await.ok();
    assert!(one.text().contains(&mine) && !one.text().contains("~acme~"), "{}", one.text());
    assert_eq!(one.json()["state"], "waiting");
    let all = Map::read(&shared.get("root", "/api/v1/map").await.ok().body);
    assert_eq!(all.children.len(), 2);
    let other = *all.children.keys().find(|found| **found != number).unwrap();
    for path in [
        format!("/api/v1/map/children/{other}"),
        "/api/v1/releases/theirs/map".to_owned(),
        "/api/v1/releases/theirs/map/cells".to_owned(),
        "/api/v1/releases/theirs/map/areas".to_owned(),
        "/api/v1/releases/theirs/map/changes".to_owned(),
        "/api/v1/releases/theirs/map/history".to_owned(),
        format!("/api/v1/map/children/{number}?release=theirs"),
    ] {
        let answer = shared.get("ann", &path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert!(!answer.text().contains(&theirs), "{path}");
    }
    let cells = shared.get("ann", "/api/v1/map/cells").await.ok().json();
    assert_eq!(cells["total"], serde_json::json!({"heard": 1}));
    assert_eq!(shared.get("vic", "/api/v1/map").await.status, 200, "who looks may see the map");
    shared.world.stop().await;
}
