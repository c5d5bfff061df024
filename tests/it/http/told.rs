//! The trail newest first, without what single children did: all that is left, in pages, and nothing twice.

use serde_json::Value;

use crate::world::{STAGE, World, strategy};

const STEPS: [&str; 4] = ["child", "deployed", "late_result", "child_reported"];

async fn pages(world: &World, query: &str) -> Vec<Value> {
    let (mut entries, mut after) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/v1/audit?limit=2{query}{after}")).await.ok().json();
        entries.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return entries,
        }
    }
}

/// What should be told of the whole trail.
fn told(whole: &[Value]) -> Vec<Value> {
    let without_steps = whole.iter().rev().filter_map(|entry| {
        let mut entry = entry.clone();
        let events = entry["events"].as_array_mut().unwrap();
        events.retain(|event| !STEPS.contains(&event["event"].as_str().unwrap()));
        (!events.is_empty()).then_some(entry)
    });
    without_steps.collect()
}

#[tokio::test]
async fn what_is_told_is_the_trail_without_steps_newest_first() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    world.submit(&strategy("b")).await.ok();
    for child in [&one, &two] {
        for (offer, stage) in [("a", STAGE), ("a.rollout", "choirmaster rollout")] {
            assert_eq!(world.poll(child).await.1, offer);
            world.fetch(child, offer).await.ok();
            world.report(child, offer, stage, 2).await.ok();
            world.end_stage(child, offer, stage).await;
            world.report(child, offer, stage, 4).await.ok();
        }
    }
    for query in ["", "&release=a", "&release=b"] {
        let whole = pages(&world, query).await;
        let shown = pages(&world, &format!("{query}&told=true")).await;
        assert_eq!(shown, told(&whole), "{query}");
        assert!(shown.len() > 1, "{query}: {shown:?}");
        // Of b, nobody has begun.
        assert_eq!(
            shown.len() < whole.len(),
            query != "&release=b",
            "{query}: {} of {}",
            shown.len(),
            whole.len()
        );
    }
    let last = pages(&world, "&release=a&told=true").await.remove(0);
    assert!(last["events"].to_string().contains("release_ended"), "{last}");
    world.stop().await;
}
