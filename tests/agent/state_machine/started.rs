//! Variations of services that a runtime of the agent starts.

use std::collections::BTreeSet;

use agent::runtime::VersionId;
use model::StageStatus;
use protocol::FollowUp;

use super::{
    services,
    world::{World, version},
};

const STARTED: &str = "service/shop";

fn v(path: &str) -> VersionId {
    version(STARTED, path)
}

/// A release of the service `shop` whose variations A and B are started from these folders.
fn offer(id: &str, [stable, new]: [&str; 2]) -> String {
    let text = services::offer(id, 80, ["A", "B"]);
    text.replace("targets: [\"127.0.0.1:9065\"]", &format!("run: {{path: {stable}}}"))
        .replace("targets: [\"127.0.0.1:9066\"]", &format!("run: {{path: {new}}}"))
}

/// The same, of a canary that goes with its rollback, and stays until the manager says otherwise.
fn canary(id: &str, folders: [&str; 2]) -> String {
    let text = offer(id, folders).replace("type: Traffic", "type: WaitForSignal");
    text.replace("    variations:\n", "    at_rollback: retire\n    variations:\n")
}

fn undo(text: &str, id: &str) -> String {
    let (services, _) = text.split_once("stages:").expect("stages");
    format!(
        "{}stages:\n  - name: undo\n    type: WaitForSignal\n    shares: {{A: 100, B: 0}}\n    metrics_conditions: []\n    end_conditions: \
         []\n    end_action: {{onSuccess: rollback, onFailure: rollback}}\n",
        services.replace(&format!("id: {id}\n"), &format!("id: {id}.undo\n"))
    )
}

fn offered(world: &mut World, id: &str, text: String) {
    world.offers.push((id.to_owned(), text));
}

fn serves_alone(world: &World, variation: &str, path: &str) -> bool {
    let other = if variation == "A" { "B" } else { "A" };
    world.place("shop", variation).is_some()
        && world.place("shop", other).is_none()
        && world.core.state().work.is_none()
        && world.running.keys().eq([&v(path)])
}

fn times_started(world: &World, path: &str) -> usize {
    world.started.iter().filter(|one| **one == v(path)).count()
}

fn adopted() -> World {
    let mut world = World::new();
    offered(&mut world, "r1", offer("r1", ["v1", "v2"]));
    world.until("it serves alone, and what it replaced is gone", |world| serves_alone(world, "B", "v2"));
    world
}

fn tried() -> World {
    let mut world = World::new();
    offered(&mut world, "c1", canary("c1", ["v1", "v2"]));
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world
}

/// Nothing is left of a service, and nothing of what was started for it.
fn is_gone(world: &World) -> bool {
    let state = world.core.state();
    state.services.is_empty()
        && state.versions.is_empty()
        && state.work.is_none()
        && world.running.is_empty()
        && world.table.as_ref().is_none_or(|table| table.services.is_empty())
}

#[test]
fn what_wins_is_not_started_anew_and_what_it_replaced_is_stopped() {
    let mut world = adopted();
    assert_eq!(world.stopped, [v("v1")]);
    let (place, table) = (world.place("shop", "B"), world.tables.len());
    offered(&mut world, "r2", offer("r2", ["v2", "v3"]));
    world.until("it is tried", |world| world.share("shop") == 1_000);
    assert_eq!(world.place("shop", "A"), place, "what was the canary is the stable one");
    world.until("the next one serves alone", |world| serves_alone(world, "B", "v3"));
    assert_eq!(["v1", "v2", "v3"].map(|path| times_started(&world, path)), [1, 1, 1]);
    // At no time did calls go anywhere but to one of the two.
    for service in world.tables[table..].iter().flat_map(|table| &table.services) {
        assert!(service.variations.iter().all(|one| !one.targets.is_empty()), "{service:?}");
    }
}

#[test]
fn a_kill_at_any_step_changes_nothing_of_what_is_started_and_stopped() {
    for steps in 0..80 {
        let mut world = World::new();
        offered(&mut world, "r1", offer("r1", ["v1", "v2"]));
        world.steps(steps);
        world.kill();
        world.until("it serves alone", |world| serves_alone(world, "B", "v2"));
        assert!(!world.stopped.contains(&v("v2")), "{steps}");
        assert_eq!(world.core.state().versions.keys().collect::<Vec<_>>(), [&v("v2")], "{steps}");
    }
}

#[test]
fn nothing_is_left_of_a_first_canary_that_is_deprecated() {
    for steps in 0..60 {
        let mut world = tried();
        world.signal(Some(FollowUp::Rollback));
        world.steps(steps);
        world.kill();
        world.until("nothing is left of it", is_gone);
        let stopped: BTreeSet<_> = world.stopped.iter().cloned().collect();
        assert_eq!(stopped, BTreeSet::from([v("v1"), v("v2")]), "{steps}");
    }
}

#[test]
fn a_canary_that_is_deprecated_leaves_what_served_before_it_running() {
    let mut world = adopted();
    offered(&mut world, "c2", canary("c2", ["v2", "v3"]));
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.signal(Some(FollowUp::Rollback));
    world.until("what served before serves", |world| serves_alone(world, "A", "v2"));
    assert_eq!(["v2", "v3"].map(|path| times_started(&world, path)), [1, 1]);
}

#[test]
fn a_runtime_that_chooses_other_ports_has_the_table_follow_without_a_release() {
    // While a canary is tried, and afterwards.
    let trials: [fn() -> World; 2] = [tried, adopted];
    for trial in trials {
        let mut world = trial();
        world.until("all is told", |world| world.owed().is_empty());
        let before = ["A", "B"].map(|name| world.place("shop", name));
        let (tables, share) = (world.tables.len(), world.share("shop"));
        world.reboot();
        world.until("all is at another place", |world| {
            let after = ["A", "B"].map(|name| world.place("shop", name));
            let moved = before.iter().zip(&after).all(|(before, after)| {
                before.is_some() == after.is_some() && (before.is_none() || before != after)
            });
            moved && world.share("shop") == share
        });
        for service in world.tables[tables..].iter().flat_map(|table| &table.services) {
            let is_new = |target: &String| target.starts_with("127.0.0.1:21");
            assert!(service.variations.iter().flat_map(|one| &one.targets).all(is_new), "{service:?}");
        }
        assert!(world.stopped.iter().all(|one| *one == v("v1")), "what serves or is tried is never stopped");
    }
}

#[test]
fn what_does_not_come_back_gets_no_call() {
    let mut world = tried();
    world.broken.insert(v("v2"));
    let tables = world.tables.len();
    world.reboot();
    world.until("the stable one is back", |world| {
        world.tables.len() > tables
            && world.place("shop", "A").is_some_and(|at| at.starts_with("127.0.0.1:21"))
    });
    assert_eq!((world.share("shop"), world.place("shop", "B")), (0, world.place("shop", "A")));
    world.broken.clear();
    world.until("the canary is back, with its share", |world| world.share("shop") == 1_000);
    assert_ne!(world.place("shop", "B"), world.place("shop", "A"));
}

#[test]
fn a_canary_that_can_not_be_started_ends_with_an_error_and_is_rolled_back_without_it() {
    let mut world = World::new();
    world.broken.insert(v("v2"));
    offered(&mut world, "c1", canary("c1", ["v1", "v2"]));
    world.until("it is told", |world| !world.ended().is_empty() && world.owed().is_empty());
    let told = world.told.last().unwrap();
    assert_eq!(told.status, StageStatus::Error);
    let why = &told.summary.why.as_ref().unwrap().text;
    assert!(why.contains("could not be started"), "{why}");
    world.until("nothing is left of it", is_gone);
    let tries = times_started(&world, "v2");
    world.signal(None);
    offered(&mut world, "c1.undo", undo(&canary("c1", ["v1", "v2"]), "c1"));
    world.until("its rollback is told", |world| world.ended().len() == 2 && world.owed().is_empty());
    world.until("nothing is left of it", is_gone);
    assert_eq!(times_started(&world, "v2"), tries);
}

#[test]
fn what_was_rolled_out_is_rolled_back_to_what_is_started_again() {
    let mut world = adopted();
    assert!(world.undo(Some("shop")).is_err(), "nobody here has what served before");
    world.signal(None);
    offered(&mut world, "r1.undo", undo(&offer("r1", ["v1", "v2"]), "r1"));
    world.until("what served before serves", |world| serves_alone(world, "A", "v1"));
    assert_eq!(["v1", "v2"].map(|path| times_started(&world, path)), [2, 1]);
}

#[test]
fn a_release_begins_with_the_content_that_serves() {
    let mut world = adopted();
    offered(&mut world, "r2", offer("r2", ["other", "v3"]));
    world.until("it is told", |world| world.ended().len() == 3 && world.owed().is_empty());
    let told = world.told.last().unwrap();
    let why = &told.summary.why.as_ref().unwrap().text;
    assert_eq!(told.status, StageStatus::Error);
    assert!(why.contains("the stable variation of shop is A with the content"), "{why}");
    world.until("what served serves alone", |world| serves_alone(world, "B", "v2"));
    // One that listens where it did, but is said to be somebody else's, is another one as well.
    let place = world.place("shop", "B").unwrap();
    let given = offer("r3", ["v2", "v3"]).replace("run: {path: v2}", &format!("targets: [\"{place}\"]"));
    offered(&mut world, "r3", given);
    world.until("it is told", |world| world.ended().len() == 4 && world.owed().is_empty());
    assert_eq!(world.told.last().unwrap().status, StageStatus::Error);
}

#[test]
fn it_is_stopped_once_nobody_holds_it_or_the_later_of_two_deadlines_has_passed() {
    for (drain, least_ms) in [(None, 5_000), (Some("20s"), 20_000), (Some("1s"), 5_000)] {
        let mut world = World::new();
        world.held.insert(v("v1"));
        let text = offer("r1", ["v1", "v2"]);
        let text = match drain {
            None => text,
            Some(time) => text.replace(
                "    ports: [{port: 80}]\n",
                &format!("    ports: [{{port: 80, protocol: TCP}}]\n    drain: {time}\n"),
            ),
        };
        offered(&mut world, "r1", text);
        world.until("it serves alone", |world| {
            world.place("shop", "B").is_some() && world.place("shop", "A").is_none()
        });
        let since_ms = world.now_ms;
        world.until("what it replaced is gone", |world| world.stopped.contains(&v("v1")));
        let took_ms = world.now_ms - since_ms;
        assert!((least_ms..least_ms + 2_000).contains(&took_ms), "{drain:?}: {took_ms}");
    }
}
