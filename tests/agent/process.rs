//! The runtime `process`: the conformance suite, and what only it has.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use agent::runtime::{
    Fault, Order, Phase, Running, Runtime, VersionId,
    process::{ProcessRuntime, Settings},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    calls::{call, get},
    conformance::{conformance, forked},
    functions::Behaviour,
    world::{ProcessWorld, World, any_version, wait_until},
};

conformance!(ProcessWorld);

const GRACE: Duration = Duration::from_secs(10);
/// How often a version is started and stopped by the test that looks for what is left behind.
const STARTS: &str = "CHOIRMASTER_TEST_STARTS";

/// A function of the form `binary`.
fn binary(world: &ProcessWorld, script: &str) -> Order {
    let folder = world.source();
    fs::write(folder.join("fn.sh"), script).unwrap();
    Order::new(any_version(), folder)
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Files, sockets and pipes that this process has open, and the memory that is its own, in bytes.
fn held() -> (usize, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    (fs::read_dir("/proc/self/fd").unwrap().count(), kib * 1024)
}

/// What this process may have more of after thousands of starts than after some. Other tests run beside this one.
const MORE_FILES: usize = 200;
const MORE_MEMORY: u64 = 64 * 1024 * 1024;

#[tokio::test]
async fn nothing_is_left_behind_by_many_starts_and_stops() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let mut binary = binary(&world, "cat");
    let folder = world.source();
    fs::write(folder.join("index.js"), "module.exports = (req, res) => res.send(req.body);\n").unwrap();
    let mut nodejs = Order::new(any_version(), folder);
    nodejs.health.give_up = Duration::from_mins(1);
    // Of twenty, one is of node.
    let starts: u32 = std::env::var(STARTS).map_or(50, |starts| starts.parse().unwrap());
    let mut before = held();
    for number in 0..starts {
        if number == starts / 10 {
            before = held();
        }
        for order in [Some(&mut binary), (number % 20 == 0).then_some(&mut nodejs)].into_iter().flatten() {
            order.version = any_version();
            let running = runtime.start(order).await.unwrap();
            let groups = crate::limits::groups(&world, &order.version);
            assert_eq!(call(&running.target, "POST", "/", "round").await.unwrap().body, "round");
            runtime.stop(&order.version, GRACE).await.unwrap();
            assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
        }
        if number % 100 == 0 {
            assert_eq!(world.left_behind(), [""; 0]);
        }
    }
    assert_eq!(world.left_behind(), [""; 0]);
    let after = held();
    println!("part 1: {starts} starts and stops; files and memory: {before:?}, then {after:?}");
    assert!(after.0 <= before.0 + MORE_FILES, "files and sockets: {before:?}, then {after:?}");
    assert!(after.1 <= before.1 + MORE_MEMORY, "memory: {before:?}, then {after:?}");
}

/// Whoever began to take it away may do so still, without being waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_given_up_at_any_moment_can_be_stopped_at_once() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..400 {
        let (runtime, order) = (Arc::clone(&runtime), world.order(Behaviour::DiesAtOnce));
        if all.len() == 8 {
            all.join_next().await.unwrap().unwrap();
        }
        all.spawn(async move {
            let (starter, version) = (Arc::clone(&runtime), order.version.clone());
            let starting = tokio::spawn(async move { starter.start(&order).await.map(drop) });
            tokio::time::sleep(Duration::from_micros(500) * number).await;
            starting.abort();
            let _ = starting.await;
            runtime.stop(&version, GRACE).await.unwrap_or_else(|error| panic!("{number}: {error}"));
        });
    }
    all.join_all().await;
    assert_eq!(world.left_behind(), [""; 0]);
}

/// Kills the shim of a version and waits until that has ended.
async fn kill_shim(world: &ProcessWorld, version: &VersionId) {
    signal(world.shim(version), Signal::KILL);
    let spec = fs::File::open(world.run_folder(version).join("run.json")).unwrap();
    wait_until("it has no shim", async || spec.try_lock().is_ok().then(|| spec.unlock().unwrap())).await;
}

async fn serves(running: &Running) {
    assert_eq!(get(&running.target, "/").await.status, 200);
}

#[tokio::test]
async fn a_version_outlives_its_shims_and_is_watched_by_the_next() {
    let world = ProcessWorld::new();
    let mut runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    forked(&world, &running).await;
    for agent_is_away in [false, true] {
        kill_shim(&world, &order.version).await;
        runtime.changed().await;
        serves(&running).await;
        call(&running.target, "POST", "/", "say nobody reads").await.unwrap();
        if agent_is_away {
            drop(runtime);
            serves(&running).await;
            runtime = world.open();
        }
        assert_eq!(runtime.list().await.unwrap(), std::slice::from_ref(&running));
    }
    wait_until("what it wrote meanwhile is in its log", async || {
        let log = runtime.log(&order.version, 4096).await.unwrap().unwrap();
        (String::from_utf8(log).unwrap().matches("nobody reads").count() == 2).then_some(())
    })
    .await;

    // It is started again as any other, with all that a shim does for it.
    let _ = call(&running.target, "POST", "/", "die").await;
    let again = wait_until("it is started again", async || {
        let one = runtime.list().await.unwrap().pop()?;
        (one.pid.is_some() && one.pid != running.pid).then_some(one)
    })
    .await;
    assert_eq!((again.restarts, again.last_exit.is_some()), (1, true));
    wait_until("it answers", async || call(&running.target, "GET", "/", "").await.ok()).await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn what_a_version_forked_ends_with_it_however_many_shims_it_had() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    forked(&world, &running).await;
    kill_shim(&world, &order.version).await;
    assert_eq!(runtime.list().await.unwrap(), std::slice::from_ref(&running));
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_version_that_is_killed_with_its_shim_leaves_nothing_and_is_started_again() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    forked(&world, &running).await;
    signal(world.shim(&order.version), Signal::STOP);
    signal(running.pid.unwrap(), Signal::KILL);
    kill_shim(&world, &order.version).await;
    runtime.changed().await;
    wait_until("it isn't listed", async || runtime.list().await.unwrap().is_empty().then_some(())).await;
    assert_eq!(world.left_behind(), [""; 0]);

    serves(&runtime.start(&order).await.unwrap()).await;
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_version_that_was_to_end_when_its_shim_was_killed_is_ended() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::IgnoresTerm);
    runtime.start(&order).await.unwrap();
    let (stopper, version) = (Arc::clone(&runtime), order.version.clone());
    let stopping = tokio::spawn(async move { stopper.stop(&version, Duration::from_hours(1)).await });
    let started = world.run_folder(&order.version).join("started.json");
    wait_until("it is asked to end", async || (!started.exists()).then_some(())).await;
    signal(world.shim(&order.version), Signal::KILL);
    stopping.await.unwrap().unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
    assert_eq!(runtime.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_version_whose_shim_does_not_answer_is_listed_and_can_be_stopped() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    let shim = world.shim(&order.version);
    signal(shim, Signal::STOP);
    let listed = runtime.list().await.unwrap();
    assert_eq!((listed[0].phase, &listed[0].target), (Phase::Silent, &running.target));
    assert_eq!(get(&running.target, "/").await.status, 200, "calls are not the shim's");
    runtime.stop(&order.version, Duration::ZERO).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_shim_that_is_asked_by_the_machine_to_end_ends_its_function() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    runtime.start(&order).await.unwrap();
    signal(world.shim(&order.version), Signal::TERM);
    wait_until("it is gone", async || runtime.list().await.unwrap().is_empty().then_some(())).await;
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn two_agents_can_not_have_the_same_folder() {
    let world = ProcessWorld::new();
    let _runtime = world.open();
    let error = ProcessRuntime::open(world.settings()).unwrap_err();
    assert!(matches!(error.fault, Fault::Taken(_)), "{error}");
}

#[tokio::test]
async fn a_folder_whose_path_is_too_long_for_sockets_is_refused() {
    let world = ProcessWorld::new();
    let folder = world.state().join("x".repeat(100));
    let error = ProcessRuntime::open(Settings { folder, ..world.settings() }).unwrap_err();
    assert!(error.to_string().contains("choose a shorter one"), "{error}");
}

#[tokio::test]
async fn a_port_at_which_somebody_else_answers_is_not_taken_for_the_versions() {
    let world = ProcessWorld::new();
    let foreign = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = foreign.local_addr().unwrap().port();
    // Free while it is chosen, and somebody else's when the function would listen.
    drop(foreign);
    let runtime = ProcessRuntime::open(Settings { ports: (port, port), ..world.settings() }).unwrap();
    let folder = world.source();
    fs::write(folder.join("run"), "#!/bin/sh\nsleep 600\n").unwrap();
    let mut order = Order::new(any_version(), folder);
    order.health.give_up = Duration::from_secs(2);
    let take = async {
        let run = world.run_folder(&order.version).join("run.json");
        wait_until("the port is chosen", async || run.exists().then_some(())).await;
        tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap()
    };
    let (started, _foreign) = tokio::join!(runtime.start(&order), take);
    let text = started.unwrap_err().to_string();
    assert!(text.contains(&format!("it doesn't listen on $PORT, which is {port}")), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);

    let text = runtime.start(&order).await.unwrap_err().to_string();
    assert!(text.contains(&format!("none of the ports {port} to {port} is free")), "{text}");
}

#[tokio::test]
async fn nobody_else_can_read_what_runs_or_ask_its_shim() {
    fn check(path: &Path) {
        let about = path.symlink_metadata().unwrap();
        assert_eq!(about.permissions().mode() & 0o077, 0, "{}", path.display());
        if about.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                check(&entry.unwrap().path());
            }
        }
    }
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    runtime.start(&order).await.unwrap();
    check(&world.state().join("runs"));
    let socket = world.run_folder(&order.version).join("shim.sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_function_has_the_environment_it_is_given_and_nothing_of_the_agents() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let mut order = binary(&world, "env");
    order.environment.insert("GREETING".to_owned(), "good day".to_owned());
    order.environment.insert("CHOIRMASTER_RUN".to_owned(), "forged".to_owned());
    let running = runtime.start(&order).await.unwrap();
    let said = get(&running.target, "/below?a=b").await.body;
    for line in ["GREETING=good day", "REQUEST_METHOD=GET", "PATH_INFO=/below", "QUERY_STRING=a=b"] {
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
    assert!(said.lines().any(|one| one == format!("CHOIRMASTER_VERSION={}", order.version)), "{said}");
    // Cargo sets it for tests.
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !said.contains("CARGO_MANIFEST_DIR"),
        "{said}"
    );
    assert!(!said.contains("forged"), "{said}");
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_no_function_is_refused_with_what_to_do() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let empty = world.source();
    let both = world.source();
    fs::write(both.join("fn.py"), "").unwrap();
    fs::write(both.join("fn.sh"), "").unwrap();
    let outside = world.source();
    fs::write(outside.join("fn.sh"), "cat").unwrap();
    std::os::unix::fs::symlink("../../..", outside.join("link")).unwrap();
    let large = world.source();
    fs::write(large.join("fn.sh"), vec![b'#'; 100_000]).unwrap();

    let order = |folder: &Path| Order::new(any_version(), folder.to_owned());
    let mut unknown = order(&both);
    unknown.runner = Some("cobol".to_owned());
    let mut tight = order(&large);
    tight.limits.room = 50_000;
    for (order, says) in [
        (order(&empty), "holds none of index.js"),
        (order(&both), "can be run as binary and as python"),
        (order(&outside), "link, which is neither file, folder nor a link within it"),
        (unknown, "\"cobol\" can't be run on this machine, but binary,"),
        (tight, "its limit is 50000: raise `room`"),
        (order(Path::new("/nowhere/at/all")), "holds none of"),
    ] {
        let text = runtime.start(&order).await.unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn of_two_versions_with_the_same_first_digits_the_second_is_refused() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let mut order = binary(&world, "cat");
    runtime.start(&order).await.unwrap();
    let first = order.version.clone();
    order.version = format!("{}{}", &first.as_str()[..16], "0".repeat(48)).parse().unwrap();
    let error = runtime.start(&order).await.unwrap_err();
    assert!(matches!(&error.fault, Fault::Same(other) if *other == first), "{error}");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(runtime.list().await.unwrap().len(), 1, "the other one runs on");
    runtime.stop(&first, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_was_never_finished_is_taken_away() {
    let world = ProcessWorld::new();
    let runs = world.state().join("runs");
    for name in [".new-0123456789abcdef", "0123456789abcdef"] {
        fs::create_dir_all(runs.join(name).join("content")).unwrap();
    }
    assert_eq!(world.open().list().await.unwrap(), []);
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_folder_that_a_function_closed_is_taken_away() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let order = binary(&world, "mkdir -p deep/er && touch deep/er/file && chmod 0500 deep/er deep");
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(get(&running.target, "/").await.status, 200);
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[test]
fn a_version_is_named_by_a_digest() {
    for good in ["0123456789abcdef", &"f".repeat(64)] {
        assert_eq!(good.parse::<VersionId>().unwrap().as_str(), good);
    }
    for bad in ["", "0123456789abcde", &"f".repeat(65), "0123456789ABCDEF", "../../../../../etc"] {
        assert!(bad.parse::<VersionId>().is_err(), "{bad}");
        assert!(serde_json::from_value::<VersionId>(serde_json::json!(bad)).is_err(), "{bad}");
    }
}
