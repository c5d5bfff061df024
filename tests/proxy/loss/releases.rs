//! Whole releases: the canary is started, gets more from stage to stage, and then everything or nothing. Who loses the calls is
//! drained before it is stopped.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use proxy::{Limits, Proxy, form::TableForm};
use tokio::time::{Instant, sleep};

use super::{
    counts::Counts,
    ledger::Counted,
    version::{Behaviour, Place, Version},
    wait::wait_until,
};
use crate::ports::free_address;

/// A release as it is to go.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// Of the canary, in hundredths of a percent, stage by stage.
    pub shares: &'static [u16],
    pub canary: Behaviour,
    /// It is aborted in the middle of this stage; none: all stages pass.
    pub abort_at: Option<usize>,
}

pub const A_B: &[u16] = &[5_000];
pub const TWO_STAGES: &[u16] = &[1_000, 5_000];
pub const GRADUAL: &[u16] = &[100, 500, 1_000, 2_000, 3_000, 5_000, 7_500, 9_000];

/// Each kind of release with each of these canaries to the end, and aborted at every stage; in an order of chance.
pub fn every_release(canaries: &[Behaviour], chance: &mut fastrand::Rng) -> Vec<Release> {
    let mut all = Vec::new();
    for shares in [A_B, TWO_STAGES, GRADUAL] {
        all.extend(canaries.iter().map(|&canary| Release { shares, canary, abort_at: None }));
        for stage in 0..shares.len() {
            let canary = canaries[(stage + shares.len()) % canaries.len()];
            all.push(Release { shares, canary, abort_at: Some(stage) });
        }
    }
    chance.shuffle(&mut all);
    all
}

/// Of each proxy.
const THREADS: usize = 2;

/// A caller who waits between calls makes the next one long before.
const LONGEST_DRAIN: Duration = Duration::from_mins(1);

/// Of so many stages one has an upgrade of the proxy in it.
const STAGES_TO_AN_UPGRADE: u8 = 8;

/// How releases are led.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// What the table says of repeats.
    pub retry: Option<&'static str>,
    /// Now and then another proxy takes over the listening socket.
    pub upgrades: bool,
    pub shortest_stage: Duration,
    pub longest_stage: Duration,
    /// Of whoever leads them; it has to be seen.
    pub fault: Option<Fault>,
}

/// What can be done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Versions are stopped while calls may be on their way to them.
    StopsBeforeDrained,
    /// Each change of shares is made by a new proxy, which binds the address anew.
    BindsAnew,
}

/// A proxy, the version that serves, and what was counted so far.
pub struct Stand {
    pub at: SocketAddr,
    pub proxy: Proxy,
    pub counts: Counts,
    /// How often a canary was killed.
    pub kills: u32,
    /// How often another proxy took over.
    pub upgrades: u32,
    way: Way,
    limits: Limits,
    listener: TcpListener,
    table: TableForm,
    base: Version,
    folder: tempfile::TempDir,
    generation: u64,
    versions: u32,
    chance: fastrand::Rng,
}

impl Stand {
    pub async fn new(way: Way, limits: Limits, base: Behaviour, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = Version::start("v0".to_owned(), base, Place::Here, folder.path()).await;
        let (at, chance) = (free_address(), fastrand::Rng::with_seed(seed));
        let listener = bind(at).await;
        let proxy = Proxy::start(THREADS, limits.clone()).unwrap();
        proxy.listen(&listener).unwrap();
        let table = TableForm { format: 1, epoch: 0, generation: 0, services: Vec::new() };
        let mut stand = Self {
            at,
            proxy,
            counts: Counts::default(),
            kills: 0,
            upgrades: 0,
            way,
            limits,
            listener,
            table,
            base,
            folder,
            generation: 0,
            versions: 0,
            chance,
        };
        stand.put(None, 0, "before").await;
        stand
    }

    /// What was counted until now, of all versions.
    pub async fn counted(&mut self) -> Counted {
        self.counts.gather(&self.proxy).await;
        self.counts.all()
    }

    pub fn base(&self) -> &Version {
        &self.base
    }

    /// Where the versions write.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Leads a release to its end.
    pub async fn release(&mut self, release: &Release) {
        let mut canary = self.canary(release.canary).await;
        for (stage, &share) in release.shares.iter().enumerate() {
            self.put(Some(&canary), share, &format!("{}.{stage}", canary.name)).await;
            let whole = self.stage();
            if release.abort_at == Some(stage) {
                self.spend(whole / 2, &mut canary).await;
                break;
            }
            self.spend(whole, &mut canary).await;
        }
        let leaves = if release.canary.is_well() && release.abort_at.is_none() {
            self.put(Some(&canary), 10_000, &format!("{}.all", canary.name)).await;
            std::mem::replace(&mut self.base, canary)
        } else {
            self.put(Some(&canary), 0, &format!("{}.back", canary.name)).await;
            canary
        };
        self.put(None, 0, &format!("{}.over", self.base.name)).await;
        self.dismiss(leaves).await;
    }

    /// Starts a further version, which gets no calls yet.
    pub async fn canary(&mut self, behaviour: Behaviour) -> Version {
        self.versions += 1;
        let place = match (behaviour, self.versions % 2) {
            (Behaviour::Crashing, 0) => Place::ApartOnTcp,
            (Behaviour::Crashing, _) => Place::ApartOnSocket,
            _ => Place::Here,
        };
        Version::start(format!("v{}", self.versions), behaviour, place, self.folder.path()).await
    }

    /// Puts the shares of the canary in force.
    pub async fn put(&mut self, canary: Option<&Version>, share: u16, split: &str) {
        self.generation += 1;
        let variations: Vec<_> = std::iter::once(&self.base)
            .chain(canary)
            .map(|version| serde_json::json!({"name": version.name, "targets": [version.target()]}))
            .collect();
        let shares = if canary.is_some() { vec![10_000 - share, share] } else { vec![10_000] };
        let service =
            serde_json::json!({"name": "a", "variations": variations, "shares": shares, "split": split});
        let table = serde_json::json!({"generation": self.generation, "services": [service]});
        let mut table: TableForm = serde_json::from_value(table).unwrap();
        if self.way.fault == Some(Fault::BindsAnew) {
            self.bind_anew().await;
        }
        let retry = self.way.retry.map(|retry| serde_json::from_value(retry.into()).unwrap());
        table.services[0].retry = retry;
        self.proxy.apply(&table).await.unwrap();
        self.table = table;
    }

    /// Another proxy takes over the listening socket. The one before ends each connection with an answer that says so.
    async fn upgrade(&mut self) {
        let next = Proxy::start(THREADS, self.limits.clone()).unwrap();
        next.apply(&self.table).await.unwrap();
        next.listen(&self.listener).unwrap();
        let before = std::mem::replace(&mut self.proxy, next);
        assert_eq!(before.drain(LONGEST_DRAIN).await, 0);
        self.counts.gather(&before).await;
        self.counts.begin_another();
        self.upgrades += 1;
    }

    /// What an upgrade must not be.
    async fn bind_anew(&mut self) {
        self.counts.gather(&self.proxy).await;
        self.counts.begin_another();
        self.proxy.drain(Duration::ZERO).await;
        // Nobody holds the socket any more once this one is replaced.
        self.listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.listener = bind(self.at).await;
        self.proxy = Proxy::start(THREADS, self.limits.clone()).unwrap();
        self.proxy.listen(&self.listener).unwrap();
    }

    /// Short stages are as likely as long ones.
    fn stage(&mut self) -> Duration {
        let times = self.way.longest_stage.as_secs_f64() / self.way.shortest_stage.as_secs_f64();
        self.way.shortest_stage.mul_f64(times.powf(self.chance.f64()))
    }

    /// Lets a time pass, in which a canary that crashes does so again and again.
    async fn spend(&mut self, time: Duration, canary: &mut Version) {
        let until = Instant::now() + time;
        if self.way.upgrades && self.chance.u8(..STAGES_TO_AN_UPGRADE) == 0 {
            self.upgrade().await;
        }
        if canary.is_apart() {
            loop {
                let next = Instant::now() + Duration::from_millis(self.chance.u64(20..120));
                if next >= until {
                    break;
                }
                tokio::time::sleep_until(next).await;
                canary.kill_and_restart().await;
                self.kills += 1;
            }
        }
        sleep(until.saturating_duration_since(Instant::now())).await;
    }

    /// Stops a version that the table names no more.
    async fn dismiss(&mut self, mut leaves: Version) {
        if self.way.fault != Some(Fault::StopsBeforeDrained) {
            let is_leaving = || self.proxy.leaving().iter().any(|one| one.version.name() == leaves.name);
            wait_until("a version is drained", async || !is_leaving()).await;
        }
        leaves.stop();
    }
}

/// Listens at an address as soon as that is free.
async fn bind(at: SocketAddr) -> TcpListener {
    let mut listener = None;
    wait_until("the address is free", async || {
        listener = TcpListener::bind(at).ok();
        listener.is_some()
    })
    .await;
    listener.unwrap()
}
