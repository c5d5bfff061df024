//! Versions that somebody else starts and stops: an address of the operator's is told to, and asked what is there.
//!
//! Each call is a `POST` to one address, with these fields:
//!
//! ```text
//! Content-Type: application/json
//! Idempotency-Key: 32 hexadecimal digits; a repeat of a call has the same
//! X-Choirmaster-Timestamp: seconds since 1970
//! X-Choirmaster-Signature: v1=HMAC-SHA256 of "TIMESTAMP.BODY" by the shared secret, in hexadecimal digits
//! ```
//!
//! Whoever is called checks the signature over the bytes that came, in constant time, refuses what is older than five minutes,
//! and answers a key that it has seen as it did before. What is asked:
//!
//! ```text
//! {"do":"start","generation":7,"agent":"edge-1","version":"9f…","runner":"python","folder":"/srv/9f…","zip":"UEsD…",
//!  "environment":{"A":"b"},"limits":{"memory":536870912,…},"health":{"path":"/ready","give_up_ms":30000}}
//! {"do":"stop","generation":8,"agent":"edge-1","version":"9f…","grace_ms":10000}
//! {"do":"list","generation":8,"agent":"edge-1"}
//! ```
//!
//! `start` and `stop` are answered with 2xx once they were understood, and done then or later. An error that a repeat can't help
//! is 4xx with a text; 408, 429 and 5xx are repeated, as is what wasn't answered. What was answered is believed of neither: it
//! counts as done when `list` says so, and a version that is said to run is called besides. `list` is answered with all versions
//! of this agent, and the highest generation that was taken in:
//!
//! ```text
//! {"generation":8,"versions":[{"version":"9f…","runner":"python","target":"10.0.0.7:9000","phase":"runs","pid":4711,
//!   "restarts":1,"last_exit":{"code":3},"log":"the end of its log"}]}
//! ```
//!
//! `phase` is `starts`, `runs`, `pauses` (it ended, and will be started again), `stops` or `failed` (it won't; `why` and
//! `last_exit` say why not, until it is stopped or started again). A target is an address with a port, and a path where it is below one.
//! `pid`, `restarts`, `last_exit`, `log` and `why` may be left out.
//!
//! **The generation grows with each `start` and `stop`**, also over restarts of the agent. Of two that concern one version the
//! higher one holds, whichever comes first: whoever is called refuses the lower one with 409. A list of a lower one than was asked
//! for is of a time before, and read again.
//!
//! Answers may lie, hang and be huge: each has a limit of time and bytes, a list that contradicts itself is refused whole, and no
//! redirect is followed. Without TLS only addresses of this machine are called.

mod call;
mod form;
mod secret;
mod state;

use std::{path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Url;
use router::remote;
use tokio::time::{Instant, sleep};

use self::{
    call::Caller,
    form::{Ask, Entry, EntryPhase, HealthForm, Listed},
    state::State,
};
use super::{
    Answer, Exit, Fault, Order, Running, Runtime, RuntimeError, VersionId,
    check::{self, Checked, Checks},
    error::Tail,
    pack,
    version_locks::VersionLocks,
};

pub use self::secret::Secret;

/// The first pause before a call is repeated or a list read again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Whom to call, and as whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://…`, or `http://` with an address of this machine.
    pub url: String,
    /// What signs calls: at least 16 bytes, which nobody else knows.
    pub secret: Secret,
    /// What this agent is called there: 1 to 64 of `A-Z a-z 0-9 . _ -`. Others may be called by the same address.
    pub agent: String,
    /// Where the generation is kept; no other agent has this folder.
    pub folder: PathBuf,
    /// The content goes along with a `start`, as a zip. Without it, `folder` has to be within reach of whoever is called, or the
    /// digest has to suffice.
    pub sends_content: bool,
    /// The forms of functions that are run there, which nobody asks.
    pub runners: Vec<String>,
    /// How long one call may take.
    pub time_limit: Duration,
}

/// Runs versions by calls of somebody else.
#[derive(Debug)]
pub struct Webhook {
    caller: Caller,
    runners: Vec<&'static str>,
    sends_content: bool,
    state: State,
    turns: VersionLocks,
}

impl Webhook {
    /// Nothing is called yet. Each runner's name is kept for as long as the process lives.
    pub fn open(settings: Settings) -> Result<Self, RuntimeError> {
        let Settings { url, secret, agent, folder, sends_content, mut runners, time_limit } = settings;
        let setting = |name, why: &str| Fault::Setting { name, why: why.to_owned() };
        let parsed = Url::parse(&url)
            .map_err(|error| Fault::Setting { name: "webhook.url", why: error.to_string() })?;
        if !remote::may_be_called(&parsed) {
            return Err(
                setting("webhook.url", "only an address of this machine is called without https").into()
            );
        }
        if !form::is_name(&agent) {
            return Err(setting("webhook.agent", "it is not 1 to 64 of A-Z a-z 0-9 . _ -").into());
        }
        if !runners.iter().all(|runner| form::is_name(runner)) {
            return Err(setting("webhook.runners", "a form has 1 to 64 of A-Z a-z 0-9 . _ -").into());
        }
        if !secret.is_long_enough() {
            return Err(setting("webhook.secret_file", "it has less than 16 bytes").into());
        }
        runners.sort_unstable();
        runners.dedup();
        Ok(Self {
            state: State::open(&folder)?,
            caller: Caller { url: parsed, secret, agent, time_limit, http: Fault::tls(remote::client())? },
            runners: runners.into_iter().map(|runner| &*runner.leak()).collect(),
            sends_content,
            turns: VersionLocks::default(),
        })
    }

    /// What is there, as of this generation or a later one.
    async fn listed(&self, generation: u64, until: Instant) -> Result<Vec<Entry>, Fault> {
        let mut pause = FIRST_PAUSE;
        loop {
            let Listed { generation: taken, versions } = self.caller.list(generation, until).await?;
            if taken >= generation {
                return Ok(versions);
            }
            if Instant::now() >= until {
                let why =
                    format!("it lists what was there at generation {taken}, and {generation} is awaited");
                return Err(self.caller.lied(why));
            }
            sleep(take(&mut pause)).await;
        }
    }

    async fn entry(
        &self,
        version: &VersionId,
        generation: u64,
        until: Instant,
    ) -> Result<Option<Entry>, Fault> {
        let all = self.listed(generation, until).await?;
        Ok(all.into_iter().find(|entry| entry.version == *version))
    }

    async fn start_version(&self, order: &Order) -> Result<Running, Fault> {
        let _turn = self.turns.of(order.version.as_str()).lock_owned().await;
        let until = Instant::now() + order.health.give_up;
        let generation = self.state.generation();
        let before = self.entry(&order.version, generation, until).await?;
        let was_there = before.as_ref().is_some_and(|entry| entry.phase.is_alive());
        let restarts = before.map_or(0, |entry| entry.restarts);
        let generation = if was_there { generation } else { self.tell_start(order, until).await? };
        let started = self.make_ready(order, generation, (was_there, restarts), until).await;
        if started.is_err() && !was_there {
            self.end(&order.version, SHORT_GRACE).await?;
        }
        started
    }

    async fn tell_start(&self, order: &Order, until: Instant) -> Result<u64, Fault> {
        let zip = if self.sends_content {
            let (folder, room) = (order.folder.clone(), order.limits.room);
            let packed = tokio::task::spawn_blocking(move || pack::pack(&folder, room)).await;
            Some(STANDARD.encode(packed.map_err(|error| self.caller.refused(error.to_string()))??))
        } else {
            None
        };
        // Whoever is called works in another folder.
        let folder = std::path::absolute(&order.folder).map_err(Fault::io("finding its folder"))?;
        let generation = self.state.next()?;
        let ask = Ask::Start {
            version: &order.version,
            runner: order.runner.as_deref(),
            folder: &folder,
            zip,
            environment: &order.environment,
            limits: &order.limits,
            health: HealthForm {
                path: order.health.path.as_deref(),
                give_up_ms: u64::try_from(order.health.give_up.as_millis()).unwrap_or(u64::MAX),
            },
        };
        self.caller.tell(&ask, generation, until).await?;
        Ok(generation)
    }

    /// Waits until the version is listed with a target, answers there, and is warm.
    async fn make_ready(
        &self,
        order: &Order,
        generation: u64,
        (was_there, restarts): (bool, u64),
        until: Instant,
    ) -> Result<Running, Fault> {
        let mut pause = FIRST_PAUSE;
        let entry = loop {
            let entry = self.entry(&order.version, generation, until).await?;
            let log = match entry {
                Some(entry) if entry.phase == EntryPhase::Runs => break entry,
                Some(entry) => {
                    ended(&entry, restarts, order)?;
                    entry.log
                }
                None => String::new(),
            };
            if Instant::now() >= until {
                let why = format!("{} doesn't list it as running", self.caller.name());
                return Err(Fault::NeverHealthy { after: order.health.give_up, why, log: Tail(log) });
            }
            sleep(take(&mut pause)).await;
        };
        self.until_healthy(order, &entry, generation, restarts).await?;
        if let Some(warm_up) = order.warm_up.as_ref().filter(|_| !was_there) {
            check::warm_up(&entry.target()?, warm_up).await;
            self.until_healthy(order, &entry, generation, restarts).await?;
        }
        let entry = self.entry(&order.version, generation, Instant::now() + self.caller.time_limit).await?;
        entry.ok_or_else(|| self.gone())?.running()
    }

    async fn until_healthy(
        &self,
        order: &Order,
        entry: &Entry,
        generation: u64,
        restarts: u64,
    ) -> Result<(), Fault> {
        let (target, mut checks) = (entry.target()?, Checks::new(&order.health));
        loop {
            let until = Instant::now() + self.caller.time_limit;
            let Some(entry) = self.entry(&order.version, generation, until).await? else {
                return Err(self.gone());
            };
            ended(&entry, restarts, order)?;
            match checks.next(&target).await {
                Checked::Healthy => return Ok(()),
                Checked::NotYet => {}
                Checked::GivenUp(why) => {
                    return Err(Fault::NeverHealthy {
                        after: order.health.give_up,
                        why,
                        log: Tail(entry.log),
                    });
                }
            }
        }
    }

    fn gone(&self) -> Fault {
        self.caller.lied("it listed the version, and doesn't any more".to_owned())
    }

    /// Has a version stopped, and waits until it isn't listed any more.
    async fn end(&self, version: &VersionId, grace: Duration) -> Result<(), Fault> {
        let until = Instant::now() + grace + 2 * self.caller.time_limit;
        if self.entry(version, self.state.generation(), until).await?.is_none() {
            return Ok(());
        }
        let generation = self.state.next()?;
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.caller.tell(&Ask::Stop { version, grace_ms }, generation, until).await?;
        let mut pause = FIRST_PAUSE;
        while self.entry(version, generation, until).await?.is_some() {
            if Instant::now() >= until {
                return Err(self.caller.lied("it was told to stop the version, and lists it".to_owned()));
            }
            sleep(take(&mut pause)).await;
        }
        Ok(())
    }

    async fn list_all(&self) -> Result<Vec<Running>, Fault> {
        let until = Instant::now() + 2 * self.caller.time_limit;
        let listed = self.listed(self.state.generation(), until).await?;
        let there = listed.iter().filter(|entry| entry.phase.is_alive() && entry.target.is_some());
        let mut running = there.map(Entry::running).collect::<Result<Vec<_>, _>>()?;
        running.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(running)
    }
}

/// How long a version that did not become healthy has to end.
const SHORT_GRACE: Duration = Duration::from_secs(1);

/// The pause, which is longer the next time.
fn take(pause: &mut Duration) -> Duration {
    let now = *pause;
    *pause = (now * 2).min(LONGEST_PAUSE);
    now.mul_f64(0.75 + fastrand::f64() / 2.0)
}

/// An error where a version ended by itself, or was given up.
fn ended(entry: &Entry, restarts: u64, order: &Order) -> Result<(), Fault> {
    let has_ended = entry.phase == EntryPhase::Pauses || entry.restarts > restarts;
    let log = Tail(entry.log.clone());
    match (&entry.last_exit, entry.phase) {
        (Some(exit), EntryPhase::Failed) => Err(Fault::DiedAtOnce { exit: exit.clone(), log }),
        (None, EntryPhase::Failed) => {
            Err(Fault::NeverHealthy { after: order.health.give_up, why: entry.why.clone(), log })
        }
        (exit, EntryPhase::Starts | EntryPhase::Runs | EntryPhase::Pauses | EntryPhase::Stops)
            if has_ended =>
        {
            let unknown = Exit { code: None, signal: None, because: None };
            Err(Fault::DiedAtOnce { exit: exit.clone().unwrap_or(unknown), log })
        }
        (_, EntryPhase::Starts | EntryPhase::Runs | EntryPhase::Pauses | EntryPhase::Stops) => Ok(()),
    }
}

impl Runtime for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn runners(&self) -> Vec<&'static str> {
        self.runners.clone()
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn start<'a>(&'a self, order: &'a Order) -> Answer<'a, Running> {
        Box::pin(async move { self.start_version(order).await.map_err(|fault| fault.of(&order.version)) })
    }

    fn list(&self) -> Answer<'_, Vec<Running>> {
        Box::pin(async move { Ok(self.list_all().await?) })
    }

    fn stop<'a>(&'a self, version: &'a VersionId, grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let _turn = self.turns.of(version.as_str()).lock_owned().await;
            self.end(version, grace).await.map_err(|fault| fault.of(version))
        })
    }

    fn log<'a>(&'a self, version: &'a VersionId, at_most: usize) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let until = Instant::now() + self.caller.time_limit;
            let entry = self.entry(version, self.state.generation(), until).await;
            let newest = |entry: Entry| {
                let log = entry.log.into_bytes();
                log[log.len().saturating_sub(at_most)..].to_vec()
            };
            entry.map(|entry| entry.map(newest)).map_err(|fault| fault.of(version))
        })
    }
}
