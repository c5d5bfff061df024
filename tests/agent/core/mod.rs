//! The agent's mind, in a world that does what it is asked at once.

mod world;

use choirmaster_agent::core::Act;
use model::StageStatus;
use wire::{StageSummary, Then};

use self::world::{World, settings, version};

/// Two stages and a roll-out.
const OFFER: &str = "id: r1\nname: r1\ntype: patch\nfunctions:\n  - name: hello\n    base_version:\n      path: base\n      env: nodejs\n    new_version:\n      path: new\n      env: nodejs\nstages:\n  - name: canary\n    type: WaitForSignal\n    func_name: hello\n    variants:\n      - name: base_version\n        trafficPercentage: 90\n      - name: new_version\n        trafficPercentage: 10\n    metrics_conditions:\n      - name: errorRate\n        threshold: \"<=0.05\"\n    end_conditions:\n      - name: minDuration\n        threshold: 1s\n      - name: minCalls\n        threshold: \"10\"\n    end_action:\n      onSuccess: half\n      onFailure: rollback\n  - name: half\n    type: WaitForSignal\n    func_name: hello\n    variants:\n      - name: base_version\n        trafficPercentage: 50\n      - name: new_version\n        trafficPercentage: 50\n    metrics_conditions:\n      - name: errorRate\n        threshold: \"<=0.05\"\n    end_conditions:\n      - name: minDuration\n        threshold: 1s\n      - name: minCalls\n        threshold: \"10\"\n    end_action:\n      onSuccess: rollout\n      onFailure: rollback\n";

fn with_offer() -> World {
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), OFFER.to_owned()));
    world
}

fn last_summary(world: &World) -> StageSummary {
    world.told.last().unwrap().summary.clone()
}

#[test]
fn a_good_release_is_walked_through_in_place() {
    let mut world = with_offer();
    world.until("the canary waits for its signal", |world| !world.told.is_empty());
    assert_eq!(world.told[0].status, StageStatus::SuccessWaiting);
    assert_eq!(world.share("hello"), 1_000);
    world.signal(None);
    world.until("it is rolled out", |world| world.ended().len() == 2);
    let said = [("canary", StageStatus::Completed, "half"), ("half", StageStatus::Completed, "rollout")];
    let said = said.map(|(stage, status, next)| (stage.to_owned(), status, next.to_owned()));
    assert_eq!(world.ended(), said);
    assert_eq!(world.stable("hello"), Some(version("hello", "new")));
    // The base version never served alone once the new one had a share.
    let shares: Vec<_> = world.tables.iter().map(|table| table.services[0].shares.clone().unwrap()).collect();
    assert_eq!(shares, [vec![9_000, 1_000], vec![5_000, 5_000], vec![10_000]]);
    assert!(world.running.contains_key(&version("hello", "base")), "the base version is kept for a while");
    world.until("the base version is ended", |world| world.running.len() == 1);
    assert!(world.core.state().work.is_none());
}

#[test]
fn a_breach_takes_the_share_away_and_is_reported() {
    let mut world = with_offer();
    world.errors.insert("new", 100);
    world.until("it is taken back", |world| !world.ended().is_empty());
    assert_eq!(world.ended(), [("canary".to_owned(), StageStatus::Failure, "rollback".to_owned())]);
    assert_eq!(world.share("hello"), 0);
    assert_eq!(world.stable("hello"), Some(version("hello", "base")));
    let summary = last_summary(&world);
    assert_eq!(summary.f2_calls, summary.f2_errors);
    assert!(summary.why.is_some(), "a person is told why");
    assert_eq!(world.core.stops().judged, 1);
    world.until("the new version is ended", |world| world.running.len() == 1);
}

#[test]
fn a_breach_while_the_manager_is_away_is_taken_back_and_told_later() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.manager_away = true;
    world.errors.insert("new", 100);
    world.until("it has no share", |world| world.share("hello") == 0);
    world.until("it is owed", |world| !world.owed().is_empty());
    world.kill();
    world.steps(100);
    assert!(world.told.is_empty());
    world.manager_away = false;
    world.until("it is told", |world| !world.told.is_empty());
    assert_eq!(world.ended(), [("canary".to_owned(), StageStatus::Failure, "rollback".to_owned())]);
    assert_eq!(
        world.told.len(),
        1,
        "it is told once, and that it had waited for a signal is not told any more"
    );
}

#[test]
fn what_the_manager_takes_back_goes_back_at_once() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.signal(Some(Then::Rollback));
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].2, "rollback");
    assert_eq!(world.share("hello"), 0);
}

#[test]
fn an_agent_that_is_killed_at_any_step_ends_where_one_that_lives_does() {
    let steps = {
        let mut world = with_offer();
        world.signal(None);
        world.until("it is rolled out", |world| world.ended().len() == 2);
        world.tables.len() * 60
    };
    for at in 0..steps {
        let mut world = with_offer();
        world.signal(None);
        world.steps(at);
        world.kill();
        world.until("it is rolled out", |world| {
            world.core.state().work.is_none() && !world.ended().is_empty() && world.owed().is_empty()
        });
        assert_eq!(world.stable("hello"), Some(version("hello", "new")), "killed at step {at}");
        assert_eq!(world.ended().len(), 2, "killed at step {at}: {:?}", world.ended());
    }
}

#[test]
fn a_version_that_cant_be_started_ends_the_offer_with_an_error() {
    let mut world = with_offer();
    world.broken.insert(version("hello", "new"));
    world.until("it is told", |world| !world.told.is_empty());
    assert_eq!(world.told[0].status, StageStatus::Error);
    let why = world.told[0].summary.why.as_ref().unwrap();
    assert!(
        why.text.contains("died at once: line 1 line 2"),
        "it is in one line, or the manager refuses it: {why:?}"
    );
    world.until("nothing is left", |world| world.running.is_empty());
}

/// Once it was only let go, and the operator saw nothing but the stage's deadline.
#[test]
fn functions_that_cant_be_had_end_the_offer_with_an_error_on_its_first_stage() {
    let mut world = with_offer();
    world.archive_is_broken = true;
    world.until("it is told", |world| !world.told.is_empty());
    let told = &world.told[0];
    assert_eq!((&*told.stage, told.status, &*told.next), ("canary", StageStatus::Error, ""));
    let why = told.summary.why.as_ref().unwrap();
    assert_eq!(why.text, "its functions can't be had: the archive can't be read");
    assert!(world.core.state().work.is_none() && world.running.is_empty());
    assert_eq!(world.told.len(), 1, "once: {:?}", world.told);
}

#[test]
fn an_operator_takes_a_release_back_while_the_manager_is_away() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.manager_away = true;
    let undone = world.undo(None).unwrap();
    assert_eq!(undone[0].to, version("hello", "base"));
    world.until("it has no share", |world| world.share("hello") == 0);
    world.manager_away = false;
    world.until("it is told", |world| !world.told.is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Failure);
}

#[test]
fn an_operator_goes_back_to_the_version_before_the_roll_out() {
    let mut world = with_offer();
    world.signal(None);
    world.until("it is rolled out", |world| world.ended().len() == 2);
    world.undo(Some("hello")).unwrap();
    world.step();
    assert_eq!(world.stable("hello"), Some(version("hello", "base")));
    world.until("the new version is ended", |world| world.running.len() == 1);
    assert!(world.undo(Some("hello")).is_err(), "there is nothing to go back to any more");
    assert!(world.undo(Some("other")).is_err());
}

#[test]
fn a_table_that_somebody_else_put_in_force_is_replaced() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    let table = world.table.as_mut().unwrap();
    table.generation += 7;
    table.services.clear();
    world.until("it is tried again", |world| world.share("hello") == 1_000);
}

#[test]
fn an_agent_without_memory_leaves_a_table_alone_until_it_serves_something() {
    let mut world = with_offer();
    world.signal(None);
    world.until("it is rolled out", |world| world.ended().len() == 2);
    world.forget_everything();
    let before = world.table.clone();
    world.steps(400);
    assert_eq!(world.table, before);
}

/// The proxy said yes, and for up to two seconds that was taken for proof: stages were reported as ended by a table that wasn't in force.
#[test]
fn a_table_that_the_proxy_took_and_did_not_put_in_force_counts_for_nothing() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.signal(None);
    world.proxy_says_yes_alone = true;
    for _ in 0..400 {
        world.step();
        assert!(!world.core.is_in_force() || world.share("hello") == 1_000);
        assert!(world.ended().is_empty(), "{:?}", world.ended());
        assert!(world.stopped.is_empty(), "{:?}", world.stopped);
    }
    let warned = world.log.iter().filter(|said| said.contains("the proxy took table")).count();
    assert!((1..12).contains(&warned), "pauses grow between tries: {warned}");
    world.proxy_says_yes_alone = false;
    world.until("it is rolled out", |world| world.ended().len() == 2);
    assert_eq!(world.share("hello"), 0);
}

/// The deadline for the last calls counted from the decision: who couldn't reach the proxy until it had passed gave them no time.
#[test]
fn last_calls_have_their_time_from_when_the_table_without_their_version_is_in_force() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    let new = version("hello", "new");
    world.held.insert(new.clone());
    world.signal(Some(Then::Rollback));
    world.proxy_away = true;
    world.steps(200);
    assert_eq!(world.share("hello"), 1_000, "the proxy was not reached, and serves on");
    world.proxy_away = false;
    world.until("the new version has no share", |world| !world.is_named(&new));
    let since = world.now_ms;
    world.until("the new version is ended", |world| world.stopped.contains(&new));
    let drained_for = world.now_ms - since;
    assert!(drained_for >= settings().drain_ms, "{drained_for} ms");
}

/// A proxy that came back with an earlier table may have given calls to a version that was drained before.
#[test]
fn who_is_named_by_an_earlier_table_again_is_drained_anew() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    let (new, earlier) = (version("hello", "new"), world.table.clone());
    world.held.insert(new.clone());
    world.signal(Some(Then::Rollback));
    world.until("the new version has no share", |world| !world.is_named(&new));
    world.steps(45);
    world.table = earlier;
    world.until("it has no share once more", |world| !world.is_named(&new));
    let since = world.now_ms;
    world.until("the new version is ended", |world| world.stopped.contains(&new));
    let drained_for = world.now_ms - since;
    assert!(drained_for >= settings().drain_ms, "{drained_for} ms");
}

/// Once it counted as running until the stop was answered, so that it got a share and was gone a moment later.
#[test]
fn a_version_that_is_wanted_again_while_it_is_stopped_is_started_once_it_is_gone() {
    let mut world = with_offer();
    let new = version("hello", "new");
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.signal(Some(Then::Rollback));
    world.stops_take_long = true;
    world.until("the new version is being stopped", |world| world.stops_begun.contains(&new));
    world.until("it is told", |world| world.core.state().work.is_none() && world.owed().is_empty());
    let tables = world.tables.len();
    // The same once more, under another name.
    world.end = None;
    world.offers.push(("r2".to_owned(), OFFER.replace("id: r1", "id: r2")));
    world.until("it is prepared", |world| {
        world.core.state().work.as_ref().is_some_and(|w| w.plan().is_some())
    });
    for _ in 0..200 {
        world.step();
        assert_eq!(world.tables.len(), tables, "it has a share while it is being stopped");
        assert_eq!(world.started.iter().filter(|started| **started == new).count(), 1);
    }
    world.stops_take_long = false;
    world.until("the canary is tried once more", |world| world.share("hello") == 1_000);
    assert_eq!(world.stopped, std::slice::from_ref(&new));
    assert_eq!(world.started.iter().filter(|started| **started == new).count(), 2);
    assert!(world.running.contains_key(&new));
}

/// After one question that the proxy didn't answer nothing was counted for two seconds, and so no breach was seen.
#[test]
fn who_misses_one_answer_of_the_proxy_asks_again_soon() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.until("a look is not due for long", |world| {
        !world.core.acts(world.now()).iter().any(|act| matches!(act, Act::Look(_)))
    });
    world.proxy_away = true;
    world.until("it is missed", |world| !world.core.is_in_force());
    world.proxy_away = false;
    world.steps(8);
    assert!(world.core.is_in_force());
}
