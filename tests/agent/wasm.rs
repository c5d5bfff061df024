//! The runtime `wasm`: the conformance suite, and what only it has. All but one need the feature `wasm` (`tests/wasm`).

mod bodies;
mod bounds;

use std::{fs, sync::Arc, time::Duration};

use agent::runtime::{
    Fault, Order, Phase, Running, Runtime, VersionId,
    process::ProcessRuntime,
    wasm::{self, IS_BUILT_IN, Settings, form::Bounds},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    calls::{call, get, post, raw},
    conformance::{conformance, passed_over},
    functions::Behaviour,
    world::{ProcessWorld, World, any_version, wait_until},
};

conformance! { WasmWorld:
    a_version_starts_answers_and_stops
    an_error_of_the_function_is_told_by_its_status
    start_and_stop_may_be_repeated
    a_version_keeps_the_content_that_it_was_started_with
    versions_outlive_the_agent_and_are_found_again
    an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped
    a_start_that_never_becomes_healthy_is_given_up
    a_version_that_dies_at_once_is_told_with_its_status_and_log
    a_version_that_ignores_being_asked_is_killed_after_its_grace
    a_version_that_floods_its_log_answers_and_keeps_to_its_limit
    the_end_of_what_a_version_writes_can_be_read
    first_calls_are_made_before_the_version_is_given_away
    many_versions_side_by_side_are_told_apart
    ; without
    a_version_that_crashes_is_started_again_at_its_target
        because "a call that crashes ends alone; a host that is killed is started again, in a test beside"
    a_version_that_ends_at_its_first_calls_is_told_so
        because "a call that crashes ends alone"
    a_version_that_takes_too_much_memory_is_ended_and_started_again
        because "a call that takes too much memory ends alone, in a test beside"
    a_version_that_fills_its_folder_is_ended_and_started_again
        because "a component sees no files"
    a_version_that_listens_elsewhere_is_told_so
        because "a component listens nowhere"
    what_a_version_forked_ends_with_it
        because "a component makes no processes"
    what_a_version_forked_ends_when_it_crashes
        because "a component makes no processes"
}

const GRACE: Duration = Duration::from_secs(10);
/// What behaves as functions do, as text.
const GUEST: &str = include_str!("wasm/guest.wat");
/// What never comes about, and says so soon.
const THINKS: &str = include_str!("wasm/thinks.wat");

/// What a guest does as an instance of it is made.
#[derive(Debug, Clone, Copy)]
enum Start {
    Nothing,
    Floods,
    Dies,
    Traps,
    Needs32MiB,
}

/// A machine that runs components.
struct WasmWorld {
    processes: ProcessWorld,
    bounds: Bounds,
}

impl WasmWorld {
    fn with(bounds: Bounds) -> Self {
        Self { processes: ProcessWorld::new(), bounds }
    }

    fn settings(&self) -> Settings {
        let host = vec!["wasm-host".to_owned()];
        Settings { process: self.processes.settings(), host, bounds: self.bounds.clone() }
    }

    fn guest(&self, start: Start) -> Order {
        self.component(GUEST.replace("@START@", &(start as u8).to_string()).as_bytes())
    }

    fn component(&self, bytes: &[u8]) -> Order {
        let folder = self.processes.source();
        fs::write(folder.join("fn.wasm"), bytes).unwrap();
        let mut order = Order::new(any_version(), folder);
        // What compiles components is not optimised in tests.
        order.health.give_up = Duration::from_mins(1);
        order
    }
}

impl World for WasmWorld {
    /// A function can't end its host.
    const STARTS_AGAIN: bool = false;
    const SEES_PIDS: bool = false;

    fn missing() -> Option<String> {
        (!IS_BUILT_IN).then(|| "these tests were built without the feature `wasm`".to_owned())
    }

    fn new() -> Self {
        Self::with(Bounds::default())
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(wasm::open(self.settings()).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        match behaviour {
            Behaviour::Obeys => self.guest(Start::Nothing),
            Behaviour::Floods => self.guest(Start::Floods),
            Behaviour::DiesAtOnce => self.guest(Start::Dies),
            Behaviour::NeverHealthy => self.component(THINKS.as_bytes()),
            // It gets no signals, but it may go on behind its answers.
            Behaviour::IgnoresTerm => {
                let mut order = self.guest(Start::Nothing);
                order.health.path = Some("/after".to_owned());
                order
            }
            Behaviour::ListensElsewhere => panic!("components listen nowhere"),
        }
    }

    fn left_behind(&self) -> Vec<String> {
        self.processes.left_behind()
    }

    fn log_bytes(&self, version: &VersionId) -> u64 {
        self.processes.log_bytes(version)
    }
}

/// Whether components can be tried here; says where they can't.
fn can(test: &str) -> bool {
    match WasmWorld::missing() {
        Some(why) => {
            passed_over(test, &why);
            false
        }
        None => true,
    }
}

/// A version that obeys, and its runtime.
async fn started(world: &WasmWorld) -> (Arc<dyn Runtime>, Order, Running) {
    let runtime = world.open();
    let order = world.guest(Start::Nothing);
    let running = runtime.start(&order).await.unwrap();
    (runtime, order, running)
}

async fn log_of(runtime: &Arc<dyn Runtime>, order: &Order) -> String {
    String::from_utf8(runtime.log(&order.version, 64 * 1024).await.unwrap().unwrap()).unwrap()
}

#[test]
fn without_the_feature_the_runtime_says_how_it_is_had() {
    if IS_BUILT_IN {
        return;
    }
    let world = WasmWorld::new();
    let text = wasm::open(world.settings()).unwrap_err().to_string();
    assert!(text.contains("setting `runtimes.enabled`: wasm: this program was built without"), "{text}");
    assert!(text.contains("cargo build --release --features wasm"), "{text}");
}

#[tokio::test]
async fn a_component_that_is_for_another_runtime_is_told_which() {
    let world = WasmWorld::new();
    let text =
        ProcessRuntime::open(world.processes.settings()).unwrap().start(&world.guest(Start::Nothing)).await;
    let text = text.unwrap_err().to_string();
    assert!(
        text.contains("\"wasm\" can't be run on this machine") && text.contains("enable the runtime"),
        "{text}"
    );
    if !can("a component for another runtime") {
        return;
    }
    let runtime = world.open();
    assert_eq!((runtime.name(), runtime.runners()), ("wasm", vec!["wasm"]));
    let folder = world.processes.source();
    fs::write(folder.join("fn.sh"), "cat").unwrap();
    let text = runtime.start(&Order::new(any_version(), folder)).await.unwrap_err().to_string();
    assert!(text.contains("\"binary\" can't be run on this machine, but wasm by the runtime wasm"), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_component_that_can_not_be_served_is_told_why() {
    if !can("a component that can't be served") {
        return;
    }
    let world = WasmWorld::with(Bounds {
        compute: Duration::from_millis(300),
        memory: 16 << 20,
        ..Bounds::default()
    });
    let runtime = world.open();
    let other_import = r#"(component (import "acme:shop/cart@1.0.0" (instance (export "add" (func)))))"#;
    let guest = |start| fs::read(world.guest(start).folder.join("fn.wasm")).unwrap();
    for (bytes, expected) in [
        (b"#!/bin/sh".to_vec(), "no component that can be compiled"),
        (b"\0asm\x0d\0\x01\0\xff".to_vec(), "no component that can be compiled"),
        (b"\0asm\x01\0\0\0".to_vec(), "a core module, and not a component"),
        (b"(component)".to_vec(), "exports no wasi:http/incoming-handler"),
        (other_import.into(), "acme:shop/cart"),
        (guest(Start::Traps), "no instance of fn.wasm can be made"),
        (THINKS.into(), "did not come about within 0.3 s"),
        (guest(Start::Needs32MiB), "more than the 16777216 bytes of memory"),
    ] {
        let error = runtime.start(&world.component(&bytes)).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error.fault, Fault::DiedAtOnce { .. }), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn killed_wasm_host_restarts_at_same_target_with_same_content() {
    if !can("a host that is killed") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    fs::remove_dir_all(&order.folder).unwrap();
    let pid = Pid::from_raw(running.pid.unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let again = wait_until("it is started again", async || {
        let again = runtime.list().await.unwrap().pop().unwrap();
        (again.restarts > 0 && again.phase == Phase::Runs).then_some(again)
    })
    .await;
    assert_eq!(again.target, running.target);
    assert_eq!(again.last_exit.unwrap().signal, Some(9));
    wait_until("it answers", async || call(&running.target, "GET", "/", "").await.ok()).await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_call_that_is_there_when_the_version_is_stopped_is_answered() {
    if !can("a call that is there at the stop") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    let mut slow = bodies::Slow::begin(&running.target, "/echo", 4).await;
    slow.send(b"ab").await;
    assert_eq!(slow.receive(2).await, b"ab");
    let stopping = runtime.stop(&order.version, Duration::from_mins(1));
    let finishing = async {
        wait_until("nobody new is let in", async || {
            call(&running.target, "GET", "/", "").await.is_err().then_some(())
        })
        .await;
        slow.send(b"cd").await;
        assert_eq!(slow.receive(2).await, b"cd");
        slow.end().await;
    };
    let (stopped, ()) = tokio::join!(stopping, finishing);
    stopped.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_component_sees_nothing_of_the_machine_but_what_its_order_has() {
    if !can("a component sees nothing") {
        return;
    }
    let world = WasmWorld::new();
    let runtime = world.open();
    let mut order = world.guest(Start::Nothing);
    order.environment.insert("GREETING".to_owned(), "hello".to_owned());
    order.environment.insert("LD_PRELOAD".to_owned(), "/nowhere.so".to_owned());
    let running = runtime.start(&order).await.unwrap();
    let text = "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nenv";
    let said = raw(&running.target, text).await.unwrap().body;
    let expected =
        format!("CHOIRMASTER_VERSION={}\nGREETING=hello\nLD_PRELOAD=/nowhere.so\n0", order.version);
    assert_eq!(said, expected, "names and values, and the number of arguments");
    assert_eq!(post(&running.target, "files").await.body, "0");
    let environ = fs::read(format!("/proc/{}/environ", running.pid.unwrap())).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(!environ.contains("LD_PRELOAD") && !environ.contains("GREETING"), "{environ}");
    assert_eq!(get(&running.target, "/").await.status, 200);
    runtime.stop(&order.version, GRACE).await.unwrap();
}
