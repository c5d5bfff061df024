//! Versions as functions of [tinyFaaS](https://github.com/OpenFogStack/tinyFaaS), a name each.
//!
//! tinyFaaS builds a container of what it is given and calls functions by name at one port, below a path: `:8000/NAME`. How it
//! differs from what else runs versions, and what follows:
//!
//! - **An update stops the old containers before the new ones are built**, so calls are lost. Here nothing is updated: each
//!   version has a name of its own, two names are there during a release, and the proxy moves the calls.
//! - **It answers 200 whatever the function answered**, without the function's fields. So an error of a function can't be told
//!   by its status, neither by callers nor by the proxy: conditions on errors and `retry: failed` see only functions that aren't
//!   there (404) or don't answer (500). Times are measured as anywhere.
//! - **All methods and queries are the same to it, and there is nothing below a name**: `/NAME/more` is 404. A health path is
//!   not called for this reason: a version is healthy once tinyFaaS says so, which has asked it itself.
//! - **A container that ended is not started again**, and that it ended is not told: its calls are answered with 500.
//! - **It has no limits** of memory, processes, room or logs. Those of an order don't hold, but for the room of the content.
//! - **Who is asked to end has a second**, whatever the grace.
//! - **A name whose start failed stays in its list** until tinyFaaS is started anew, though nothing of it is there, and can't be
//!   used again. A further start takes a further name.
//! - An upload goes on when its caller is gone. What comes of it is found by `list`; and a version that is there already when it
//!   is started gets one call, a GET without a body, since nothing else says whether its start came to its end.
//!
//! Names are `[A-Za-z0-9]+`. Those of an agent begin with its prefix ([`Settings::prefix`]), and say form and digest; all others
//! are somebody else's and never touched. So no folder is needed to find versions again.

mod api;
mod name;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use proxy::live::Target;
use router::remote;
use tokio::time::{Instant, sleep, timeout};

use self::{
    api::{Api, Upload},
    name::Name,
};
use super::{
    Answer, Fault, Order, Phase, Running, Runtime, RuntimeError, VersionId, check, pack,
    version_locks::{VersionLock, VersionLocks},
};

pub use self::name::Form;

/// Where tinyFaaS is, and what is this agent's in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is managed: `127.0.0.1:8080`.
    pub management: SocketAddr,
    /// Where it takes calls over HTTP: `127.0.0.1:8000`.
    pub calls: SocketAddr,
    /// What names of this agent's versions begin with: 1 to 16 of `a-z0-9`, a letter first. Agents that share one tinyFaaS have
    /// one each.
    pub prefix: String,
    /// Containers of a version, which tinyFaaS calls threads.
    pub threads: u16,
    /// The forms of functions that it runs, which it doesn't tell.
    pub forms: Vec<Form>,
    /// How long it may take to build and start a version, and to end one. It takes as long as what is built needs.
    pub time_limit: Duration,
}

impl Settings {
    /// As tinyFaaS is when it runs on this machine and nobody changed it.
    #[must_use]
    pub fn here() -> Self {
        Self {
            management: SocketAddr::from(([127, 0, 0, 1], 8080)),
            calls: SocketAddr::from(([127, 0, 0, 1], 8000)),
            prefix: "choirmaster".to_owned(),
            threads: 1,
            forms: vec![Form::Binary, Form::Nodejs, Form::Python],
            time_limit: Duration::from_mins(5),
        }
    }
}

/// Between two calls of a version that doesn't answer yet.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Runs versions by tinyFaaS.
#[derive(Debug)]
pub struct TinyFaas {
    settings: Settings,
    api: Api,
    turns: VersionLocks,
    /// Names of which the log said that nothing but the name is there.
    told: Mutex<HashSet<String>>,
}

impl TinyFaas {
    /// Nothing is called yet: tinyFaaS may come later.
    pub fn open(mut settings: Settings) -> Result<Self, RuntimeError> {
        if !name::is_prefix(&settings.prefix) {
            let why = format!("{:?} is not 1 to 16 of a-z and 0-9, a letter first", settings.prefix);
            return Err(Fault::Setting { name: "tinyfaas.prefix", why }.into());
        }
        if settings.threads == 0 {
            return Err(
                Fault::Setting { name: "tinyfaas.threads", why: "a version needs one".to_owned() }.into()
            );
        }
        settings.forms.sort_unstable();
        settings.forms.dedup();
        let api = Api {
            at: settings.management,
            time_limit: settings.time_limit,
            http: Fault::tls(remote::client())?,
        };
        Ok(Self { settings, api, turns: VersionLocks::default(), told: Mutex::default() })
    }

    /// The names of this agent that are listed, in order.
    async fn listed(&self) -> Result<Vec<Name>, Fault> {
        let names = self.api.names().await?;
        let mut ours: Vec<_> =
            names.iter().filter_map(|name| Name::read(&self.settings.prefix, name)).collect();
        ours.sort_by(|a, b| (&a.version, a.attempt).cmp(&(&b.version, b.attempt)));
        Ok(ours)
    }

    /// Whether anything but its name is there.
    async fn is_there(&self, name: &Name) -> Result<bool, Fault> {
        let written = name.write(&self.settings.prefix);
        let is_there = self.api.is_there(&written).await?;
        if !is_there && self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(written.clone()) {
            tracing::warn!(
                name = written,
                "tinyFaaS lists a name of which nothing is there; it forgets it when it is started anew"
            );
        }
        Ok(is_there)
    }

    fn running(&self, name: &Name) -> Running {
        let path = format!("/{}", name.write(&self.settings.prefix)).into();
        Running {
            version: name.version.clone(),
            runner: name.form.name().to_owned(),
            target: Target::Below { address: self.settings.calls, path },
            phase: Phase::Runs,
            pid: None,
            restarts: 0,
            last_exit: None,
        }
    }

    async fn start_version(&self, order: &Order) -> Result<Running, Fault> {
        let turn = self.turns.of(order.version.as_str()).lock_owned().await;
        let mut attempt = 0;
        for name in self.listed().await?.into_iter().filter(|name| name.version == order.version) {
            if self.is_there(&name).await? {
                return self.found(order, &name).await;
            }
            attempt = name.attempt + 1;
        }
        let form = Form::of(order.runner.as_deref(), &order.folder, &self.settings.forms)?;
        let name = Name { form, version: order.version.clone(), attempt };
        let turn = self.upload(order, &name, turn).await?;
        let running = self.running(&name);
        if let Some(warm_up) = &order.warm_up {
            check::warm_up(&running.target, warm_up).await;
        }
        let is_listed = self.listed().await?.contains(&name);
        if is_listed && self.is_there(&name).await? {
            drop(turn);
            return Ok(running);
        }
        Err(Fault::Lied {
            by: format!("tinyFaaS at {}", self.api.at),
            why: format!("{} was uploaded and is not there", name.write(&self.settings.prefix)),
        })
    }

    /// A version that was there before. Whoever started it may have gone before that came to its end, and only a call says so.
    async fn found(&self, order: &Order, name: &Name) -> Result<Running, Fault> {
        let running = self.running(name);
        let until = Instant::now() + order.health.give_up;
        loop {
            let call = check::call(&running.target, "GET", "/", Bytes::new());
            let why = match timeout(order.health.timeout, call).await {
                Ok(Ok(status)) if status.is_success() => return Ok(running),
                Ok(Ok(status)) => format!("its call is answered with {status}"),
                Ok(Err(why)) => why,
                Err(_) => format!("no answer within {} ms", order.health.timeout.as_millis()),
            };
            if Instant::now() >= until {
                let log = self.api.tail(&name.write(&self.settings.prefix)).await;
                return Err(Fault::NotHealthy { after: order.health.give_up, why, log });
            }
            sleep(order.health.interval.max(SHORTEST_PAUSE)).await;
        }
    }

    /// Uploads a version and waits until tinyFaaS says that it answers. The turn goes along with the upload, which goes on when
    /// nobody waits for it any more.
    async fn upload(&self, order: &Order, name: &Name, turn: VersionLock) -> Result<VersionLock, Fault> {
        let written = name.write(&self.settings.prefix);
        let mut upload = Upload {
            name: written.clone(),
            env: name.form.env(),
            threads: self.settings.threads,
            zip: String::new(),
            envs: order.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        };
        upload.envs.push(format!("CHOIRMASTER_VERSION={}", order.version));
        let (folder, room) = (order.folder.clone(), order.limits.room);
        let packed = tokio::task::spawn_blocking(move || {
            pack::pack(&folder, room).map(|zip| {
                upload.set_zip(&zip);
                upload
            })
        });
        let upload = packed.await.map_err(|error| self.api.refused(error.to_string()))??;
        let api = Arc::new(self.api.clone());
        let mut uploading = tokio::spawn(async move { (api.upload(&upload).await, turn) });
        let begun = Instant::now();
        let in_time = timeout(order.health.give_up, &mut uploading).await;
        let (log, joined) = if let Ok(joined) = in_time {
            (None, joined)
        } else {
            let log = self.api.tail(&written).await;
            // What is being started can't be ended.
            (Some(log), uploading.await)
        };
        let (done, turn) = joined.map_err(|error| self.api.refused(error.to_string()))?;
        let why = match (&log, done) {
            (None, Ok(answer)) => match self.check_answer(&answer, &written) {
                Ok(()) => return Ok(turn),
                Err(fault) => {
                    self.end(&order.version).await?;
                    return Err(fault);
                }
            },
            (Some(_), Ok(_)) => "tinyFaaS was not done with it".to_owned(),
            (_, Err(fault)) => fault.to_string(),
        };
        let after = if log.is_some() { order.health.give_up } else { begun.elapsed() };
        let after = Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        let log = match log {
            Some(log) => log,
            None => self.api.tail(&written).await,
        };
        self.end(&order.version).await?;
        Err(Fault::NeverHealthy { after, why, log })
    }

    /// An upload is answered with a line a protocol: `http://:8000/NAME`, `coap://…`, `grpc://…`.
    fn check_answer(&self, answer: &str, name: &str) -> Result<(), Fault> {
        let by_http = answer.lines().find_map(|line| line.trim().strip_prefix("http://"));
        let Some((address, path)) = by_http.and_then(|rest| rest.split_once('/')) else {
            return Err(self.api.refused("it takes no calls over HTTP"));
        };
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.unwrap_or(80);
        if port != self.settings.calls.port() {
            let wanted = self.settings.calls;
            return Err(self
                .api
                .refused(format!("it takes calls at port {port}, and `calls` is set to {wanted}")));
        }
        if path != name {
            return Err(self.api.refused(format!("it calls {name} {path:?}")));
        }
        Ok(())
    }

    /// Ends all that there is of a version, and looks whether it is gone.
    async fn end(&self, version: &VersionId) -> Result<(), Fault> {
        let of_version = |names: Vec<Name>| names.into_iter().filter(|name| name.version == *version);
        let mut refused = None;
        for name in of_version(self.listed().await?) {
            if self.is_there(&name).await?
                && let Err(fault) = self.api.delete(&name.write(&self.settings.prefix)).await
            {
                refused = Some(fault);
            }
        }
        for name in of_version(self.listed().await?) {
            if self.is_there(&name).await? {
                let name = name.write(&self.settings.prefix);
                return Err(refused.unwrap_or_else(|| Fault::Lied {
                    by: format!("tinyFaaS at {}", self.api.at),
                    why: format!("{name} was deleted and is there"),
                }));
            }
        }
        Ok(())
    }

    async fn list_all(&self) -> Result<Vec<Running>, Fault> {
        let mut found: Vec<Running> = Vec::new();
        for name in self.listed().await? {
            let is_new = found.last().is_none_or(|last| last.version != name.version);
            if is_new && self.is_there(&name).await? {
                found.push(self.running(&name));
            }
        }
        Ok(found)
    }
}

impl Runtime for TinyFaas {
    fn name(&self) -> &'static str {
        "tinyfaas"
    }

    fn runners(&self) -> Vec<&'static str> {
        self.settings.forms.iter().map(|form| form.name()).collect()
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

    fn stop<'a>(&'a self, version: &'a VersionId, _grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let _turn = self.turns.of(version.as_str()).lock_owned().await;
            self.end(version).await.map_err(|fault| fault.of(version))
        })
    }

    fn log<'a>(&'a self, version: &'a VersionId, at_most: usize) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let of_version = |names: Vec<Name>| names.into_iter().find(|name| name.version == *version);
            match self.listed().await.map(of_version) {
                Ok(Some(name)) => Ok(self.api.log(&name.write(&self.settings.prefix), at_most).await),
                Ok(None) => Ok(None),
                Err(fault) => Err(fault.of(version)),
            }
        })
    }
}
