//! The runtime `oci`, with `runc` where this machine has it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use choirmaster_agent::runtime::{
    Order, Runtime, VersionId,
    oci::{Base, OciRuntime, Settings},
};

use crate::{
    calls::{call, get, post},
    conformance::{conformance, passed_over},
    functions::{self, Behaviour},
    world::{ProcessWorld, World, any_version, names},
};

conformance!(OciWorld);

const GRACE: Duration = Duration::from_secs(10);
/// In the environment of all that a world's versions start.
const OF_WORLD: &str = "OF_WORLD";

/// A machine that runs containers, in whose base the programs of this one are.
struct OciWorld(ProcessWorld);

impl OciWorld {
    fn settings(&self) -> Option<Settings> {
        let rootfs = self.0.state().parent().unwrap().join("base");
        if !rootfs.exists() {
            fs::create_dir(&rootfs).unwrap();
            for folder in ["usr", "proc", "dev", "tmp", "function"] {
                fs::create_dir(rootfs.join(folder)).unwrap();
            }
            for link in ["bin", "lib", "lib64", "sbin"] {
                symlink(format!("usr/{link}"), rootfs.join(link)).unwrap();
            }
        }
        Settings::find(self.0.settings(), Base { rootfs, binds: vec![PathBuf::from("/usr")] })
    }

    fn program(&self, script: &str) -> Order {
        let folder = self.0.source();
        fs::write(folder.join("run"), script).unwrap();
        self.of_world(Order::new(any_version(), folder))
    }

    fn of_world(&self, mut order: Order) -> Order {
        order.environment.insert(OF_WORLD.to_owned(), self.0.state().display().to_string());
        order.runner = Some("program".to_owned());
        order
    }
}

impl World for OciWorld {
    const STARTS_AGAIN: bool = true;
    const SEES_PIDS: bool = false;

    fn missing() -> Option<String> {
        let world = Self::new();
        match world.settings() {
            None => Some("this machine has no runc".to_owned()),
            Some(_) if !rustix::process::geteuid().is_root() => {
                Some("containers need the rights of root".to_owned())
            }
            Some(_) => None,
        }
    }

    fn new() -> Self {
        Self(ProcessWorld::new())
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(OciRuntime::open(self.settings().unwrap()).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        let folder = self.0.source();
        functions::write_program(behaviour, &folder);
        self.of_world(Order::new(any_version(), folder))
    }

    fn left_behind(&self) -> Vec<String> {
        self.0.left_behind()
    }

    fn is_there(&self, pid: &str) -> bool {
        // Its number in the container is the last of those that it has.
        let is_it = |left: &String| {
            let status = fs::read_to_string(format!("/proc/{left}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            line.and_then(|line| line.split_whitespace().last()) == Some(pid)
        };
        self.left_behind()
            .iter()
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
            .any(|left| is_it(&left))
    }

    fn log_bytes(&self, version: &VersionId) -> u64 {
        self.0.log_bytes(version)
    }
}

/// Whether containers can be tried here; says where they can't.
fn can(test: &str) -> bool {
    match OciWorld::missing() {
        Some(why) => {
            passed_over(test, &why);
            false
        }
        None => true,
    }
}

/// Folders of control groups that have this in their name.
fn groups(part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = open.pop() {
        for name in names(&folder) {
            let path = folder.join(&name);
            if name.contains(part) {
                found.push(path);
            } else if depth < 4 && path.is_dir() && !path.is_symlink() {
                open.push((path, depth + 1));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_container_is_apart_from_the_machine_and_leaves_nothing_on_it() {
    if !can("a container is apart") {
        return;
    }
    let world = OciWorld::new();
    let runtime = world.open();
    assert_eq!((runtime.name(), runtime.runners()), ("oci", vec!["program"]));
    let mut order = world.program(
        r#"#!/usr/bin/env python3
import http.server, os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

def tries(does):
    try:
        return str(does())
    except OSError as error:
        return error.strerror

class Call(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = [
            "pid %d" % os.getpid(),
            "processes %d" % len([name for name in os.listdir("/proc") if name.isdigit()]),
            "root %s" % " ".join(sorted(os.listdir("/"))),
            "base %s" % tries(lambda: open("/usr/mine", "w")),
            "own %s" % tries(lambda: open("/function/mine", "w").write("is")),
            "tmp %s" % tries(lambda: open("/tmp/mine", "w").write("is")),
            "mount %s" % tries(lambda: os.chroot("/tmp")),
            "capabilities %s" % [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")][0],
            "preload %s" % os.environ.get("LD_PRELOAD"),
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write("\n".join(said).encode())

http.server.HTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Call).serve_forever()
"#,
    );
    order.environment.insert("LD_PRELOAD".to_owned(), "/nowhere.so".to_owned());
    let running = runtime.start(&order).await.unwrap();
    let spec = fs::read_to_string(world.0.run_folder(&order.version).join("run.json")).unwrap();
    let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
    let mark = spec["mark"].as_str().unwrap();
    assert!(!groups(mark).is_empty());
    let environ = fs::read(format!("/proc/{}/environ", running.pid.unwrap())).unwrap();
    assert!(
        !String::from_utf8_lossy(&environ).contains("LD_PRELOAD"),
        "what starts it has nothing of its environment"
    );
    let said = get(&running.target, "/").await.body;
    for line in [
        "pid 1",
        "processes 1",
        "root bin dev function lib lib64 proc sbin tmp usr",
        "base Read-only file system",
        "own 2",
        "tmp 2",
        "mount Operation not permitted",
        "capabilities 0000000000000000",
        "preload /nowhere.so",
    ] {
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
    assert!(groups(mark).is_empty(), "{:?}", groups(mark));
}

#[tokio::test]
async fn a_container_that_was_killed_with_its_shim_is_cleared_away() {
    if !can("a container that was killed with its shim") {
        return;
    }
    let world = OciWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    let forked = post(&running.target, "fork").await.body;
    assert!(world.is_there(&forked));
    let stat = fs::read_to_string(format!("/proc/{}/stat", running.pid.unwrap())).unwrap();
    let shim: i32 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    crate::world::wait_until("it is cleared away", async || {
        runtime.list().await.unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(world.left_behind(), [""; 0]);
    assert!(call(&running.target, "GET", "/", "").await.is_err());
    let again = runtime.start(&order).await.unwrap();
    assert_eq!(get(&again.target, "/").await.status, 200);
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_base_that_is_not_there_and_a_form_that_has_no_program_are_refused() {
    if !can("a base that is not there") {
        return;
    }
    let world = OciWorld::new();
    let settings = world.settings().unwrap();
    let base = Base { rootfs: Path::new("/nowhere").to_owned(), binds: Vec::new() };
    let text = OciRuntime::open(Settings { base, ..settings }).unwrap_err().to_string();
    assert!(text.contains("/nowhere"), "{text}");
    let runtime = world.open();
    let folder = world.0.source();
    fs::write(folder.join("fn.sh"), "cat").unwrap();
    let text = runtime.start(&Order::new(any_version(), folder)).await.unwrap_err().to_string();
    assert!(text.contains("\"binary\" can't be run on this machine, but program in a container"), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);
}
