use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use router::{
    Router,
    disk::Disk,
    log_line::LogPath,
    measure::Measure,
    traefik::{Settings, Traefik},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};
use traffic::{HashFunction, RouterKind};

use crate::{
    conformance::{Real, operators::Sites},
    loss::wait::wait_until,
    world::{liar::Door, place::at, tls::Identity},
};

/// Entry points, each with a port of TCP and the same one of UDP for the first.
const ENTRY_POINTS: usize = 24;
const OF_UDP: usize = 4;

/// One with the entry points that its operator has set up.
#[derive(Debug)]
pub struct RealTraefik {
    folder: TempDir,
    running: Option<Child>,
    api: SocketAddr,
    ports: Vec<u16>,
    given: AtomicUsize,
    identity: Identity,
}

impl RealTraefik {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            folder: Some(self.path("dynamic")),
            own: self.path("ours"),
            api: format!("http://{}/", self.api).parse().unwrap(),
            metrics: Some(format!("http://{}/metrics", self.api).parse().unwrap()),
            time_limit: Duration::from_secs(2),
            load_within: Duration::from_secs(10),
        }
    }

    /// Our file.
    pub fn file(&self) -> PathBuf {
        self.path("dynamic/choirmaster.yml")
    }

    /// Puts a file into its folder as an operator should: whole.
    pub fn put(&self, name: &str, text: &str) {
        let draft = self.path("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.path("dynamic").join(name)).unwrap();
    }

    /// Changes our file by hand, and waits until Traefik goes by that.
    async fn edit(&self, change: impl Fn(&mut Value)) {
        let text = fs::read_to_string(self.file()).unwrap();
        let (head, body) = text.split_at(text.find('{').unwrap());
        let mut config: Value = serde_json::from_str(body).unwrap();
        change(&mut config);
        // By which it is seen that it was loaded.
        config["http"]["services"]["choirmaster-test-edited"] = server("http://127.0.0.1:9");
        self.put("choirmaster.yml", &format!("{head}{config}\n"));
        self.until_it_has("choirmaster-test-edited").await;
    }

    pub async fn until_it_has(&self, name: &str) {
        wait_until("it is loaded", async || self.raw().await.is_some_and(|raw| raw.contains(name))).await;
    }

    fn block_until_it_has(&self, name: &str) {
        use std::io::{Read as _, Write as _};
        let mut tries = 0..2_000;
        let has = || {
            let mut stream = std::net::TcpStream::connect(self.api).ok()?;
            stream.write_all(b"GET /api/rawdata HTTP/1.0\r\nHost: here\r\n\r\n").ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer.contains(name))
        };
        let is_there = tries.any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            has() == Some(true)
        });
        assert!(is_there, "it never has {name}");
    }

    /// What its API says, if it answers. One that has just begun says 404.
    pub async fn raw(&self) -> Option<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = TcpStream::connect(self.api).await.ok()?;
        stream.write_all(b"GET /api/rawdata HTTP/1.0\r\nHost: here\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        String::from_utf8(answer).ok().filter(|answer| answer.starts_with("HTTP/1.0 200 "))
    }

    fn write_static(&self) {
        let mut points = BTreeMap::from([("traefik".to_owned(), json!({"address": self.api.to_string()}))]);
        for (place, port) in self.ports.iter().enumerate() {
            let point = json!({"address": at(*port).to_string(), "forwardedHeaders": {"insecure": true}});
            points.insert(format!("p{port}"), point);
            if place < OF_UDP {
                points.insert(format!("u{port}"), json!({"address": format!("{}/udp", at(*port))}));
            }
        }
        let config = json!({
            "global": {"checkNewVersion": false, "sendAnonymousUsage": false},
            "entryPoints": points,
            "api": {"insecure": true},
            "metrics": {"prometheus": {}},
            "providers": {
                "rest": {"insecure": true},
                "file": {"directory": self.path("dynamic"), "watch": true},
                "providersThrottleDuration": "100ms",
            },
        });
        fs::write(self.path("static.yml"), config.to_string()).unwrap();
    }

    /// False: it ended, for instance because somebody has one of its ports.
    async fn launch(&mut self) -> bool {
        let program = std::env::var_os("CHOIRMASTER_TEST_TRAEFIK");
        let program = program.expect("CHOIRMASTER_TEST_TRAEFIK is set by tests/run, which gets Traefik");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = Command::new(program);
        command.arg(format!("--configFile={}", self.path("static.yml").display()));
        command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).kill_on_drop(true);
        let mut running = command.spawn().unwrap();
        let mut has_ended = false;
        wait_until("Traefik answers", async || {
            has_ended = running.try_wait().unwrap().is_some();
            has_ended || self.raw().await.is_some()
        })
        .await;
        self.running = Some(running);
        !has_ended
    }

    async fn try_start() -> Option<Self> {
        // All at once, so that each is another one.
        let held: Vec<TcpListener> =
            (0..=ENTRY_POINTS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let mut ports: Vec<u16> = held.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(held);
        let api = at(ports.pop().unwrap());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("dynamic")).unwrap();
        let identity = Identity::of(&["here.example"]);
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        identity.write(&certificate, &key);
        let files = json!({"certFile": certificate, "keyFile": key});
        let stores = json!({"tls": {"stores": {"default": {"defaultCertificate": files}}}});
        fs::write(folder.path().join("dynamic/tls.yml"), stores.to_string()).unwrap();
        let mut real = Self { folder, running: None, api, ports, given: AtomicUsize::new(0), identity };
        real.write_static();
        real.launch().await.then_some(real)
    }
}

fn server(url: &str) -> Value {
    json!({"loadBalancer": {"servers": [{"url": url}]}})
}

impl Real for RealTraefik {
    const KIND: RouterKind = RouterKind::Traefik;
    /// It draws none.
    const HASH: HashFunction = HashFunction::Murmur2;
    const RELOADS: bool = false;
    const MANY: usize = 20;
    /// Each waits for it to take a file.
    const CHANGES: u32 = 1_000;
    const LED_BY: &'static str = "nothing: its file comes into";

    async fn start() -> Self {
        loop {
            if let Some(real) = Self::try_start().await {
                return real;
            }
        }
    }

    fn open(&self) -> Arc<dyn Router> {
        Arc::new(Traefik::open(self.settings()).unwrap())
    }

    fn open_logging(&self, _: &LogPath, _: Option<&Arc<Measure>>) -> Arc<dyn Router> {
        panic!("Traefik logs to no socket")
    }

    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>> {
        Some(Arc::new(Traefik::open_on(self.settings(), Disk::dying_after(steps)).unwrap()))
    }

    async fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().await.unwrap();
        }
    }

    async fn start_again(&mut self) {
        self.kill().await;
        // Somebody's connection may have one of its ports for a moment.
        wait_until("it starts again", async || self.launch().await).await;
    }

    async fn meddle(&self, service: &str) {
        let name = format!("choirmaster:{service}");
        self.edit(|config| {
            let shares = &mut config["http"]["services"][&name]["weighted"]["services"];
            let half = shares[1]["weight"].as_u64().unwrap() / 2;
            shares[1]["weight"] = half.into();
            shares[0]["weight"] = (10_000 - half).into();
        })
        .await;
    }

    async fn take_out(&self, _: &str) {
        panic!("it tells no such calls apart")
    }

    async fn leave_over(&self) -> String {
        self.edit(|config| {
            config["http"]["services"]["choirmaster:ghost:A"] = server("http://127.0.0.1:9");
        })
        .await;
        "choirmaster:ghost:A".to_owned()
    }

    fn spoil(&self, is_spoiled: bool) {
        if is_spoiled {
            self.put("broken.yml", "http: [\n");
        } else {
            fs::remove_file(self.path("dynamic/broken.yml")).unwrap();
        }
    }

    fn serve_besides(&self, name: &str, port: u16, target: &str) {
        let config = json!({"http": {
            "routers": {name: {"rule": "Host(`shop.example`)", "entryPoints": [format!("p{port}")], "service": "web"}},
            "services": {"web": server(&format!("http://{target}"))},
        }});
        self.put("operator.yml", &config.to_string());
        self.block_until_it_has(&format!("{name}@file"));
    }

    fn serve_sites(&self, _: &Sites, _: &str) {
        panic!("it serves no static files")
    }

    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = files_in(&self.path("dynamic"));
        found.remove(&self.file());
        found.extend([(self.path("static.yml"), fs::read(self.path("static.yml")).unwrap())]);
        found
    }

    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = files_in(&self.path("ours"));
        found.retain(|path, _| !path.ends_with("newest") && !path.ends_with("lock"));
        found.extend(fs::read(self.file()).ok().map(|bytes| (self.file(), bytes)));
        found
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn door(&self) -> Door {
        Door::Tcp(self.api)
    }

    /// The first also of UDP.
    fn port(&self) -> u16 {
        self.ports[self.given.fetch_add(1, Ordering::Relaxed)]
    }
}

fn files_in(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}
