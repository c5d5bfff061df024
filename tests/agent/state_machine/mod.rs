//! The agent's state machine, in a world that does what it is asked at once.

mod chosen_shares;
mod failed_stage;
mod obstacles;
mod services;
mod started;
mod together;
mod world;

use agent::state_machine::{Act, Errand, Event, Listed};
use model::StageStatus;
use protocol::{FollowUp, StageSummary};

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
    // The base version never served alone once the new one had a share, and is there when that gets all.
    let shares: Vec<_> = world.tables.iter().map(|table| table.services[0].shares.clone().unwrap()).collect();
    assert_eq!(shares, [vec![9_000, 1_000], vec![5_000, 5_000], vec![0, 10_000], vec![10_000]]);
    assert!(world.running.contains_key(&version("hello", "base")), "the base version is kept for a while");
    world.until("the base version is ended", |world| world.running.len() == 1);
    assert!(world.core.state().work.is_none());
    assert!(world.failed.is_empty(), "nothing failed: {:?}", world.failed);
}

#[test]
fn calls_that_all_went_to_the_base_version_end_no_stage() {
    let mut world = with_offer();
    // A tenth of nine calls a step is none.
    world.calls = 9;
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.steps(200);
    assert!(world.told.is_empty(), "nobody has tested the new version: {:?}", world.told);
    world.calls = 100;
    world.until("it had a call", |world| !world.told.is_empty());
    assert_eq!(world.told[0].status, StageStatus::SuccessWaiting);
    assert!(last_summary(&world).f2_calls > Some(0));
}

/// A release whose last stage has ended well, and whose new version answers no more.
fn died_before_it_takes_over() -> World {
    let mut world = with_offer();
    world.signal(None);
    world.until("it gets all calls", |world| world.share("hello") == 10_000);
    world.broken.insert(version("hello", "new"));
    world.steps(100);
    assert_eq!(world.stable("hello"), Some(version("hello", "base")), "it answers what the new one fails");
    assert!(world.is_named(&version("hello", "base")));
    assert_eq!(world.ended().len(), 1, "that it was rolled out is said when it was");
    world
}

#[test]
fn a_version_that_died_before_it_takes_over_serves_alone_once_it_answers() {
    for is_killed in [false, true] {
        let mut world = died_before_it_takes_over();
        if is_killed {
            world.kill();
            world.steps(20);
            assert_eq!(world.stable("hello"), Some(version("hello", "base")));
        }
        world.broken.clear();
        world.until("it is rolled out", |world| world.ended().len() == 2);
        assert_eq!(world.stable("hello"), Some(version("hello", "new")));
        assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Completed, "rollout".to_owned()));
        assert_eq!(world.share("hello"), 0);
    }
}

#[test]
fn a_version_that_never_answers_when_it_is_to_take_over_is_taken_back() {
    let mut world = died_before_it_takes_over();
    world.until("it is told", |world| world.ended().len() == 2);
    assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Failure, "rollback".to_owned()));
    assert_eq!(world.stable("hello"), Some(version("hello", "base")));
    assert_eq!(world.share("hello"), 0);
    let why = last_summary(&world).why.unwrap();
    assert_eq!(why.cause, "no_answer");
    assert!(why.text.contains("answered no more"));
    assert_eq!(world.core.stops().unstarted, 1);
}

#[test]
fn version_taking_over_can_be_rolled_back_by_operator() {
    let mut world = died_before_it_takes_over();
    let undone = world.undo(Some("hello")).unwrap();
    assert_eq!(undone[0].name, "hello");
    assert_eq!(world.core.state().functions["hello"].stable, version("hello", "base"));
    world.until("it is told", |world| world.ended().len() == 2);
    assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Failure, "rollback".to_owned()));
    assert_eq!(world.share("hello"), 0);
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
fn a_stage_that_fails_at_its_end_says_which_condition_broke() {
    let mut world = with_offer();
    // One of ten: too few calls to prove anything before the stage ends.
    world.calls = 100;
    world.errors.insert("new", 10);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended(), [("canary".to_owned(), StageStatus::Failure, "rollback".to_owned())]);
    let why = last_summary(&world).why.unwrap();
    assert_eq!(why.cause, "limit");
    let [begins, allows] = ["errorRate 10 % (", " calls), allowed <=5 %; base version 0 % (0 of "];
    assert!(why.text.starts_with(begins) && why.text.contains(allows), "{}", why.text);
    assert_eq!(world.core.stops().judged, 0, "it ended in time");
}

#[test]
fn a_breach_while_the_manager_is_away_is_taken_back_and_told_later() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.manager_away = true;
    world.errors.insert("new", 100);
    world.until("it has no share", |world| world.share("hello") == 0);
    assert_eq!(world.core.stops().judged, 1);
    world.until("it is owed", |world| !world.owed().is_empty());
    world.kill();
    world.steps(100);
    assert!(world.told.is_empty() && world.owed().len() == 1, "it is kept until it was answered");
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
fn a_clock_of_the_wall_that_jumps_changes_nothing_of_a_release() {
    for errors in [0, 100] {
        let walk = |jumps: &[i64]| {
            let mut world = with_offer();
            world.errors.insert("new", errors);
            world.clock_jumps = jumps.to_vec();
            let mut heard = 0;
            for _ in 0..2_000 {
                world.step();
                let told = world.told.len();
                if told > heard && world.told[told - 1].status == StageStatus::SuccessWaiting {
                    world.signal(None);
                }
                heard = told;
            }
            (world.told, world.tables, world.stopped)
        };
        let (told, tables, stopped) = walk(&[]);
        assert!(!told.is_empty() && tables.len() > 1 && stopped.len() == 1);
        // An hour back, a day on, before 1970, and as far as it goes.
        let jumps = [0, -3_600_000, 86_400_000, -1_800_000_000_000, i64::MAX, i64::MIN];
        assert_eq!(walk(&jumps), (told, tables, stopped), "{errors} errors");
    }
}

#[test]
fn what_the_manager_takes_back_goes_back_at_once() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.signal(Some(FollowUp::Rollback));
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
    assert_eq!(why.cause, "unstarted", "the manager has nothing to take back here");
    world.until("nothing is left", |world| world.running.is_empty());
    world.until("why is kept", |world| !world.failed.is_empty());
    let [(failed, by)] = &world.failed[..] else { panic!("{:?}", world.failed) };
    assert_eq!((failed, &*by.stage), (&version("hello", "new"), "canary"));
    assert!(by.why.contains("died at once"), "{}", by.why);
}

#[test]
fn what_a_failed_version_wrote_is_kept_at_its_end_although_the_agent_was_killed_before() {
    let mut world = with_offer();
    world.errors.insert("new", 100);
    world.until("it has no share any more", |world| world.core.stops().judged == 1);
    world.step();
    world.kill();
    world.until("the new version is ended", |world| !world.stopped.is_empty());
    let [(failed, by)] = &world.failed[..] else { panic!("{:?}", world.failed) };
    assert_eq!(failed, &version("hello", "new"));
    assert_eq!((&*by.offer, &*by.stage, &*by.name), ("r1", "canary", "new"));
    assert!(by.why.starts_with("errorRate <=0.05 is broken: "), "{}", by.why);
    assert!(world.core.state().failed.is_empty());
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
    world.until("the canary waits for its signal", |world| !world.told.is_empty());
    world.manager_away = true;
    let undone = world.undo(None).unwrap();
    assert_eq!(undone[0].name, "hello");
    assert_eq!(world.core.state().functions["hello"].stable, version("hello", "base"));
    world.until("it has no share", |world| world.share("hello") == 0);
    world.manager_away = false;
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Failure);
    let why = last_summary(&world).why.unwrap().text;
    assert_eq!(why, "taken back by an operator of the agent: it looks odd");
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
    world.until("the manager is told", |world| world.ended().len() == 3);
    let told = world.told.last().unwrap();
    assert_eq!((&*told.stage, told.status), ("half", StageStatus::Failure));
    let why = told.summary.why.as_ref().unwrap();
    assert_eq!(
        (&*why.cause, &*why.text),
        ("operator", "taken back by an operator of the agent: it looks odd")
    );
    assert!(world.undo(Some("hello")).is_err(), "there is nothing to go back to any more");
    assert!(world.undo(Some("other")).is_err());
}

/// What was told of what an operator wants, after all that was told before.
fn told_of_operator(world: &World, before: usize) -> Vec<(String, String, StageStatus)> {
    let told = world.told.iter().filter(|told| told.status != StageStatus::SuccessWaiting).skip(before);
    let told = told.inspect(|told| assert_eq!(told.summary.why.as_ref().unwrap().cause, "operator"));
    told.map(|told| (told.offer.clone(), told.stage.clone(), told.status)).collect()
}

#[test]
fn operator_added_then_rolled_back_version_is_reported_correctly() {
    for (is_well, left, status) in
        [(true, "new", StageStatus::Completed), (false, "base", StageStatus::Failure)]
    {
        let mut world = with_offer();
        world.signal((!is_well).then_some(FollowUp::Rollback));
        let before = if is_well { 2 } else { 1 };
        world.until("the release is over", |world| {
            world.ended().len() == before && world.core.state().work.is_none()
        });
        assert_eq!(world.stable("hello"), Some(version("hello", left)));
        for times in 0..2 {
            world.add("hello", "mine", "nodejs");
            world.until("it serves", |world| world.stable("hello") == Some(version("hello", "mine")));
            world.until("it is told", |world| world.ended().len() == before + 2 * times + 1);
            world.kill();
            world.until("it runs again", |world| world.core.in_force().is_some());
            world.undo(Some("hello")).unwrap();
            world.until("it is told", |world| world.ended().len() == before + 2 * times + 2);
            assert_eq!(world.stable("hello"), Some(version("hello", left)));
        }
        let told = |status| ("r1".to_owned(), "half".to_owned(), status);
        let (other, again) = (told(StageStatus::Error), told(status));
        assert_eq!(told_of_operator(&world, before), [other.clone(), again.clone(), other, again]);
        world.add("hello", left, "nodejs");
        world.steps(100);
        assert_eq!(world.ended().len(), before + 4, "it serves already");
    }
}

#[test]
fn what_is_added_after_the_release_was_taken_back_is_told_by_that_release() {
    let mut world = with_offer();
    world.signal(None);
    world.until("it is rolled out", |world| world.ended().len() == 2);
    world.undo(Some("hello")).unwrap();
    world.add("hello", "mine", "nodejs");
    world.until("both are told", |world| world.ended().len() == 4);
    world.remove("hello");
    world.until("that it serves no more is told", |world| world.ended().len() == 5);
    let told = |status| ("r1".to_owned(), "half".to_owned(), status);
    let (taken_back, other) = (told(StageStatus::Failure), told(StageStatus::Error));
    assert_eq!(told_of_operator(&world, 2), [taken_back, other.clone(), other]);
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
    world.signal(Some(FollowUp::Rollback));
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
fn version_named_by_restored_earlier_table_is_drained_again() {
    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    let (new, earlier) = (version("hello", "new"), world.table.clone());
    world.held.insert(new.clone());
    world.signal(Some(FollowUp::Rollback));
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
fn version_wanted_again_while_stopping_is_restarted_once_gone() {
    let mut world = with_offer();
    let new = version("hello", "new");
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.signal(Some(FollowUp::Rollback));
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

/// The manager takes an offer for fetched whose answer somebody between has replaced, and doesn't offer it again: one refusal left an
/// undo undone for good.
#[test]
fn who_was_started_again_says_that_the_manager_is_reached_before_there_is_news() {
    let mut world = World::new();
    world.until("the manager is reached", |world| world.core.link().reached);
    let errand = world.core.errand(&Act::Poll);
    assert!(matches!(errand, Errand::None), "further calls wait for news: {errand:?}");
    assert!(world.core.acts(world.now()).contains(&Act::Poll), "without a pause");

    let mut world = with_offer();
    world.until("the canary is tried", |world| world.share("hello") == 1_000);
    world.kill();
    world.until("the manager is reached", |world| world.core.link().reached);
    assert_eq!(world.told, [], "in a stage as well");
}

#[test]
fn what_changed_is_looked_at_at_once_and_again_if_that_was_being_done() {
    let mut world = World::new();
    world.add("hello", "base", "nodejs");
    let is_looked_at = |act: &Act| matches!(act, Act::List | Act::Look(_));
    let looks = |world: &World| -> Vec<Act> {
        world.core.acts(world.now()).into_iter().filter(is_looked_at).collect()
    };
    world.until("nothing is to be looked at", |world| world.core.is_in_force() && looks(world).is_empty());
    let now = world.now();
    world.core.list_now(now);
    world.core.look_now(now);
    let first = looks(&world);
    assert_eq!(first.len(), 2, "{first:?}");
    world.core.list_now(now);
    world.core.look_now(now);
    let second = looks(&world);
    assert!(second.contains(&Act::List) && second[1] != first[1], "{first:?}, then {second:?}");
    let listed = Event::Listed(Ok(Listed::default()));
    world.core.handle(listed.clone(), now);
    assert!(looks(&world).contains(&Act::List), "what was under way may have been before the change");
    world.core.handle(listed, now);
    assert!(!looks(&world).contains(&Act::List));
}

#[test]
fn an_offer_that_was_refused_is_asked_for_again_and_given_up_in_the_end() {
    for (refused, is_had) in [(1, true), (5, true), (6, false)] {
        let mut world = with_offer();
        world.refused_fetches = refused;
        world.until("it is had or given up", |world| {
            let is_had = world.core.state().work.as_ref().is_some_and(|work| work.plan().is_some());
            is_had || world.log.iter().any(|said| said.contains("nothing is done about r1"))
        });
        assert_eq!(world.core.state().work.is_some(), is_had, "{refused} times: {:#?}", world.log);
        assert_eq!(world.refused_fetches, 0);
    }
}

/// Once an agent that was started while one of its runtimes was away started nothing at all.
#[test]
fn what_a_runtime_serves_that_is_away_goes_on_and_others_are_led() {
    let mut world = with_offer();
    world.add("greet", "one", "python");
    let greets = version("greet", "one");
    world.until("greet is served", |world| world.is_named(&greets));
    world.kill();
    world.python_is_away = true;
    world.signal(None);
    world.until("hello is rolled out", |world| world.ended().len() == 2);
    assert_eq!(world.stable("hello"), Some(version("hello", "new")));
    let without = world.tables.iter().filter(|table| table.services.iter().all(|one| one.name != "greet"));
    assert_eq!(without.count(), 0, "greet is in every table");
    let says = |world: &World, what: &str| world.log.iter().filter(|line| line.contains(what)).count();
    world.steps(500);
    assert_eq!(says(&world, "the runtime elsewhere can't be reached"), 1, "{:#?}", world.log);
    assert!(world.stopped.iter().all(|version| *version != greets));

    // It comes back, and what it ran is gone: that is started again.
    world.running.remove(&greets);
    world.python_is_away = false;
    world.until("greet runs again", |world| world.running.contains_key(&greets));
    assert_eq!(says(&world, "the runtime elsewhere is reached"), 1);
}

/// A state that an earlier program wrote doesn't say where versions run.
#[test]
fn what_serves_at_an_unknown_place_is_not_taken_out_of_the_table() {
    let mut world = World::new();
    world.add("greet", "one", "python");
    world.add("hello", "one", "nodejs");
    let greets = version("greet", "one");
    world.until("both are served", |world| {
        world.table.as_ref().is_some_and(|table| table.services.len() == 2)
    });
    world.forget_places();
    world.python_is_away = true;
    world.steps(500);
    assert!(world.is_named(&greets), "{:?}", world.table);
    world.python_is_away = false;
    world.until("it is known where", |world| world.core.target(&greets).is_some());
    assert!(world.is_named(&greets));
}

#[test]
fn a_version_whose_runtime_is_away_is_not_started_and_others_are() {
    let mut world = World::new();
    world.python_is_away = true;
    world.add("greet", "one", "python");
    world.add("hello", "one", "nodejs");
    world.until("hello is served", |world| world.is_named(&version("hello", "one")));
    assert!(world.core.why_not_added(&version("greet", "one")).is_some());
}
