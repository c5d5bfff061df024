//! The runtime `oci`, with `runc` and `podman` where this machine has them.

mod podman;

use std::{
    fs,
    marker::PhantomData,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agent::runtime::{
    Order, Runtime, VersionId,
    oci::{self, Base, Program, Root, Settings},
    process::on_path,
};

use crate::{
    calls::{call, get},
    conformance::{forked, passed_over},
    functions::{self, Behaviour},
    world::{ProcessWorld, World, any_version, names},
};

mod with_runc {
    crate::conformance::conformance!(super::OciWorld<super::Runc>);
}

mod with_podman {
    crate::conformance::conformance!(super::OciWorld<super::Podman>);
}

const GRACE: Duration = Duration::from_secs(10);
/// In the environment of all that a world's versions start.
const OF_WORLD: &str = "OF_WORLD";

/// What starts containers.
trait Starts: Send + Sync + 'static {
    /// Why it can't be tried here, or what it is.
    fn find() -> Result<Program, String>;
    /// Containers that carry a mark, and what is kept of them.
    fn containers(_part: &str) -> Vec<String> {
        Vec::new()
    }
}

struct Runc;

impl Starts for Runc {
    fn find() -> Result<Program, String> {
        on_path("runc").map(Program::Runc).ok_or_else(|| "this machine has no runc".to_owned())
    }
}

struct Podman;

impl Starts for Podman {
    /// With what it starts containers by itself, or else with `runc`: not each runs under each kernel.
    fn find() -> Result<Program, String> {
        static FOUND: OnceLock<Result<Program, String>> = OnceLock::new();
        let look = || {
            let podman = on_path("podman").ok_or("this machine has no podman")?;
            let try_one = |runtime: &str| {
                let root = tempfile::tempdir().unwrap();
                make_root(root.path());
                let rootfs = format!("{}:O", root.path().display());
                let mut command = Command::new(&podman);
                command.args(["--cgroup-manager=cgroupfs", "--events-backend=none"]);
                command.args((!runtime.is_empty()).then(|| format!("--runtime={runtime}")));
                command.args([
                    "run",
                    "--rm",
                    "--network=host",
                    "--cgroups=no-conmon",
                    "--cgroup-parent=.",
                    "--ulimit=nofile=1024:1024",
                    "--ulimit=nproc=1024:1024",
                ]);
                command.args(["--volume=/usr:/usr:ro", "--rootfs", &rootfs, "/bin/true"]);
                let done = command.output().unwrap();
                let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                done.status.success().then_some(()).ok_or(said)
            };
            match (try_one(""), try_one("runc")) {
                (Ok(()), _) => Ok(Program::Podman(podman, None)),
                (Err(_), Ok(())) => Ok(Program::Podman(podman, Some("runc".to_owned()))),
                (Err(why), Err(_)) => Err(format!("podman starts nothing here: {why}")),
            }
        };
        FOUND.get_or_init(look).clone()
    }

    fn containers(part: &str) -> Vec<String> {
        let podman = on_path("podman").unwrap();
        let listed = Command::new(podman)
            .args(["ps", "--all", "--external", "--format", "{{.ID}} {{.Names}}"])
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        listed.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

/// A machine that runs containers, in whose base the programs of this one are.
struct OciWorld<S>(ProcessWorld, PhantomData<S>);

/// Makes the root of a file system in which `/usr` is mounted.
fn make_root(rootfs: &Path) {
    for folder in ["usr", "proc", "dev", "tmp", "function"] {
        fs::create_dir(rootfs.join(folder)).unwrap();
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{link}"), rootfs.join(link)).unwrap();
    }
}

impl<S: Starts> OciWorld<S> {
    fn settings(&self) -> Settings {
        let rootfs = self.0.state().parent().unwrap().join("base");
        if !rootfs.exists() {
            fs::create_dir(&rootfs).unwrap();
            make_root(&rootfs);
        }
        self.with_root(Root::Folder(rootfs))
    }

    fn with_root(&self, root: Root) -> Settings {
        let base = Base { root, binds: vec![PathBuf::from("/usr")] };
        Settings { process: self.0.settings(), program: S::find().unwrap(), base: Some(base) }
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

    /// The mark of a run.
    fn mark(&self, version: &VersionId) -> String {
        let spec = fs::read_to_string(self.0.run_folder(version).join("run.json")).unwrap();
        let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
        spec["mark"].as_str().unwrap().to_owned()
    }
}

impl<S: Starts> World for OciWorld<S> {
    const STARTS_AGAIN: bool = true;
    const SEES_PIDS: bool = false;

    fn missing() -> Option<String> {
        match S::find() {
            Err(why) => Some(why),
            Ok(_) if !rustix::process::geteuid().is_root() => {
                Some("containers need the rights of root".to_owned())
            }
            Ok(_) => None,
        }
    }

    fn new() -> Self {
        Self(ProcessWorld::new(), PhantomData)
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(oci::open(self.settings()).unwrap())
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
fn can<S: Starts>(test: &str) -> bool {
    match OciWorld::<S>::missing() {
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

async fn is_apart_and_leaves_nothing<S: Starts>(runners: &[&str], root: &str) {
    if !can::<S>("a container is apart") {
        return;
    }
    let world = OciWorld::<S>::new();
    let runtime = world.open();
    assert_eq!((runtime.name(), runtime.runners()), ("oci", runners.to_vec()));
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
            "privileges %s" % [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")][0],
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
    let mark = &world.mark(&order.version);
    assert!(!groups(mark).is_empty());
    let environ = fs::read(format!("/proc/{}/environ", running.pid.unwrap())).unwrap();
    let line = fs::read(format!("/proc/{}/cmdline", running.pid.unwrap())).unwrap();
    for shown in [environ, line] {
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(!shown.contains("LD_PRELOAD"), "what starts it has nothing of its environment: {shown}");
    }
    let said = get(&running.target, "/").await.body;
    for line in [
        "pid 1",
        "processes 1",
        root,
        "base Read-only file system",
        "own 2",
        "tmp 2",
        "mount Operation not permitted",
        "capabilities 0000000000000000",
        "privileges 1",
        "preload /nowhere.so",
    ] {
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
    runtime.stop(&order.version, GRACE).await.unwrap();
    leaves_nothing(&world, mark);
}

/// Neither control groups nor containers, layers and mounts, which lie outside of the world's folder.
fn leaves_nothing<S: Starts>(world: &OciWorld<S>, mark: &str) {
    assert_eq!(world.left_behind(), [""; 0]);
    assert_eq!(S::containers(mark), [""; 0]);
    assert!(groups(mark).is_empty(), "{:?}", groups(mark));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let state = world.0.state();
    let base = state.parent().unwrap().to_str().unwrap();
    assert!(!mounts.contains(base), "{mounts}");
}

#[tokio::test]
async fn a_container_of_runc_is_apart_from_the_machine_and_leaves_nothing_on_it() {
    is_apart_and_leaves_nothing::<Runc>(&["program"], "root bin dev function lib lib64 proc sbin tmp usr")
        .await;
}

#[tokio::test]
async fn a_container_of_podman_is_apart_from_the_machine_and_leaves_nothing_on_it() {
    let root = "root bin dev etc function lib lib64 proc run sbin sys tmp usr";
    is_apart_and_leaves_nothing::<Podman>(&["image", "program"], root).await;
}

#[tokio::test]
async fn runc_container_survives_its_shim_and_leaves_nothing_when_killed() {
    outlives_its_shim_and_is_cleared_away_with_it::<Runc>().await;
}

#[tokio::test]
async fn podman_container_survives_its_shim_and_leaves_nothing_when_killed() {
    outlives_its_shim_and_is_cleared_away_with_it::<Podman>().await;
}

async fn outlives_its_shim_and_is_cleared_away_with_it<S: Starts>() {
    if !can::<S>("a container whose shim is killed") {
        return;
    }
    let world = OciWorld::<S>::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    forked(&world, &running).await;
    let kill = |pid: u32| {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    kill(world.0.shim(&order.version));
    runtime.changed().await;
    crate::world::wait_until("another shim watches it", async || {
        (runtime.list().await.unwrap() == std::slice::from_ref(&running)).then_some(())
    })
    .await;
    assert_eq!(get(&running.target, "/").await.status, 200);

    let mark = world.mark(&order.version);
    let shim = world.0.shim(&order.version);
    kill(running.pid.unwrap());
    kill(shim);
    crate::world::wait_until("it is cleared away", async || {
        runtime.list().await.unwrap().is_empty().then_some(())
    })
    .await;
    leaves_nothing(&world, &mark);
    assert!(call(&running.target, "GET", "/", "").await.is_err());
    let again = runtime.start(&order).await.unwrap();
    assert_eq!(get(&again.target, "/").await.status, 200);
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn a_base_that_is_not_there_and_a_form_that_has_no_program_are_refused() {
    refuses_what_is_not_there::<Runc>("program in a container").await;
    refuses_what_is_not_there::<Podman>("image and program in a container").await;
}

async fn refuses_what_is_not_there<S: Starts>(forms: &str) {
    if !can::<S>("a base that is not there") {
        return;
    }
    let world = OciWorld::<S>::new();
    let settings = world.with_root(Root::Folder("/nowhere".into()));
    let text = oci::open(settings).unwrap_err().to_string();
    assert!(text.contains("/nowhere"), "{text}");
    let runtime = world.open();
    let folder = world.0.source();
    fs::write(folder.join("fn.sh"), "cat").unwrap();
    let text = runtime.start(&Order::new(any_version(), folder)).await.unwrap_err().to_string();
    assert!(text.contains(&format!("\"binary\" can't be run on this machine, but {forms}")), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);
}
