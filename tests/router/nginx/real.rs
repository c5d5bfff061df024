use std::{
    collections::BTreeMap,
    fs,
    marker::PhantomData,
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use router::log_line::LogPath;
use router::nginx::config::{Certificate, Layout, Log};
use router::{
    Router,
    disk::Disk,
    measure::Measure,
    nginx::{Nginx, Reload, Settings},
};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use traffic::{HashFunction, RouterKind, desired::Protocol};

use crate::{
    conformance::{Real, operators::Sites},
    loss::wait::wait_until,
    world::{
        caller::Caller,
        liar::Door,
        place,
        program::{Later, Packaged, Program},
        tls::Identity,
    },
};

/// An nginx with a server of its operator's, which knows nothing of us, and our include.
#[derive(Debug)]
pub struct AnyNginx<P> {
    pub folder: TempDir,
    /// Of buckets: in memory, where the system has a place for that.
    memory: TempDir,
    child: Option<Child>,
    /// Of the operator's server.
    others: u16,
    ask: u16,
    ask_stream: u16,
    identity: Identity,
    program: PhantomData<P>,
}

pub type RealNginx = AnyNginx<Packaged>;
pub type LaterNginx = AnyNginx<Later>;

/// What makes a configuration one that nginx refuses.
const NONSENSE: &str = "\nthis_is_no_directive;\n";

impl<P: Program> AnyNginx<P> {
    pub fn settings(&self) -> Settings {
        let folder = self.folder.path();
        let ask = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ask));
        let mut layout =
            Layout::new(self.buckets().to_str().unwrap(), ask, vec![Ipv4Addr::LOCALHOST.into()]).unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| self.path(name).display().to_string());
        layout.certificate = Some(Certificate::new(&certificate, &key).unwrap());
        layout.ask_stream = Some(place::at(self.ask_stream));
        Settings {
            program: P::of("nginx"),
            config: folder.join("nginx.conf"),
            include: folder.join("choirmaster.conf"),
            pid: folder.join("nginx.pid"),
            reload: Reload::Signal,
            layout,
            time_limit: Duration::from_secs(2),
        }
    }

    /// The folder of all buckets.
    pub fn buckets(&self) -> PathBuf {
        self.memory.path().join("buckets")
    }

    /// With so many workers, and this in its part for HTTP.
    pub async fn start_with(workers: u32, http: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let [others, ask, ask_stream] = std::array::from_fn(|_| place::free_port());
        let at = folder.path().display();
        let module = P::stream_module();
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("  {what}_temp_path {at}/{what};\n"))
            .concat();
        let config = format!(
            "{module}{user}daemon off;\nworker_processes {workers};\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
             worker_shutdown_timeout 10m;\nevents {{ worker_connections 1000; }}\nhttp {{\n  access_log off;\n{temp}{http}\
             server {{ listen 127.0.0.1:{others}; location / {{ return 200 others; }} }}\n  \
             include {at}/choirmaster.conf;\n  include {at}/others.conf;\n}}\n\
             stream {{\n  include {at}/choirmaster.conf.stream;\n}}\n"
        );
        fs::write(folder.path().join("nginx.conf"), config).unwrap();
        fs::write(folder.path().join("choirmaster.conf"), "").unwrap();
        fs::write(folder.path().join("choirmaster.conf.stream"), "").unwrap();
        fs::write(folder.path().join("others.conf"), "# of an operator\n").unwrap();
        let identity = Identity::of(&["here.example", "shop.example", "www.shop.example"]);
        identity.write(&folder.path().join("tls.crt"), &folder.path().join("tls.key"));
        let mut real =
            Self { folder, memory, child: None, others, ask, ask_stream, identity, program: PhantomData };
        real.start_again().await;
        real
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of the buckets of its only service that has any.
    pub fn only_folder(&self) -> PathBuf {
        let only = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
            assert_eq!(folders.len(), 1, "{folders:?}");
            folders.remove(0)
        };
        only(&only(&self.buckets()))
    }
}

impl<P> AnyNginx<P> {
    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = child.wait();
    }
}

impl<P> Drop for AnyNginx<P> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<P: Program> Real for AnyNginx<P> {
    const KIND: RouterKind = RouterKind::Nginx;
    const HASH: HashFunction = HashFunction::Murmur2;
    const LED_BY: &'static str = "is included already";

    /// Where it shares out by a table in its configuration.
    fn reloads_for_shares(protocol: Protocol) -> bool {
        !protocol.is_http()
    }

    fn reported(protocol: Protocol, connections: u64) -> u64 {
        if protocol.is_http() { connections } else { connections.min(1) }
    }

    async fn start() -> Self {
        Self::start_with(2, "").await
    }

    fn open(&self) -> Arc<dyn Router> {
        Arc::new(Nginx::new(self.settings()))
    }

    fn open_logging(&self, log: &LogPath, measure: Option<&Arc<Measure>>) -> Arc<dyn Router> {
        let mut settings = self.settings();
        settings.layout.log = Some(Log { socket: log.clone(), is_alone: P::HAS_ALL_MODULES });
        let nginx = Nginx::new(settings);
        Arc::new(match measure {
            Some(measure) => nginx.measured(Arc::clone(measure)),
            None => nginx,
        })
    }

    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>> {
        Some(Arc::new(Nginx::on(self.settings(), Disk::dying_after(steps))))
    }

    async fn kill(&mut self) {
        self.end();
    }

    async fn start_again(&mut self) {
        self.end();
        let mut command = Command::new(P::of("nginx"));
        command.arg("-c").arg(self.path("nginx.conf")).arg("-e").arg(self.path("error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.child = Some(command.spawn().expect("nginx is installed"));
        let at = place::at(self.others);
        wait_until("nginx serves", async || Caller::new(at).try_get("/", &[]).await.is_ok()).await;
    }

    async fn meddle(&self, _service: &str) {
        let folder = self.only_folder().join("1");
        let mut buckets: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        buckets.sort_unstable();
        for bucket in buckets.iter().step_by(2) {
            fs::remove_file(bucket).unwrap();
        }
    }

    /// It takes servers out that refuse a few connections in a row.
    async fn take_out(&self, _: &str) {}

    async fn leave_over(&self) -> String {
        let name = "00000000deadbeef";
        let folder = self.buckets().join(name).join("0123456789abcdef/1");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0042"), "").unwrap();
        name.to_owned()
    }

    fn spoil(&self, is_spoiled: bool) {
        let path = self.path("others.conf");
        let text = fs::read_to_string(&path).unwrap().replace(NONSENSE, "");
        fs::write(path, if is_spoiled { text + NONSENSE } else { text }).unwrap();
    }

    fn serve_besides(&self, name: &str, port: u16, target: &str) {
        let path = self.path("others.conf");
        let text = fs::read_to_string(&path).unwrap();
        let own = format!(
            "upstream {name} {{ server {target}; }}\nserver {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{name}; }} }}\n"
        );
        fs::write(&path, text + &own).unwrap();
    }

    fn serve_sites(&self, sites: &Sites, target: &str) {
        let root = self.path("site");
        fs::create_dir_all(root.join("static")).unwrap();
        fs::write(root.join("static/x"), "a static file\n").unwrap();
        let [certificate, key] = ["sites.crt", "sites.key"].map(|name| self.path(name));
        fs::write(&certificate, sites.identity.cert.pem()).unwrap();
        fs::write(&key, sites.identity.signing_key.serialize_pem()).unwrap();
        let (root, certificate, key) = (root.display(), certificate.display(), key.display());
        let listens = format!("listen 127.0.0.1:{}; listen 127.0.0.1:{} ssl;", sites.port, sites.tls_port);
        let sites = format!(
            "ssl_certificate {certificate}; ssl_certificate_key {key};\n\
             server {{ {listens} server_name one.example; root {root}; }}\n\
             server {{ {listens} server_name two.example; location / {{ return 200 two; }} location /api {{ \
             proxy_pass http://{target}; }} }}\n"
        );
        fs::write(self.path("others.conf"), sites).unwrap();
    }

    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = ["nginx.conf", "others.conf"].map(|name| self.path(name));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).into()
    }

    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = ["choirmaster.conf", "choirmaster.conf.stream"].map(|name| self.path(name));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).into()
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn door(&self) -> Door {
        Door::Tcp(place::at(self.ask))
    }
}
