//! What only `podman` has: images, and helpers that may be killed.

use std::{fs, path::Path, process::Command};

use agent::runtime::{Fault, Order, Runtime, oci};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    Behaviour, GRACE, OF_WORLD, OciWorld, Podman, Root, Settings, World, any_version, can, leaves_nothing,
    make_root, on_path,
};
use crate::{
    calls::{call, get},
    conformance::{forked, passed_over},
    world::wait_until,
};

/// An image of this test's own, which goes with it.
struct Image {
    name: String,
    id: String,
}

impl Image {
    /// Of a root in which `/usr` is mounted, and of what is added to it.
    fn import(changes: &[&str], add: impl FnOnce(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        make_root(root.path());
        add(root.path());
        let name = format!("localhost/choirmaster-test:{:016x}", fastrand::u64(..));
        let tar = tempfile::NamedTempFile::new().unwrap();
        let packed =
            Command::new("tar").arg("-cf").arg(tar.path()).arg("-C").arg(root.path()).arg(".").status();
        assert!(packed.unwrap().success());
        let mut import = Command::new(on_path("podman").unwrap());
        import.args(["--events-backend=none", "import", "--quiet"]);
        import.args(changes.iter().map(|change| format!("--change={change}"))).arg(tar.path()).arg(&name);
        let done = import.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = String::from_utf8(done.stdout).unwrap();
        Self { name, id: said.trim().to_owned() }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new(on_path("podman").unwrap()).args(["rmi", "--force", &self.id]).output();
    }
}

const SAYS: &str = r#"#!/usr/bin/env python3
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

class Call(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            open("/mine", "w")
            base = "writable"
        except OSError as error:
            base = error.strerror
        open("/tmp/mine", "w").write("is")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("%s, %s, %s, %d" % (os.environ.get("OF_IMAGE"), base, sys.argv[1:], os.getuid())).encode())

http.server.HTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Call).serve_forever()
"#;

const PERL: &str = "/usr/bin/perl";

/// A server that needs no module of its language.
const SERVES: &str = r#"
$SIG{TERM} = sub { exit 0 };
$SIG{PIPE} = "IGNORE";
open(my $status, "<", "/proc/self/status");
my ($capabilities) = map { /^CapEff:\s*(\w+)/ } <$status>;
open(my $mine, ">", "/server/mine");
my $base = "$!";
open(my $own, ">", "/tmp/mine") or die "no /tmp: $!";
my @host = split(/\./, $ENV{HOST});
my $listener;
socket($listener, 2, 1, 0) && bind($listener, pack("S n C4 x8", 2, $ENV{PORT}, @host)) && listen($listener, 10) or die "no port: $!";
while (my $from = accept(my $call, $listener)) {
    my $head = "";
    while ($head !~ /\r\n\r\n/ && sysread($call, $head, 4096, length $head)) {}
    my $body = join(", ", $ENV{OF_IMAGE}, @ARGV, $>, $base, $ENV{LD_PRELOAD} // "", $capabilities);
    syswrite($call, "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body");
    close($call);
}
"#;

/// Puts a program of this machine into a root, with the libraries that it is linked to.
fn add_program(program: &str, root: &Path) {
    for folder in ["usr/bin", "usr/lib", "usr/lib64", "usr/sbin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let linked = Command::new("ldd").arg(program).output().unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain([program]) {
        let to = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
}

#[tokio::test]
async fn a_program_runs_over_an_image_that_this_machine_has() {
    if !can::<Podman>("a program over an image") {
        return;
    }
    let world = OciWorld::<Podman>::new();
    let image = Image::import(&["ENV OF_IMAGE=yes", "ENTRYPOINT [\"/nothing\"]", "VOLUME /data"], |_| {});
    let runtime = oci::open(world.with_root(Root::Image(image.name.clone()))).unwrap();
    assert_eq!(runtime.runners(), ["image", "program"]);
    let order = world.program(SAYS);
    let running = runtime.start(&order).await.unwrap();
    let mark = world.mark(&order.version);
    assert_eq!(get(&running.target, "/").await.body, "yes, Read-only file system, [], 0");
    runtime.stop(&order.version, GRACE).await.unwrap();
    leaves_nothing(&world, &mark);
}

#[tokio::test]
async fn a_version_that_names_an_image_runs_as_that_says() {
    if !can::<Podman>("a version that names an image") {
        return;
    }
    if !Path::new(PERL).exists() {
        return passed_over("a version that names an image", "this machine has no perl to put into one");
    }
    let world = OciWorld::<Podman>::new();
    let image = Image::import(
        &[
            "ENV OF_IMAGE=yes",
            "ENTRYPOINT [\"perl\", \"serve.pl\"]",
            "CMD [\"well\"]",
            "USER 1234",
            "WORKDIR /server",
        ],
        |root| {
            fs::create_dir(root.join("server")).unwrap();
            fs::write(root.join("server/serve.pl"), SERVES).unwrap();
            add_program(PERL, root);
        },
    );
    let settings = Settings { base: None, ..world.settings() };
    let runtime = oci::open(settings).unwrap();
    assert_eq!(runtime.runners(), ["image"]);
    let start = async |text: &str| {
        let folder = world.0.source();
        fs::write(folder.join("image"), text).unwrap();
        let mut order = Order::new(any_version(), folder);
        order.environment.insert(OF_WORLD.to_owned(), world.0.state().display().to_string());
        (runtime.start(&order).await, order)
    };
    let absent = format!("registry.example.org/none@sha256:{}", "0".repeat(64));
    let fault = start(&absent).await.0.unwrap_err();
    assert!(matches!(fault.fault, Fault::NoImage(_)), "{fault}");
    assert!(fault.to_string().contains(&format!("`podman pull {absent}`")), "{fault}");
    for text in ["busybox", "busybox:latest", "--all", "busybox@sha256:12", "$(x)@sha256:", ""] {
        let fault = start(text).await.0.unwrap_err();
        assert!(matches!(fault.fault, Fault::ImageName(_)), "{text}: {fault}");
    }
    let (running, order) = start(&format!("{}\n", image.id)).await;
    let running = running.unwrap();
    assert_eq!(running.runner, "image");
    let mark = world.mark(&order.version);
    assert_eq!(
        get(&running.target, "/").await.body,
        "yes, well, 1234, Read-only file system, , 0000000000000000"
    );
    runtime.stop(&order.version, GRACE).await.unwrap();
    leaves_nothing(&world, &mark);
}

#[tokio::test]
async fn what_podman_can_not_be_told_is_refused() {
    if !can::<Podman>("what podman can't be told") {
        return;
    }
    let world = OciWorld::<Podman>::new();
    let none = world.with_root(Root::Image("localhost/choirmaster-none:1".to_owned()));
    let text = oci::open(none).unwrap_err().to_string();
    assert!(text.contains("`podman pull localhost/choirmaster-none:1` gets it"), "{text}");
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.environment.insert("LINES".to_owned(), "one\ntwo".to_owned());
    let text = runtime.start(&order).await.unwrap_err().to_string();
    assert!(
        text.contains("the variable \"LINES\": it has to be one line") && !text.contains("two"),
        "{text}"
    );
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_container_whose_helper_was_killed_is_started_again_and_leaves_nothing() {
    if !can::<Podman>("a container whose helper was killed") {
        return;
    }
    for kills_podman in [false, true] {
        let world = OciWorld::<Podman>::new();
        let runtime = world.open();
        let order = world.order(Behaviour::Obeys);
        let running = runtime.start(&order).await.unwrap();
        let mark = world.mark(&order.version);
        let pid = forked(&world, &running).await;
        let podman = running.pid.unwrap();
        let killed = if kills_podman { podman } else { conmon(&mark) };
        kill_process(Pid::from_raw(killed.cast_signed()).unwrap(), Signal::KILL).unwrap();
        wait_until("it is started again", async || {
            let listed = runtime.list().await.unwrap();
            let again = listed.into_iter().find(|one| one.restarts > 0 && one.pid.is_some())?;
            (again.pid != Some(podman)).then_some(())
        })
        .await;
        wait_until("it answers", async || call(&running.target, "GET", "/", "").await.ok()).await;
        assert!(!world.is_there(&pid), "what it forked is gone");
        runtime.stop(&order.version, GRACE).await.unwrap();
        leaves_nothing(&world, &mark);
    }
}

/// The helper of a container.
fn conmon(mark: &str) -> u32 {
    let mut shown = Command::new(on_path("podman").unwrap());
    shown.args(["inspect", "--format", "{{.State.ConmonPid}}", &format!("choirmaster-{mark}")]);
    String::from_utf8(shown.output().unwrap().stdout).unwrap().trim().parse().unwrap()
}
