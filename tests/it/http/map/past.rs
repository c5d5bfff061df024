//! The past of releases, folded from the trail, ends where they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Columns, assert_agrees, map_of, rectangle};
use crate::{
    deadline::DEADLINE,
    world::{Answer, STAGE, World, strategy},
};
use language::render::ROLLOUT_STAGE;

/// A history, read by its description.
struct History {
    is_cut: bool,
    corrected: u32,
    /// Milliseconds since the start, state, numbers.
    groups: Vec<(u64, u8, Vec<u32>)>,
}

impl History {
    async fn of(world: &World, release: &str) -> Self {
        let answer = world.get(&format!("/api/v1/releases/{release}/map/history")).await.ok();
        assert_eq!(answer.header("content-type"), "application/vnd.choirmaster.map-history");
        let body = answer.body.as_slice();
        assert_eq!((&body[..4], body[4], body[5]), (&b"CHMH"[..], 1, 0));
        let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        let mut columns = Columns { body, at: 32 };
        let (mut ms, mut groups) = (0, Vec::new());
        for _ in 0..u32_at(8) {
            ms += columns.leb128();
            let state = columns.byte();
            let (count, mut number) = (columns.leb128(), 0);
            let mut numbers = Vec::new();
            for _ in 0..count {
                let zigzag = columns.leb128();
                number += (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
                numbers.push(u32::try_from(number).unwrap());
            }
            groups.push((ms, state, numbers));
        }
        assert_eq!(columns.at, body.len());
        assert_eq!(u64::from_le_bytes(body[24..32].try_into().unwrap()), ms);
        Self { is_cut: body[6] & 1 == 1, corrected: u32_at(12), groups }
    }

    /// The state of each child in the end.
    fn last(&self) -> BTreeMap<u32, u8> {
        let all = self.groups.iter().flat_map(|(_, state, numbers)| numbers.iter().map(|n| (*n, *state)));
        all.collect()
    }
}

/// What follows from the trail alone is what the API says.
async fn assert_folds(world: &World, release: &str, what: &str) {
    let map = assert_agrees(world, release).await;
    let history = History::of(world, release).await;
    let of_release: BTreeMap<u32, u8> = map.states().into_iter().filter(|(_, state)| *state != 0).collect();
    assert_eq!((history.last(), history.corrected, history.is_cut), (of_release, 0, false), "{what}");
    assert!(history.groups.is_sorted_by_key(|(ms, ..)| *ms));
}

/// One call at random; most are refused where they don't fit, as they should be.
async fn act(
    world: &World,
    random: &mut StdRng,
    children: &[String],
    offers: &mut BTreeMap<String, String>,
    release: &str,
) -> String {
    let child = &children[random.random_range(0..children.len())];
    let (_, offer) = world.poll(child).await;
    if !offer.is_empty() {
        offers.insert(child.clone(), offer);
    }
    let offer = offers.get(child).map_or(release, String::as_str);
    let stage = if offer.contains(".rollout") || offer.contains(".undo") { ROLLOUT_STAGE } else { STAGE };
    let of_release = |verb: &str| format!("/api/v1/releases/{release}/{verb}");
    let of_child = |verb: &str| format!("/api/v1/releases/{release}/children/{child}/{verb}");
    let (what, answer) = match random.random_range(0..50) {
        0..=7 => {
            // All of an offer at once: else hardly anybody would come to an end.
            world.fetch(child, offer).await;
            world.report(child, offer, stage, 2).await;
            world.end_stage(child, offer, stage).await;
            ("does all", world.report(child, offer, stage, 4).await)
        }
        8..=11 => ("fetch", world.fetch(child, offer).await),
        12..=21 => ("waits", world.report(child, offer, stage, 2).await),
        22..=29 => ("asks for the end", world.end_stage(child, offer, stage).await),
        30..=39 => ("completed", world.report(child, offer, stage, 4).await),
        40 => ("failed", world.report(child, offer, stage, 5).await),
        41 | 42 => ("retry one", world.call("POST", &of_child("retry")).await),
        43 => ("skip one", world.call("POST", &of_child("skip")).await),
        44 => ("retry all", world.call("POST", &of_release("retry")).await),
        45 => ("pause", world.call("POST", &of_release("pause")).await),
        46 | 47 => ("resume", world.call("POST", &of_release("resume")).await),
        _ if random.random_range(0..8) == 0 => ("abort", world.call("POST", &of_release("abort")).await),
        _ => ("extend", world.call("POST", &of_release("extend")).await),
    };
    format!("{child} {what}: {}", answer.status)
}

#[tokio::test]
async fn the_past_of_a_random_release_ends_where_it_is() {
    let mut seen = BTreeMap::new();
    for seed in 0..4 {
        let mut offers = BTreeMap::new();
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::start().await;
        let mut children = Vec::new();
        for _ in 0..6 {
            children.push(world.child().await);
        }
        world.submit(&strategy("a")).await.ok();
        let mut done = Vec::new();
        for turn in 0..160 {
            done.push(act(&world, &mut random, &children, &mut offers, "a").await);
            if turn % 20 == 19 {
                assert_folds(&world, "a", &format!("seed {seed}: {done:#?}")).await;
                let map = map_of(&world, "/api/v1/releases/a/map").await;
                map.states().into_values().for_each(|state| *seen.entry(state).or_insert(0) += 1);
            }
            if turn == 60 {
                children.push(world.child().await);
            }
        }
        let world = world.restart().await;
        assert_folds(&world, "a", &format!("seed {seed} after a restart")).await;
        world.stop().await;
    }
    // Else it would have tried nothing.
    let names: Vec<&str> =
        seen.keys().map(|state| model::MapState::from_number(*state).unwrap().name()).collect();
    for name in ["waiting", "doing", "done", "taking_back"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}

#[tokio::test]
async fn a_release_that_is_over_keeps_its_past() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    let not_begun = History::of(&world, "a").await;
    assert_eq!((not_begun.groups.len(), not_begun.corrected), (1, 0));
    world.run(&one, "a").await;
    world.run(&two, "a").await;
    assert_folds(&world, "a", "over").await;
    let history = History::of(&world, "a").await;
    let states: Vec<u8> = history.groups.iter().map(|(_, state, _)| *state).collect();
    // Waiting, doing, held, doing, done: of the first child and then of the other.
    assert_eq!((states.first(), states.last()), (Some(&1), Some(&4)), "{states:?}");
    assert_eq!(history.last().values().collect::<Vec<_>>(), [&4, &4]);
    // Each waited at the end of its stage, and of its roll-out.
    assert_eq!(states.iter().filter(|state| matches!(**state, 2)).count(), 4, "{states:?}");
    world.stop().await;
}

/// Calls again while the manager is too busy to answer.
async fn served(call: impl AsyncFn() -> Answer) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = call().await;
        if answer.status != 503 {
            return answer.ok();
        }
        assert!(begun.elapsed() < DEADLINE, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Children far from each other. At one place, one that a busy machine keeps silent for ten seconds would be taken for a machine that has come
/// back under the id of the next that calls from there.
struct Apart {
    children: Vec<(String, Value)>,
}

impl Apart {
    async fn born(world: &World, count: usize) -> Self {
        let child = async |at: usize| {
            let (column, line) = ((at % 60) as f64, (at / 60) as f64);
            let area = rectangle(column, line, column + 0.5, line + 0.5);
            let id = Self::poll(world, "", &area).await["id"].as_str().unwrap().to_owned();
            Self::poll(world, &id, &area).await;
            (id, area)
        };
        let children = stream::iter(0..count).map(child).buffer_unordered(16).collect().await;
        Self { children }
    }

    async fn poll(world: &World, id: &str, area: &Value) -> Value {
        let body = json!({"id": id, "geographic_area": area, "number_of_children": 0});
        served(async || world.post("/poll", &body).await).await.json()
    }

    /// Each fails as soon as it has its turn. Who was silent for long has it after the others, so nobody waits for it alone.
    async fn all_fail(&self, world: &World, release: &str) {
        let left = Mutex::new(self.children.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>());
        let begun = Instant::now();
        let fail = async |(child, area): &(String, Value)| {
            if !left.lock().unwrap().contains(child)
                || Self::poll(world, child, area).await["new_release"] != release
            {
                return;
            }
            served(async || world.fetch(child, release).await).await;
            served(async || world.report(child, release, STAGE, 5).await).await;
            left.lock().unwrap().remove(child);
        };
        while !left.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < DEADLINE, "left: {}", left.lock().unwrap().len());
            stream::iter(&self.children).for_each_concurrent(16, &fail).await;
        }
    }
}

/// More than the store reads at once: nobody is forgotten when the release has left memory.
#[tokio::test]
async fn of_a_release_that_is_over_each_of_many_children_is_where_it_ended() {
    const CHILDREN: usize = 1_030;
    let world = World::start().await;
    let children = Apart::born(&world, CHILDREN).await;
    world.submit(&(strategy("a") + "\nrollout: {order: parallel, max_failed: 100%}\n")).await.ok();
    children.all_fail(&world, "a").await;
    world.until("/api/v1/releases/a", |release| release["state"] == "DoneWithFailures").await;
    let cells = async |world: &World| {
        let path = "/api/v1/releases/a/map/cells?columns=36";
        served(async || world.get(path).await).await.json()["total"].clone()
    };
    let expected = json!({"failed": CHILDREN});
    assert_eq!(cells(&world).await, expected);
    assert_folds(&world, "a", "of many children").await;
    // Each of them may be tried again, also those that come after the first thousand.
    let actions = served(async || world.get("/api/v1/releases/a/actions").await).await.json();
    let retry = actions["actions"].as_array().unwrap().iter().find(|one| one["action"] == "retry").unwrap();
    assert_eq!((&retry["can"], &retry["agents"]), (&json!(true), &json!(CHILDREN)), "{retry:#}");
    let world = world.restart().await;
    assert_eq!(cells(&world).await, expected);
    world.stop().await;
}
