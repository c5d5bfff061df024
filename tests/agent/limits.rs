//! What holds versions of the runtime `process` to their limits: control groups where this machine has them, and what is there
//! without.

use std::{fs, io::Write, path::PathBuf, time::Duration};

use agent::runtime::{
    Order, Runtime, VersionId,
    process::{
        ProcessRuntime, Settings,
        cgroup::{CgroupKind, Cgroups},
    },
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    calls::{call, get, post},
    conformance,
    functions::Behaviour,
    world::{ProcessWorld, World, wait_until},
};

const GRACE: Duration = Duration::from_secs(10);

/// A machine on which nobody makes control groups.
struct PlainWorld(ProcessWorld);

impl World for PlainWorld {
    const STARTS_AGAIN: bool = true;

    fn new() -> Self {
        Self(ProcessWorld::new())
    }

    fn open(&self) -> std::sync::Arc<dyn Runtime> {
        let settings = Settings { cgroups: Cgroups::Off, ..self.0.settings() };
        std::sync::Arc::new(ProcessRuntime::open(settings).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        self.0.order(behaviour)
    }

    fn left_behind(&self) -> Vec<String> {
        self.0.left_behind()
    }

    fn log_bytes(&self, version: &VersionId) -> u64 {
        self.0.log_bytes(version)
    }
}

#[tokio::test]
async fn without_control_groups_memory_is_limited_by_what_the_shim_looks_at() {
    conformance::a_version_that_takes_too_much_memory_is_ended_and_started_again::<PlainWorld>().await;
}

#[tokio::test]
async fn without_control_groups_what_a_version_forked_ends_with_it() {
    conformance::what_a_version_forked_ends_with_it::<PlainWorld>().await;
}

/// The folders of the control groups of a version, as its run has them written down.
pub fn groups(world: &ProcessWorld, version: &VersionId) -> Vec<PathBuf> {
    let text = fs::read(world.run_folder(version).join("run.json")).unwrap();
    let spec: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let groups = spec["groups"].as_array().cloned().unwrap_or_default();
    groups.iter().map(|group| group["folder"].as_str().unwrap().into()).collect()
}

/// The runtime, unless this machine has no control groups for it, which is said.
fn grouped(world: &ProcessWorld, test: &str) -> Option<ProcessRuntime> {
    let runtime = ProcessRuntime::open(world.settings()).unwrap();
    let kind = runtime.limited_by();
    let says = format!("{test}: this machine gives {kind}\n");
    std::io::stderr().write_all(says.as_bytes()).unwrap();
    assert_eq!(runtime.holds_cpu(), kind != CgroupKind::None);
    (kind != CgroupKind::None).then_some(runtime)
}

#[tokio::test]
async fn a_version_has_control_groups_with_its_limits_and_they_go_with_it() {
    let world = ProcessWorld::new();
    let Some(runtime) = grouped(&world, "a version has control groups") else { return };
    let mut order = world.order(Behaviour::Obeys);
    order.limits.memory = 200 * 1024 * 1024;
    order.limits.processes = 10;
    order.limits.cpu = Some(50);
    let running = runtime.start(&order).await.unwrap();
    let groups = groups(&world, &order.version);
    let forked = post(&running.target, "fork").await.body;
    for pid in [running.pid.unwrap().to_string(), forked] {
        let all = groups.iter().all(|group| {
            fs::read_to_string(group.join("cgroup.procs")).unwrap().lines().any(|line| line == pid)
        });
        assert!(all, "{pid} is in {groups:?}");
    }
    let says = |file: &str, value: &str| {
        let read = groups.iter().find_map(|group| fs::read_to_string(group.join(file)).ok());
        assert!(read.as_deref().is_none_or(|read| read.trim() == value), "{file}: {read:?}, not {value}");
        read.is_some()
    };
    let memory = (200 * 1024 * 1024).to_string();
    assert!(says("memory.max", &memory) | says("memory.limit_in_bytes", &memory));
    says("pids.max", "320");
    let _ = says("cpu.max", "50000 100000") | says("cpu.cfs_quota_us", "50000");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn what_hides_its_environment_is_ended_too_by_the_next_shim() {
    let world = ProcessWorld::new();
    let Some(runtime) = grouped(&world, "what hides its environment") else { return };
    let folder = world.source();
    fs::write(folder.join("fn.sh"), "setsid env -i sleep 600 >&- 2>&- </dev/null & echo $!").unwrap();
    let order = Order::new(crate::world::any_version(), folder);
    let running = runtime.start(&order).await.unwrap();
    let groups = groups(&world, &order.version);
    let hidden = get(&running.target, "/").await.body.trim().to_owned();
    let name = || fs::read_to_string(format!("/proc/{hidden}/comm")).unwrap_or_default();
    wait_until("it hides", async || (name().trim() == "sleep").then_some(())).await;
    kill_process(Pid::from_raw(world.shim(&order.version).cast_signed()).unwrap(), Signal::KILL).unwrap();
    runtime.changed().await;
    wait_until("another shim watches it", async || {
        (runtime.list().await.unwrap() == std::slice::from_ref(&running)).then_some(())
    })
    .await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    wait_until("the hidden one has ended", async || (name().trim() != "sleep").then_some(())).await;
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[tokio::test]
async fn a_version_that_forks_without_an_end_is_held_by_its_group_and_ended() {
    let world = ProcessWorld::new();
    let Some(runtime) = grouped(&world, "a version that forks without an end") else { return };
    let folder = world.source();
    fs::write(folder.join("fn.sh"), "bomb() { while :; do (sleep 600) & done; }; bomb").unwrap();
    let mut order = Order::new(crate::world::any_version(), folder);
    order.limits.processes = 8;
    let running = runtime.start(&order).await.unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(20), call(&running.target, "GET", "/", "")).await;
    let exit = wait_until("it is ended", async || {
        runtime.list().await.unwrap().into_iter().find_map(|running| running.last_exit)
    })
    .await;
    assert!(exit.because.as_ref().unwrap().contains("its limit is 8"), "{exit:?}");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn groups_that_were_named_and_can_not_be_used_leave_the_limits_of_resources() {
    let world = ProcessWorld::new();
    let cgroups = Cgroups::Below(world.source());
    let runtime = ProcessRuntime::open(Settings { cgroups, ..world.settings() }).unwrap();
    assert_eq!(runtime.limited_by(), CgroupKind::None);
    assert!(!runtime.holds_cpu(), "nothing holds a version to a limit of processors");
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(get(&running.target, "/").await.status, 200);
    assert!(groups(&world, &order.version).is_empty());
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn cgroup_failure_is_logged_and_version_still_runs() {
    let world = ProcessWorld::new();
    let Some(runtime) = grouped(&world, "groups that can not be made any more") else { return };
    let folder = world.source();
    fs::write(folder.join("fn.sh"), "cat").unwrap();
    let mut order = Order::new(crate::world::any_version(), folder);
    // Nothing that a kernel takes for a limit.
    order.limits.memory = u64::MAX;
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(post(&running.target, "is it").await.body, "is it");
    let log = runtime.log(&order.version, 4096).await.unwrap().unwrap();
    let log = String::from_utf8(log).unwrap();
    let made = groups(&world, &order.version).iter().all(|group| group.exists());
    assert!(made || log.contains("limits of resources hold alone"), "{log}");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}
