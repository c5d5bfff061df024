//! Other shares for a stage that goes on.

use std::collections::BTreeSet;

use model::StageStatus;
use protocol::FollowUp;

use super::{services::offer, world::World};

/// Two stages of a service that wait for the manager's signal, as all of a release that is led in place do: a tenth of the calls, then half.
fn text() -> String {
    offer("r1", 80, ["A", "B"]).replace("    type: Traffic\n", "    type: WaitForSignal\n")
}

fn tried(text: String, share: u16) -> World {
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), text));
    world.until("it is tried", |world| world.core.is_in_force() && !world.tables.is_empty());
    assert_eq!(world.share("shop"), share);
    world
}

fn chosen(world: &mut World, stage: &str, share: u16) {
    world.chosen.insert(stage.to_owned(), share);
}

/// The buckets of the new variation in the table in force.
fn buckets(world: &World) -> BTreeSet<u16> {
    let service = &world.table.as_ref().expect("a table").services[0];
    let runs = service.runs.iter().flatten().filter(|(.., of)| *of == 1);
    runs.flat_map(|(from, to, _)| *from..*to).collect()
}

/// What the new variation had in all tables that were ever in force.
fn ever(world: &World) -> BTreeSet<u16> {
    let runs = |table: &proxy::form::TableForm| {
        let runs = table.services[0].runs.clone().unwrap_or_default();
        runs.iter().filter(|(.., of)| *of == 1).map(|(from, to, _)| to - from).sum::<u16>()
    };
    world.tables.iter().map(runs).collect()
}

fn begun(world: &World) -> u32 {
    world.core.state().work.as_ref().map_or(0, |work| work.begun)
}

#[test]
fn a_stage_takes_other_shares_in_place_and_nobody_moves_whom_they_dont_move() {
    let mut world = tried(text(), 1_000);
    let split = world.table.as_ref().unwrap().services[0].split.clone();
    for share in [3_000, 2_000, 10_000, 500, 501] {
        let before = buckets(&world);
        chosen(&mut world, "little", share);
        world.until("they are in force", |world| world.share("shop") == share);
        let after = buckets(&world);
        let moved = before.symmetric_difference(&after).count();
        assert_eq!(moved, before.len().abs_diff(usize::from(share)), "{share}");
        // Said twice it is no news.
        let tables = world.tables.len();
        world.steps(40);
        assert_eq!((world.tables.len(), world.ended().len(), begun(&world)), (tables, 0, 1));
    }
    assert!(world.tables.iter().all(|table| table.services[0].split == split), "it is one stage");
    world.signal(None);
    world.until("the next stage", |world| world.share("shop") == 5_000);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0], ("little".to_owned(), StageStatus::Completed, "half".to_owned()));
}

#[test]
fn what_was_told_is_known_after_a_kill_at_any_step_without_the_manager_too() {
    for steps in 0..30 {
        let mut world = tried(text(), 1_000);
        chosen(&mut world, "little", 3_000);
        world.steps(steps);
        world.kill();
        world.until("they are in force", |world| world.share("shop") == 3_000);
        world.steps(40);
        assert_eq!((world.share("shop"), ever(&world)), (3_000, BTreeSet::from([1_000, 3_000])), "{steps}");
    }
    // Told, and not in force yet.
    let mut world = tried(text(), 1_000);
    chosen(&mut world, "little", 3_000);
    world.proxy_away = true;
    world.until("it is told", |world| !world.core.state().work.as_ref().unwrap().shares.is_empty());
    assert_eq!(world.share("shop"), 1_000);
    world.kill();
    (world.manager_away, world.proxy_away) = (true, false);
    world.until("they are in force", |world| world.share("shop") == 3_000);
}

#[test]
fn shares_of_a_stage_to_come_are_those_with_which_it_begins() {
    for is_killed in [false, true] {
        let mut world = tried(text(), 1_000);
        chosen(&mut world, "half", 7_000);
        world.until("it is told", |world| !world.core.state().work.as_ref().unwrap().shares.is_empty());
        if is_killed {
            world.kill();
        }
        world.signal(None);
        world.until("the next stage", |world| world.share("shop") == 7_000);
        assert_eq!(ever(&world), BTreeSet::from([1_000, 7_000]));
    }
}

#[test]
fn the_end_of_a_stage_that_comes_with_other_shares_ends_it() {
    for (then, share) in [(None, 5_000), (Some(FollowUp::Rollback), 0)] {
        let mut world = tried(text(), 1_000);
        world.until("it waits", |world| {
            world.told.iter().any(|told| told.status == StageStatus::SuccessWaiting)
        });
        chosen(&mut world, "little", 3_000);
        world.signal(then);
        world.until("what follows is in force", |world| world.share("shop") == share);
        assert!(!ever(&world).contains(&3_000), "nobody needs them any more");
    }
}

/// Judged by nothing, as a canary that lasts until somebody says otherwise.
#[test]
fn a_stage_without_a_share_gets_one_and_is_judged_by_the_calls_that_it_has_then() {
    let text = text()
        .replace("{A: 90, B: 10}", "{A: 100, B: 0}")
        .replace("[{name: errorRate, threshold: \"<=0.05\"}]", "[]")
        .replace("{name: minCalls, threshold: \"10\"}", "{name: minCalls, threshold: \"0\"}");
    let mut world = tried(text, 0);
    world.steps(40);
    for share in [2_000, 0, 2_500] {
        chosen(&mut world, "little", share);
        world.until("they are in force", |world| world.share("shop") == share);
        world.steps(20);
    }
    world.signal(None);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0], ("little".to_owned(), StageStatus::Completed, "half".to_owned()));
}

#[test]
fn a_stage_that_has_failed_and_keeps_its_shares_keeps_them_whatever_is_chosen() {
    let mut world = tried(text() + "from_above: {keeps_failed: true}\n", 1_000);
    world.errors.insert("B", 80);
    world.until("it has failed", |world| world.core.state().kept().is_some());
    chosen(&mut world, "little", 3_000);
    world.steps(200);
    assert_eq!((world.share("shop"), world.ended()), (1_000, Vec::new()));
    world.kill();
    world.steps(100);
    assert_eq!(world.share("shop"), 1_000);
}

#[test]
fn who_has_lost_all_goes_on_by_the_text_that_it_fetches_then() {
    let mut world = tried(text(), 1_000);
    chosen(&mut world, "little", 3_000);
    world.until("they are in force", |world| world.share("shop") == 3_000);
    world.forget_everything();
    // What the manager hands out has what was chosen.
    world.offers[0].1 = text().replace("{A: 90, B: 10}", "{A: 70, B: 30}");
    world.until("it is in hand again", |world| begun(world) == 1 && world.core.is_in_force());
    world.steps(40);
    assert_eq!((world.share("shop"), ever(&world)), (3_000, BTreeSet::from([1_000, 3_000])));
}

#[test]
fn shares_that_the_proxy_goes_on_refusing_are_taken_back_with_the_reason() {
    let mut world = tried(text(), 1_000);
    world.steps(5);
    world.refused_share = Some(3_000);
    chosen(&mut world, "little", 3_000);
    world.until("it is told", |world| !world.ended().is_empty());
    let told = world.told.last().unwrap();
    assert_eq!((told.status, &*told.next), (StageStatus::Failure, "rollback"));
    assert!(told.summary.why.as_ref().unwrap().text.contains("refuses its shares"), "{told:?}");
    assert_eq!(world.share("shop"), 0);
}
