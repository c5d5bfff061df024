use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use router::{
    Router,
    custom::{Custom, Secret, Settings},
    disk::Disk,
    haproxy::Haproxy,
    log_line::LogPath,
    measure::Measure,
};
use tempfile::TempDir;
use traffic::{HashFunction, RouterKind};

use super::server::{Server, obey};
use crate::{
    conformance::{Real, operators::Sites},
    haproxy::RealHaproxy,
    world::{
        liar::Door,
        place::{at, free_port},
        tls::Identity,
    },
};

/// Signs the calls of tests.
pub const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

pub fn settings(at: SocketAddr, folder: &Path) -> Settings {
    Settings {
        url: format!("http://{at}/router").parse().unwrap(),
        secret: Secret::read(SECRET).unwrap(),
        router: "edge-1".to_owned(),
        time_limit: Duration::from_secs(10),
        folder: folder.to_owned(),
    }
}

/// A webhook before a real `HAProxy`.
#[derive(Debug)]
pub struct RealCustom {
    haproxy: RealHaproxy,
    at: SocketAddr,
    server: Option<Server>,
    folder: TempDir,
}

impl RealCustom {
    async fn serve(&mut self) {
        let router: Arc<dyn Router> = Arc::new(Haproxy::open(self.haproxy.settings()).unwrap());
        let secret = Secret::read(SECRET).unwrap();
        let respond = move |call| obey(call, secret.clone(), Arc::clone(&router));
        self.server = Some(Server::start(self.at, respond).await);
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().join("custom")
    }
}

impl Real for RealCustom {
    const KIND: RouterKind = RouterKind::Custom;
    const HASH: HashFunction = HashFunction::Xxh32;
    const LED_BY: &'static str = "nobody is told";

    async fn start() -> Self {
        let haproxy = RealHaproxy::start().await;
        let mut real =
            Self { haproxy, at: at(free_port()), server: None, folder: tempfile::tempdir().unwrap() };
        real.serve().await;
        real
    }

    fn open(&self) -> Arc<dyn Router> {
        Arc::new(Custom::open(settings(self.at, &self.folder())).unwrap())
    }

    fn open_logging(&self, _: &LogPath, _: Option<&Arc<Measure>>) -> Arc<dyn Router> {
        panic!("no webhook logs calls")
    }

    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>> {
        let custom = Custom::open_on(settings(self.at, &self.folder()), Disk::dying_after(steps));
        Some(Arc::new(custom.unwrap()))
    }

    async fn kill(&mut self) {
        self.server = None;
        self.haproxy.kill().await;
    }

    async fn start_again(&mut self) {
        self.server = None;
        self.haproxy.start_again().await;
        self.serve().await;
    }

    async fn meddle(&self, service: &str) {
        self.haproxy.meddle(service).await;
    }

    async fn take_out(&self, service: &str) {
        self.haproxy.take_out(service).await;
    }

    async fn leave_over(&self) -> String {
        self.haproxy.leave_over().await
    }

    fn spoil(&self, is_spoiled: bool) {
        self.haproxy.spoil(is_spoiled);
    }

    fn serve_besides(&self, name: &str, port: u16, target: &str) {
        self.haproxy.serve_besides(name, port, target);
    }

    fn serve_sites(&self, sites: &Sites, target: &str) {
        self.haproxy.serve_sites(sites, target);
    }

    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.haproxy.of_others()
    }

    /// With the folder of whoever calls the webhook, but for its notes.
    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = self.haproxy.on_disk();
        let own = fs::read_dir(self.folder()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let own = own.filter(|path| !path.ends_with("newest") && !path.ends_with("lock"));
        found.extend(own.map(|path| (path.clone(), fs::read(path).unwrap())));
        found
    }

    fn identity(&self) -> &Identity {
        self.haproxy.identity()
    }

    fn door(&self) -> Door {
        Door::Tcp(self.at)
    }
}
