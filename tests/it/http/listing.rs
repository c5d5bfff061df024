//! Lists of releases: what is wanted of them, in which order, and how pages go on.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{AREA, World, strategy};

async fn ids(world: &World, query: &str) -> String {
    let page = world.get(&format!("/api/v1/releases?{query}")).await.ok().json();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
}

const FIJI: &str = "{type: MultiPolygon, coordinates: [[[[177,-19],[180,-19],[180,-16],[177,-16],[177,-19]]],\
                    [[[-180,-19],[-178,-19],[-178,-16],[-180,-16],[-180,-19]]]]}";

/// Four releases of the same function: the first runs, one waits, one is over, and one was never anybody's.
async fn four() -> World {
    let world = World::start().await;
    world.child().await;
    let berlin = format!("target: {{area: {AREA}}}\n");
    world.submit(&(strategy("one") + &berlin)).await.ok();
    world.submit(&strategy("two").replacen("name: ", "name: Zürich ", 1)).await.ok();
    world.submit(&(strategy("three") + "target: {labels: {tier: edge}}\n")).await.ok();
    world.submit(&(strategy("four") + &format!("target: {{area: {FIJI}}}\n"))).await.ok();
    for over in ["three", "four"] {
        world.call("POST", &format!("/api/v1/releases/{over}/abort")).await.ok();
    }
    world
}

#[tokio::test]
async fn releases_are_filtered_whether_they_are_over_or_not() {
    let world = four().await;
    for (query, expected) in [
        ("", "four three two one"),
        ("state=Running", "one"),
        ("state=Running,Planned", "two one"),
        ("state=Running,Aborted", "four three one"),
        ("name=TWO", "two"),
        ("name=z%C3%BCR", "two"),
        ("name=nobody", ""),
        ("function=sieve", "four three two one"),
        ("function=siev", ""),
        ("label=tier:edge", "three"),
        ("label=tier:cloud", ""),
        // Who is bound to no area is everywhere.
        ("area=52.5,13.4", "three two one"),
        ("area=48.8,2.3", "three two"),
        ("area=-17.5,179", "four three two"),
        ("area=-17.5,-179", "four three two"),
        ("area=179.9,-18,-179.9,-17", "four three two"),
        ("area=-170,-18,170,-17", "three two"),
        ("area=52.5,13.4&state=Planned,Running&name=o", "two one"),
        ("sort=state", "two one four three"),
        // Names in the order of their letters, the newest first of those that are called the same.
        ("sort=name", "four three one two"),
        ("sort=name&state=Planned,Running", "one two"),
        // The least first; what is over has come to its end.
        ("sort=progress", "two one four three"),
        ("sort=submitted", "four three two one"),
        ("sort=submitted&state=Aborted", "four three"),
        ("sort=-submitted", "one two three four"),
        ("sort=-state", "three four one two"),
        ("sort=-name", "two one three four"),
        ("sort=-progress", "three four one two"),
        ("sort=state&state=Planned,Aborted", "two four three"),
        ("limit=2", "four three"),
    ] {
        assert_eq!(ids(&world, query).await, expected, "{query}");
    }
    for wrong in [
        "state=running",
        "state=",
        "sort=age",
        "sort=--name",
        "sort=-",
        "label=tier",
        "area=91,0",
        "area=1",
        "area=0,10,1,9",
        "area=NaN,1",
        "area=1,2,3",
        "after=x",
        "after=1-2",
        "after=1-2:x",
        "limit=0",
        "below=a//b",
        "colour=red",
    ] {
        assert_eq!(world.get(&format!("/api/v1/releases?{wrong}")).await.status, 400, "{wrong}");
    }
    // Read again from the store alone.
    let world = world.restart().await;
    assert_eq!(ids(&world, "label=tier:edge").await, "three");
    assert_eq!(ids(&world, "area=-17.5,179&state=Aborted").await, "four three");
    world.stop().await;
}

#[tokio::test]
async fn a_line_says_how_far_a_release_is_and_since_when() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world
        .submit(
            &(strategy("waves") + "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n"),
        )
        .await
        .ok();
    let line = async || world.get("/api/v1/releases?counts=true").await.ok().json();
    let seen = line().await;
    assert_eq!(seen["open"], json!({"Running": 1}), "{seen:#}");
    let item = &seen["items"][0];
    assert_eq!(
        (&item["progress"], &item["wave"]["of"]),
        (&json!({"ended": 0, "of": 2}), &json!(2)),
        "{item:#}"
    );
    assert!(item["since"].as_str().unwrap() >= item["submitted"].as_str().unwrap(), "{item:#}");
    assert_eq!(item["wave"], json!({"open": 1, "of": 2}), "{item:#}");
    world.call("POST", "/api/v1/releases/waves/pause").await.ok();
    let seen = line().await;
    assert_eq!(seen["open"], json!({"Paused": 1}));
    assert!(seen["items"][0]["since"].is_string(), "{seen:#}");
    world.call("POST", "/api/v1/releases/waves/abort").await.ok();
    let seen = line().await;
    let item = &seen["items"][0];
    assert_eq!((&seen["open"], &item["since"]), (&json!({}), &item["ended"]), "{seen:#}");
    assert_eq!(item.get("wave"), None);
    assert_ne!(one, two);
    world.stop().await;
}

#[tokio::test]
async fn a_line_says_since_when_an_approval_is_waited_for() {
    let world = World::start().await;
    let child = world.child().await;
    world.child().await;
    let rollout = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&(strategy("waves") + rollout)).await.ok();
    let line = async || world.get("/api/v1/releases").await.ok().json()["items"][0].clone();
    let running = line().await;
    assert_eq!(running["state"], "Running", "{running:#}");
    let (_, offer) = world.poll(&child).await;
    world.run(&child, &offer).await;
    let waits = line().await;
    assert_eq!(waits["state"], "AwaitingApproval", "{waits:#}");
    let since = waits["since"].as_str().unwrap();
    // Times of one form are in the order of their texts. It waits since it came there, and not since it began.
    assert!(since > running["since"].as_str().unwrap(), "{waits:#}");
    // It is told by two clocks, each in whole milliseconds.
    let ms =
        |line: &Value| line["since"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let again = line().await;
    assert!(ms(&again).abs_diff(ms(&waits)) <= 1, "{again:#}");
    world.call("POST", "/api/v1/releases/waves/approve").await.ok();
    assert_eq!(line().await["since"], running["since"], "one that runs says since when it runs");
    world.stop().await;
}

/// All pages of a list, and how many there were.
async fn pages(world: &World, query: &str) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = world.get(&format!("/api/v1/releases?{query}&after={after}")).await.ok().json();
        ids.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].to_string()));
        pages += 1;
        match &page["next"] {
            Value::String(next) => next.clone_into(&mut after),
            _ => return (ids, pages),
        }
    }
}

#[tokio::test]
async fn pages_go_on_to_the_end_and_show_each_release_once_in_every_order() {
    let world = World::start().await;
    for at in 0..23 {
        world.submit(&strategy(&format!("r{at}"))).await.ok();
    }
    for query in [
        "limit=5",
        "limit=5&sort=-submitted",
        "limit=5&sort=name",
        "limit=5&sort=-name",
        "limit=5&sort=state",
        "limit=5&sort=progress",
        "limit=5&name=R1",
    ] {
        let (ids, pages) = pages(&world, query).await;
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        let expected = if query.ends_with("R1") { 11 } else { 23 };
        assert_eq!((ids.len(), unique.len()), (expected, expected), "{query} {ids:?}");
        assert!(pages <= expected / 5 + 2, "{query} {pages}");
    }
    world.stop().await;
}

/// So many releases that are over, the oldest of which has a name and a label of its own; they name each other's function.
async fn ended(world: &World, count: usize) {
    let needle = strategy("needle").replacen("name: ", "name: Pin ", 1) + "target: {labels: {tier: edge}}\n";
    // Nobody is there to take part.
    assert_eq!(world.submit(&needle).await.ok().json()["participants"], 0);
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(50) {
        let one = async |at: &usize| {
            world.submit(&strategy(&format!("old{at}"))).await.ok();
        };
        join_all(some.iter().map(one)).await;
    }
}

#[tokio::test]
async fn one_call_looks_at_a_bounded_number_of_releases_and_the_next_goes_on() {
    const COUNT: usize = 2_300;
    let world = World::start().await;
    ended(&world, COUNT).await;
    let world = world.restart().await;
    // Names and targets stand in strategies: after so many bytes of them a call answers with what it has.
    let bytes = (COUNT + 1) * strategy("old").len();
    let most = bytes / (512 * 1024) + 2 + COUNT / 2_000;
    let first = world.get("/api/v1/releases?name=pin").await.ok().json();
    assert_eq!(first["items"], json!([]), "{first}");
    assert!(first["next"].is_string(), "{first}");
    let (found, calls) = pages(&world, "name=pin").await;
    assert_eq!(found, ["\"needle\""]);
    assert!((2..=most).contains(&calls), "{calls} calls for {bytes} bytes, at most {most}");
    // What was read once is known: 2,000 are looked at, none of which is it, and the next call finds it.
    for query in ["name=pin", "label=tier:edge"] {
        assert_eq!(pages(&world, query).await, (vec!["\"needle\"".to_owned()], 2), "{query}");
    }
    // Sorted, each is shown once, window by window.
    let (mut ids, _) = pages(&world, "sort=name&limit=1000").await;
    assert_eq!(ids.len(), COUNT + 1);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), COUNT + 1);
    world.stop().await;
}
