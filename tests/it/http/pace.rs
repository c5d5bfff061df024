//! How fast offers are handed out at polls.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{
    deadline::DEADLINE,
    world::{AREA, STAGE, World, strategy},
};

/// How long polls wait.
const WAIT: Duration = Duration::from_mins(1);

/// A poll that waits; what it is offered in the end.
fn waits(world: &World, id: &str) -> JoinHandle<String> {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0});
    let request = world.request("POST", "/poll?wait=1m").json(&body);
    tokio::spawn(async move {
        let answer: Value =
            serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
        answer["new_release"].as_str().unwrap().to_owned()
    })
}

async fn soon(call: JoinHandle<String>) -> String {
    timeout(DEADLINE, call).await.expect("not answered in time").unwrap()
}

async fn waiting(world: &World, count: usize) {
    let began = Instant::now();
    while world.manager.engine.view().waiters.count() != count {
        assert!(began.elapsed() < DEADLINE, "never {count} waited");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn children<const N: usize>(world: &World) -> [String; N] {
    let mut ids = [const { String::new() }; N];
    for id in &mut ids {
        *id = world.child().await;
    }
    ids
}

#[tokio::test]
async fn waiting_poll_is_answered_with_offer_when_slot_frees_up() {
    let world = World::start().await;
    let [first, second, third] = children(&world).await;
    world.submit(&(strategy("a") + "rollout: {max_in_progress: 1, on_failure: continue}\n")).await.ok();
    assert_eq!(world.poll(&first).await.1, "a");
    let calls = [waits(&world, &second), waits(&world, &third)];
    waiting(&world, 2).await;
    world.fetch(&first, "a").await.ok();
    let began = Instant::now();
    world.report(&first, "a", STAGE, 5).await.ok();
    // One place, so one of them; the other waits on. Which one, only its answer tells.
    let [mut one, mut two] = calls;
    let first_answer = async {
        tokio::select! {
            offer = &mut one => (offer.unwrap(), &second, &third, two),
            offer = &mut two => (offer.unwrap(), &third, &second, one),
        }
    };
    let (offer, done, waits, waiting_call) =
        timeout(DEADLINE, first_answer).await.expect("nobody was answered");
    assert_eq!(offer, "a");
    assert!(!waiting_call.is_finished());
    world.fetch(done, "a").await.ok();
    world.report(done, "a", STAGE, 5).await.ok();
    assert_eq!(soon(waiting_call).await, "a");
    // A call whose wake-up was lost is answered at its end.
    assert!(began.elapsed() < WAIT, "the wake-up was lost");
    world.fetch(waits, "a").await.ok();
    world.stop().await;
}

#[tokio::test]
async fn simultaneous_offers_are_spread_by_individual_delays() {
    let world = World::with(|options| options.rules.offer_jitter = Duration::from_secs(2)).await;
    let ids: [String; 8] = children(&world).await;
    world.submit(&strategy("a")).await.ok();
    let mut at_once = 0;
    for id in &ids {
        at_once += usize::from(!world.poll(id).await.1.is_empty());
    }
    assert!(at_once < ids.len(), "nobody is delayed");
    // Polls that wait are answered when their time has come.
    let calls: Vec<_> = ids.iter().map(|id| waits(&world, id)).collect();
    for call in calls {
        assert_eq!(soon(call).await, "a");
    }
    // What is to be undone is not delayed.
    for id in &ids {
        world.fetch(id, "a").await.ok();
        world.report(id, "a", STAGE, 6).await.ok();
        assert_eq!(world.poll(id).await.1, "a.undo");
    }
    world.stop().await;
}
