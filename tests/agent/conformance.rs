//! What each runtime has to do, whatever it runs versions on. `conformance!` makes the tests of one.

use std::{sync::Arc, time::Duration};

use agent::runtime::{Fault, Phase, Running, Runtime, RuntimeError, VersionId, WarmUp};

use crate::{
    calls::{call, get, post},
    functions::Behaviour,
    world::{World, wait_until},
};

/// What a version that obeys needs at most.
const GRACE: Duration = Duration::from_secs(10);
const MIB: u64 = 1024 * 1024;

async fn one(runtime: &Arc<dyn Runtime>, version: &VersionId) -> Option<Running> {
    runtime.list().await.unwrap().into_iter().find(|running| running.version == *version)
}

/// Waits until a version was started again, and gives what it is then.
async fn restarted(runtime: &Arc<dyn Runtime>, version: &VersionId) -> Running {
    wait_until("it is started again", async || {
        let running = one(runtime, version).await.unwrap();
        (running.restarts > 0 && running.phase == Phase::Runs).then_some(running)
    })
    .await
}

/// Whether anything answers where a version was. Who stands before it answers 404.
async fn is_served(running: &Running) -> bool {
    call(&running.target, "GET", "/", "").await.is_ok_and(|answered| answered.status != 404)
}

fn fault(error: RuntimeError) -> (Fault, String) {
    let text = error.to_string();
    (error.fault, text)
}

pub async fn a_version_starts_answers_and_stops<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    assert_eq!((running.phase, running.restarts), (Phase::Runs, 0));
    assert_eq!(get(&running.target, "/").await.body, "Hello, world!");
    assert_eq!(post(&running.target, "Ada").await.body, "Hello, Ada!");
    assert_eq!(runtime.list().await.unwrap(), [running]);
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), []);
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn an_error_of_the_function_is_told_by_its_status<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    let failed = post(&running.target, "fail").await;
    assert_eq!((failed.status, failed.body.trim()), (500, "as it was asked to"));
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn start_and_stop_may_be_repeated<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    runtime.stop(&order.version, GRACE).await.unwrap();
    let first = runtime.start(&order).await.unwrap();
    let (second, third) = tokio::join!(runtime.start(&order), runtime.start(&order));
    assert_eq!((second.unwrap(), third.unwrap()), (first.clone(), first));
    runtime.stop(&order.version, GRACE).await.unwrap();
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_keeps_the_content_that_it_was_started_with<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    std::fs::remove_dir_all(&order.folder).unwrap();
    assert_eq!(get(&running.target, "/").await.status, 200);
    if W::STARTS_AGAIN {
        let _ = call(&running.target, "POST", "/", "die").await;
        restarted(&runtime, &order.version).await;
        wait_until("it answers", async || call(&running.target, "GET", "/", "").await.ok()).await;
    }
    runtime.stop(&order.version, GRACE).await.unwrap();
}

pub async fn versions_outlive_the_agent_and_are_found_again<W: World>() {
    let world = W::new();
    let (one, other) = (world.order(Behaviour::Obeys), world.order(Behaviour::Obeys));
    let runtime = world.open();
    let mut before = vec![runtime.start(&one).await.unwrap(), runtime.start(&other).await.unwrap()];
    before.sort_by(|a, b| a.version.cmp(&b.version));
    drop(runtime);
    for running in &before {
        assert_eq!(get(&running.target, "/").await.status, 200);
    }
    let runtime = world.open();
    assert_eq!(runtime.list().await.unwrap(), before);
    assert_eq!(
        runtime.start(&one).await.unwrap().pid,
        before.iter().find(|r| r.version == one.version).unwrap().pid
    );
    runtime.stop(&one.version, GRACE).await.unwrap();
    runtime.stop(&other.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped<W: World>() {
    let world = W::new();
    let order = world.order(Behaviour::NeverHealthy);
    let runtime = world.open();
    let given_up = tokio::time::timeout(Duration::from_millis(300), runtime.start(&order)).await;
    assert!(given_up.is_err(), "it never becomes healthy");
    drop(runtime);
    let runtime = world.open();
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_crashes_is_started_again_at_its_target<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let before = runtime.start(&order).await.unwrap();
    let _ = call(&before.target, "POST", "/", "die").await;
    let after = restarted(&runtime, &order.version).await;
    assert_eq!(after.last_exit.unwrap().code, Some(3));
    assert_eq!(after.target, before.target);
    let again = wait_until("it answers", async || call(&before.target, "POST", "/", "pid").await.ok()).await;
    if W::SEES_PIDS {
        assert_eq!(again.body.parse().ok(), one(&runtime, &order.version).await.unwrap().pid);
    }
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_takes_too_much_memory_is_ended_and_started_again<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.limits.memory = 100 * MIB;
    let running = runtime.start(&order).await.unwrap();
    wait_until("it passes its limit", async || {
        let _ = call(&running.target, "POST", "/", "grow").await;
        let exit = one(&runtime, &order.version).await.unwrap().last_exit?;
        exit.because.unwrap_or_default().contains("memory").then_some(())
    })
    .await;
    restarted(&runtime, &order.version).await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_fills_its_folder_is_ended_and_started_again<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.limits.room = 8 * MIB;
    let running = runtime.start(&order).await.unwrap();
    let _ = call(&running.target, "POST", "/", "fill").await;
    let exit = restarted(&runtime, &order.version).await.last_exit.unwrap();
    assert!(exit.because.as_ref().unwrap().contains("folder"), "{exit:?}");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

/// How a start is given up of a version that says or does this before, and never becomes healthy. Where it had no time for that, as on a
/// machine with other work, it is given more.
async fn given_up<W: World>(behaviour: Behaviour, said: &str) -> String {
    let (world, mut after) = (W::new(), Duration::from_secs(1));
    let runtime = world.open();
    loop {
        let mut order = world.order(behaviour);
        order.health.give_up = after;
        let (fault, text) = fault(runtime.start(&order).await.unwrap_err());
        assert!(matches!(fault, Fault::NeverHealthy { .. }), "{fault:?}");
        assert!(text.contains(&format!("not healthy within {} s", after.as_secs())), "{text}");
        assert!(text.contains(&order.version.as_str()[..16]), "{text}");
        assert_eq!(world.left_behind(), [""; 0]);
        after *= 4;
        if text.contains(said) || after > Duration::from_mins(2) {
            return text;
        }
    }
}

pub async fn a_start_that_never_becomes_healthy_is_given_up<W: World>() {
    let text = given_up::<W>(Behaviour::NeverHealthy, "thinking").await;
    assert!(text.contains("thinking"), "{text}");
}

pub async fn a_version_that_dies_at_once_is_told_with_its_status_and_log<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::DiesAtOnce);
    let (fault, text) = fault(runtime.start(&order).await.unwrap_err());
    assert!(matches!(fault, Fault::DiedAtOnce { .. }), "{fault:?}");
    assert!(text.contains("exit status 3") && text.contains("no such setting"), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_listens_elsewhere_is_told_so<W: World>() {
    let text = given_up::<W>(Behaviour::ListensElsewhere, "it listens on ").await;
    assert!(text.contains("it listens on ") && text.contains("not on $PORT"), "{text}");
}

pub async fn a_version_that_ignores_being_asked_is_killed_after_its_grace<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::IgnoresTerm);
    let running = runtime.start(&order).await.unwrap();
    let grace = Duration::from_millis(500);
    let begun = tokio::time::Instant::now();
    runtime.stop(&order.version, grace).await.unwrap();
    assert!(begun.elapsed() >= grace, "it has its grace");
    assert!(!is_served(&running).await);
    assert_eq!(world.left_behind(), [""; 0]);
}

/// The process that a version was asked to leave behind. Who starts a program goes on a moment before its environment can be read,
/// by which it is found.
pub async fn forked<W: World>(world: &W, running: &Running) -> String {
    let pid = post(&running.target, "fork").await.body;
    assert!(pid.parse::<u32>().is_ok(), "it forked: {pid}");
    wait_until("what it forked is there", async || world.is_there(&pid).then_some(())).await;
    pid
}

pub async fn what_a_version_forked_ends_with_it<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    forked(&world, &running).await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn what_a_version_forked_ends_when_it_crashes<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    let forked = forked(&world, &running).await;
    let _ = call(&running.target, "POST", "/", "die").await;
    restarted(&runtime, &order.version).await;
    assert!(!world.is_there(&forked), "it is gone");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_floods_its_log_answers_and_keeps_to_its_limit<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Floods);
    order.limits.log = MIB;
    let running = runtime.start(&order).await.unwrap();
    wait_until("the log is full", async || (world.log_bytes(&order.version) > MIB / 2).then_some(())).await;
    for _ in 0..50 {
        assert_eq!(get(&running.target, "/").await.body, "Hello!");
        assert!(world.log_bytes(&order.version) <= MIB);
    }
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn the_end_of_what_a_version_writes_can_be_read<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    for word in ["say one", "say two", "say three"] {
        post(&running.target, word).await;
    }
    let log = async |at_most| runtime.log(&order.version, at_most).await.unwrap();
    wait_until("it was written", async || {
        let log = String::from_utf8(log(4096).await?).unwrap();
        (log.contains("one\n") && log.contains("three\n")).then_some(())
    })
    .await;
    let end = String::from_utf8(log(6).await.unwrap()).unwrap();
    assert!(end.len() <= 6 && end.contains("ee\n"), "{end:?}");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(log(4096).await, None, "a version that isn't there has none");
}

pub async fn first_calls_are_made_before_the_version_is_given_away<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.health.path = Some("/health".to_owned());
    order.warm_up =
        Some(WarmUp { calls: 3, method: "POST".to_owned(), body: "fail".to_owned(), ..WarmUp::default() });
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(running.restarts, 0, "calls that fail are no reason not to run it");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn a_version_that_ends_at_its_first_calls_is_told_so<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.warm_up =
        Some(WarmUp { calls: 3, method: "POST".to_owned(), body: "die".to_owned(), ..WarmUp::default() });
    let (fault, text) = fault(runtime.start(&order).await.unwrap_err());
    assert!(matches!(fault, Fault::DiedAtOnce { .. }), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);
}

pub async fn many_versions_side_by_side_are_told_apart<W: World>() {
    let world = W::new();
    let runtime = world.open();
    let orders: Vec<_> = (0..5).map(|_| world.order(Behaviour::Obeys)).collect();
    let mut pids = Vec::new();
    for order in &orders {
        let running = runtime.start(order).await.unwrap();
        let said = post(&running.target, "pid").await.body;
        if W::SEES_PIDS {
            assert!(running.pid.is_none_or(|pid| said == pid.to_string()), "{said}, not {:?}", running.pid);
            pids.push(said);
        } else {
            pids.push(running.pid.unwrap().to_string());
        }
    }
    pids.sort();
    pids.dedup();
    assert_eq!((pids.len(), runtime.list().await.unwrap().len()), (5, 5));
    for order in &orders {
        runtime.stop(&order.version, GRACE).await.unwrap();
    }
    assert_eq!(world.left_behind(), [""; 0]);
}

/// The tests of a runtime: of the whole suite, or of these cases of it and why the others say nothing about it.
macro_rules! conformance {
    ($world:ty: $($name:ident)* ; without $($missing:ident because $why:literal)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                use $crate::world::World;
                if let Some(why) = <$world>::missing() {
                    return $crate::conformance::passed_over(stringify!($name), &why);
                }
                $crate::conformance::$name::<$world>().await;
            }
        )*
        $(
            #[test]
            #[ignore = $why]
            fn $missing() {
                $crate::conformance::passed_over(stringify!($missing), $why);
            }
        )*
        #[test]
        fn each_case_of_the_suite_is_tried_or_named() {
            let mut named = vec![$(stringify!($name),)* $(stringify!($missing),)*];
            named.sort_unstable();
            let mut all = $crate::conformance::CASES.to_vec();
            all.sort_unstable();
            assert_eq!(named, all);
        }
    };
    ($world:ty) => {
        $crate::conformance::conformance! { $world:
            a_version_starts_answers_and_stops
            an_error_of_the_function_is_told_by_its_status
            start_and_stop_may_be_repeated
            a_version_keeps_the_content_that_it_was_started_with
            versions_outlive_the_agent_and_are_found_again
            an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped
            a_version_that_crashes_is_started_again_at_its_target
            a_version_that_takes_too_much_memory_is_ended_and_started_again
            a_version_that_fills_its_folder_is_ended_and_started_again
            a_start_that_never_becomes_healthy_is_given_up
            a_version_that_dies_at_once_is_told_with_its_status_and_log
            a_version_that_listens_elsewhere_is_told_so
            a_version_that_ignores_being_asked_is_killed_after_its_grace
            what_a_version_forked_ends_with_it
            what_a_version_forked_ends_when_it_crashes
            a_version_that_floods_its_log_answers_and_keeps_to_its_limit
            the_end_of_what_a_version_writes_can_be_read
            first_calls_are_made_before_the_version_is_given_away
            a_version_that_ends_at_its_first_calls_is_told_so
            many_versions_side_by_side_are_told_apart
            ; without
        }
    };
}
pub(crate) use conformance;

/// Says, past what is kept of tests that pass, that a case was not tried.
pub fn passed_over(case: &str, why: &str) {
    use std::io::Write;
    let line = format!("{case} is passed over: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// All there are.
pub const CASES: [&str; 20] = [
    "a_version_starts_answers_and_stops",
    "an_error_of_the_function_is_told_by_its_status",
    "start_and_stop_may_be_repeated",
    "a_version_keeps_the_content_that_it_was_started_with",
    "versions_outlive_the_agent_and_are_found_again",
    "an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped",
    "a_version_that_crashes_is_started_again_at_its_target",
    "a_version_that_takes_too_much_memory_is_ended_and_started_again",
    "a_version_that_fills_its_folder_is_ended_and_started_again",
    "a_start_that_never_becomes_healthy_is_given_up",
    "a_version_that_dies_at_once_is_told_with_its_status_and_log",
    "a_version_that_listens_elsewhere_is_told_so",
    "a_version_that_ignores_being_asked_is_killed_after_its_grace",
    "what_a_version_forked_ends_with_it",
    "what_a_version_forked_ends_when_it_crashes",
    "a_version_that_floods_its_log_answers_and_keeps_to_its_limit",
    "the_end_of_what_a_version_writes_can_be_read",
    "first_calls_are_made_before_the_version_is_given_away",
    "a_version_that_ends_at_its_first_calls_is_told_so",
    "many_versions_side_by_side_are_told_apart",
];
