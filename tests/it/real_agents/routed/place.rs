//! An nginx, an `HAProxy`, a Traefik and the webhook of the documents as an operator has them, each in a folder of its own.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    super::{processes, wait::wait_until},
    stream_module,
};
use crate::ports::free_address;

/// Signs the calls of tests.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A router that somebody else has started.
pub struct Place {
    pub kind: &'static str,
    folder: PathBuf,
    /// Of nginx's buckets.
    memory: TempDir,
    at: SocketAddr,
    /// Where nginx, a Traefik and a webhook are asked.
    ask: SocketAddr,
    /// The same for nginx's stream module.
    ask_stream: SocketAddr,
    running: Option<Child>,
}

impl Place {
    /// One whose services take calls at this address.
    pub async fn start(kind: &'static str, folder: &Path, at: SocketAddr) -> Self {
        fs::create_dir_all(folder.join("ours")).unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let [ask, ask_stream] = [(); 2].map(|()| free_address());
        let mut place = Self { kind, folder: folder.to_owned(), memory, at, ask, ask_stream, running: None };
        place.launch().await;
        place
    }

    async fn launch(&mut self) {
        let child = match self.kind {
            "nginx" => self.nginx(),
            "haproxy" => self.haproxy(),
            "traefik" => self.traefik(),
            _ => self.webhook(),
        };
        self.running = Some(child);
        if matches!(self.kind, "custom" | "traefik") {
            let is_there = async || tokio::net::TcpStream::connect(self.ask).await.is_ok();
            wait_until("it listens", is_there).await;
        } else {
            wait_until("the router runs", async || self.file("pid").exists()).await;
        }
    }

    /// Ends a webhook at once, or starts it again.
    pub async fn is_away(&mut self, is_away: bool) {
        if is_away {
            let mut child = self.running.take().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            self.launch().await;
        }
    }

    /// The worked example of the documents, before a router that counts a hundred calls a second of each variation.
    fn webhook(&self) -> Child {
        const COUNTED: &str = "def counted(state):\n    for service in state[\"services\"]:\n        for variation in \
                               service[\"variations\"]:\n            variation[\"calls\"] = int(time.time() * 100)\n    return \
                               state\n\nclass Handler";
        let text = include_str!("../../../../docs/custom-router.md");
        let code = text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let code =
            code.replace("class Handler", COUNTED).replace("state() if asked", "counted(state()) if asked");
        fs::write(self.file("router.py"), code).unwrap();
        fs::write(self.file("secret"), format!("{SECRET}\n")).unwrap();
        let mut command = Command::new("python3");
        command.arg(self.file("router.py")).arg(self.ask.port().to_string());
        command.env("SECRET", SECRET).env("STATE", self.file("state.json"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("there is python3")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn nginx(&self) -> Child {
        let at = self.folder.display();
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temp = temp.map(|what| format!("  {what}_temp_path {at}/{what};\n")).concat();
        let module = stream_module::line();
        let config = format!(
            "{module}{user}daemon off;\nworker_processes 2;\npid {at}/pid;\nerror_log {at}/error.log;\nworker_shutdown_timeout 10m;\n\
             events {{ worker_connections 1000; }}\nhttp {{\n  access_log off;\n{temp}  include {at}/ours/choirmaster.conf;\n}}\n\
             stream {{\n  include {at}/ours/choirmaster.conf.stream;\n}}\n"
        );
        fs::write(self.file("main.conf"), config).unwrap();
        fs::write(self.file("ours/choirmaster.conf"), "").unwrap();
        fs::write(self.file("ours/choirmaster.conf.stream"), "").unwrap();
        let mut command = Command::new("nginx");
        command.arg("-c").arg(self.file("main.conf")).arg("-e").arg(self.file("error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("nginx is installed")
    }

    fn haproxy(&self) -> Child {
        let at = self.folder.display();
        let config = format!(
            "global\n    stats socket {at}/runtime.sock mode 600 level admin\n    nbthread 2\n\ndefaults\n    mode tcp\n    timeout \
             connect 7s\n    timeout client 7s\n    timeout server 7s\n\nbackend theirs\n    server one 127.0.0.1:9\n"
        );
        fs::write(self.file("main.conf"), config).unwrap();
        // A router that is given the name of a missing file doesn't start.
        fs::write(self.file("ours/choirmaster.cfg"), "# choirmaster\n").unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-W").arg("-S").arg(format!("{at}/master.sock,mode,600"));
        command.arg("-p").arg(self.file("pid")).arg("-f").arg(self.file("main.conf"));
        command.arg("-f").arg(self.file("ours/choirmaster.cfg"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("there is haproxy")
    }

    fn traefik(&self) -> Child {
        fs::create_dir_all(self.file("dynamic")).unwrap();
        let config = serde_json::json!({
            "global": {"checkNewVersion": false, "sendAnonymousUsage": false},
            "entryPoints": {"traefik": {"address": self.ask.to_string()}, "web": {"address": self.at.to_string()}},
            "api": {"insecure": true},
            "metrics": {"prometheus": {}},
            "providers": {"file": {"directory": self.file("dynamic"), "watch": true}, "providersThrottleDuration": "100ms"},
        });
        fs::write(self.file("static.yml"), config.to_string()).unwrap();
        let program = std::env::var_os("CHOIRMASTER_TEST_TRAEFIK");
        let program = program.expect("CHOIRMASTER_TEST_TRAEFIK is set by tests/run, which gets Traefik");
        let mut command = Command::new(program);
        command.arg(format!("--configFile={}", self.file("static.yml").display()));
        command.stdin(Stdio::null()).stdout(fs::File::create(self.file("error.log")).unwrap());
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// What is set of an agent beside it, which waits so long for the calls of what has no share any more.
    pub fn settings(&self, drain: &str) -> Vec<String> {
        let file = |key: &str, name: &str| format!("{key}={}", self.file(name).display());
        let user = rustix::process::geteuid().as_raw();
        let mut set = vec![format!("router.kind={}", self.kind), format!("router.drain={drain}")];
        if self.kind == "custom" {
            set.extend([format!("custom.url=http://{}/", self.ask), file("custom.secret_file", "secret")]);
            set.push("custom.name=edge-1".to_owned());
            return set;
        }
        if self.kind == "traefik" {
            let asked = format!("http://{}", self.ask);
            set.extend([file("traefik.folder", "dynamic"), file("traefik.own", "ours")]);
            set.extend([format!("traefik.api={asked}"), format!("traefik.metrics={asked}/metrics")]);
            return set;
        }
        set.extend([
            format!("{}.addresses={}", self.kind, self.at.ip()),
            format!("{}.user={user}", self.kind),
        ]);
        if self.kind == "nginx" {
            set.extend([
                file("nginx.config", "main.conf"),
                file("nginx.include", "ours/choirmaster.conf"),
                file("nginx.pid", "pid"),
                file("nginx.lines", "lines.sock"),
                format!("nginx.folder={}", self.memory.path().join("buckets").display()),
                format!("nginx.ask={}", self.ask),
                format!("nginx.ask_stream={}", self.ask_stream),
                "nginx.alone=true".to_owned(),
            ]);
        } else {
            set.extend([
                "haproxy.program=haproxy".to_owned(),
                file("haproxy.config", "main.conf"),
                file("haproxy.folder", "ours"),
                file("haproxy.socket", "runtime.sock"),
                file("haproxy.master_socket", "master.sock"),
                file("haproxy.pid", "pid"),
                file("haproxy.lines", "lines.sock"),
                "haproxy.chroot=".to_owned(),
            ]);
        }
        set
    }

    /// What it is told can't be written down, or can again: something else stands where the file is to be.
    pub fn obstruct(&self, is_obstructed: bool) {
        let name =
            if self.kind == "nginx" { "choirmaster.conf.state.new" } else { "choirmaster.cfg.newest.new" };
        let path = self.file("ours").join(name);
        if is_obstructed { fs::create_dir(path).unwrap() } else { fs::remove_dir(path).unwrap() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            if std::thread::panicking() {
                let log = fs::read_to_string(self.file("error.log")).unwrap_or_default();
                eprintln!("of {}: {log}", self.kind);
            }
            // Both end at once, with those that they have started.
            processes::send(child.id(), if self.kind == "haproxy" { Signal::INT } else { Signal::TERM });
            let _ = child.wait();
        }
    }
}
