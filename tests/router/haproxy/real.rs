use std::{
    collections::BTreeMap,
    fs,
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use router::haproxy::config::{Folder, Frame};
use router::log_line::LogPath;
use router::{
    Router,
    disk::Disk,
    haproxy::{Haproxy, Limits, Reload, Settings},
    measure::Measure,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use traffic::{HashFunction, RouterKind};

use super::runtime::Runtime;
use crate::{
    conformance::{Real, operators::Sites},
    world::{
        liar::Door,
        program::{Later, Packaged, Program},
        tls::Identity,
    },
};

/// A master with its worker, between an operator's file and ours.
#[derive(Debug)]
pub struct AnyHaproxy<P> {
    folder: TempDir,
    master: Option<Child>,
    threads: u32,
    identity: Identity,
    program: PhantomData<P>,
}

pub type RealHaproxy = AnyHaproxy<Packaged>;
pub type LaterHaproxy = AnyHaproxy<Later>;

impl<P: Program> AnyHaproxy<P> {
    async fn start_with(threads: u32) -> Self {
        let identity = Identity::of(&["here.example"]);
        let mut real = Self {
            folder: tempfile::tempdir().unwrap(),
            master: None,
            threads,
            identity,
            program: PhantomData,
        };
        fs::write(real.path("tls.pem"), real.identity.pem()).unwrap();
        real.write_operators("");
        drop(Haproxy::open(real.settings()).unwrap());
        real.launch().await;
        real
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            program: P::of("haproxy"),
            config: vec![self.path("operator.cfg")],
            frame: Frame {
                folder: Folder::new(&self.path("ours")).unwrap(),
                addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
                hard_stop_after: Some(Duration::from_secs(30)),
                certificate: Some(Folder::new(&self.path("tls.pem")).unwrap()),
                log: None,
            },
            socket: self.path("runtime.sock"),
            master_socket: Some(self.path("master.sock")),
            pid: self.path("pid"),
            reload: Reload::Signal,
            limits: Limits { answer: Duration::from_secs(2), ..Limits::default() },
        }
    }

    /// Asks the process that serves, as an operator would.
    pub async fn runtime(&self) -> Runtime {
        Runtime::open(&self.path("runtime.sock")).await
    }

    pub fn section(&self) -> PathBuf {
        self.path("ours/choirmaster.cfg")
    }

    pub fn write_operators(&self, more: &str) {
        let text = format!(
            "# of the operator\nglobal\n    stats socket {} mode 600 level admin\n    nbthread {}\n\ndefaults\n    mode \
             tcp\n    timeout connect 7s\n    timeout client 7s\n    timeout server 7s\n\nbackend theirs\n    server one \
             127.0.0.1:9\n{more}",
            self.path("runtime.sock").display(),
            self.threads
        );
        fs::write(self.path("operator.cfg"), text).unwrap();
    }

    async fn launch(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = Command::new(P::of("haproxy"));
        command.arg("-W").arg("-S").arg(format!("{},mode,600", self.path("master.sock").display()));
        command.arg("-p").arg(self.path("pid")).arg("-f").arg(self.path("operator.cfg"));
        command.arg("-f").arg(self.section());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.master = Some(command.spawn().expect("there is haproxy"));
        super::runtime::until_it_answers(&self.path("runtime.sock"), || self.log()).await;
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl<P> AnyHaproxy<P> {
    /// All processes of it that there are.
    fn processes(&self) -> Vec<Pid> {
        let Some(master) = self.master.as_ref().and_then(Child::id) else { return Vec::new() };
        let children =
            fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap_or_default();
        let workers = children.split_ascii_whitespace().map(|pid| pid.parse().unwrap());
        [master as i32].into_iter().chain(workers).filter_map(Pid::from_raw).collect()
    }

    fn kill_all(&self) {
        for pid in self.processes() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl<P> Drop for AnyHaproxy<P> {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl<P: Program> Real for AnyHaproxy<P> {
    const KIND: RouterKind = RouterKind::Haproxy;
    const HASH: HashFunction = HashFunction::Xxh32;
    const LED_BY: &'static str = "as the last -f";

    async fn start() -> Self {
        Self::start_with(2).await
    }

    /// Where two of its threads log at once, it sends one line twice and another one never.
    async fn start_logging_exactly() -> Self {
        Self::start_with(1).await
    }

    fn open(&self) -> Arc<dyn Router> {
        Arc::new(Haproxy::open(self.settings()).unwrap())
    }

    fn open_logging(&self, log: &LogPath, measure: Option<&Arc<Measure>>) -> Arc<dyn Router> {
        let mut settings = self.settings();
        settings.frame.log = Some(log.clone());
        let haproxy = Haproxy::open(settings).unwrap();
        Arc::new(match measure {
            Some(measure) => haproxy.measured(Arc::clone(measure)),
            None => haproxy,
        })
    }

    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>> {
        Some(Arc::new(Haproxy::open_on(self.settings(), Disk::dying_after(steps)).unwrap()))
    }

    async fn kill(&mut self) {
        self.kill_all();
        if let Some(mut master) = self.master.take() {
            master.wait().await.unwrap();
        }
        super::runtime::until_nobody_answers(&self.path("runtime.sock")).await;
    }

    async fn start_again(&mut self) {
        self.kill().await;
        self.launch().await;
    }

    async fn meddle(&self, service: &str) {
        let mut runtime = self.runtime().await;
        let map = runtime.map(&format!("{service}.table")).await;
        let entries = runtime.entries(&map).await;
        for (key, _) in &entries[..entries.len() / 2] {
            runtime.obeys(&format!("del map {map} {key}")).await;
        }
    }

    async fn take_out(&self, service: &str) {
        let mut runtime = self.runtime().await;
        let backend = format!("choirmaster:{service}:B");
        let state = runtime.ask(&format!("show servers state {backend}")).await;
        let servers = state.lines().skip(2).filter_map(|line| line.split(' ').nth(3));
        for server in servers {
            runtime.obeys(&format!("set server {backend}/{server} state maint")).await;
        }
    }

    async fn leave_over(&self) -> String {
        let text = fs::read_to_string(self.section()).unwrap();
        let ghost =
            "backend choirmaster:ghost:A from choirmaster::http\n    server 127.0.0.1:9 127.0.0.1:9\n";
        fs::write(self.section(), text + ghost).unwrap();
        let before = self.runtime().await.pid().await;
        let master = self.master.as_ref().and_then(Child::id).unwrap();
        kill_process(Pid::from_raw(master as i32).unwrap(), Signal::USR2).unwrap();
        super::runtime::until_another_answers(&self.path("runtime.sock"), before).await;
        "choirmaster:ghost:A".to_owned()
    }

    fn spoil(&self, is_spoiled: bool) {
        self.write_operators(if is_spoiled { "frontend spoiled\n    nonsense here\n" } else { "" });
    }

    fn serve_besides(&self, name: &str, port: u16, target: &str) {
        self.write_operators(&format!(
            "\nfrontend {name}\n  mode http\n  bind 127.0.0.1:{port}\n  default_backend web\nbackend web\n  mode http\n  server one {target}\n"
        ));
    }

    fn serve_sites(&self, sites: &Sites, target: &str) {
        let pem = self.path("sites.pem");
        fs::write(&pem, sites.identity.cert.pem() + &sites.identity.signing_key.serialize_pem()).unwrap();
        let (port, tls_port, pem) = (sites.port, sites.tls_port, pem.display());
        self.write_operators(&format!(
            "\nfrontend sites\n  mode http\n  bind 127.0.0.1:{port}\n  bind 127.0.0.1:{tls_port} ssl crt {pem}\n  \
             http-request return status 200 content-type text/plain string \"a static file\" \
             if {{ hdr(host) one.example }} {{ path /static/x }}\n  http-request deny deny_status 404 \
             unless {{ hdr(host) two.example }}\n  default_backend web\nbackend web\n  mode http\n  server one {target}\n"
        ));
    }

    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let path = self.path("operator.cfg");
        BTreeMap::from([(path.clone(), fs::read(path).unwrap())])
    }

    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        files_below(&self.path("ours"), &mut found);
        found.retain(|path, _| {
            !path.to_string_lossy().ends_with(".newest") && !path.to_string_lossy().ends_with(".lock")
        });
        found
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn door(&self) -> Door {
        Door::Unix(self.path("runtime.sock"))
    }
}

fn files_below(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}
