//! nginx as it comes in the system's packages, led through one include of ours and a folder of files; both are described in
//! [`config`].
//!
//! # What an operator sets up
//!
//! - `include /etc/nginx/choirmaster.conf;` within `http { … }` of the main configuration, and an empty file of that name. This
//!   program writes it, and three beside it: `.state` (what is to be restored), `.lock`, and `.before` while a change is under way.
//! - Where services have a path of a host (`hosts`, `path`) and none has the whole host: in the operator's own server of that host the line
//!   `include /etc/nginx/choirmaster/HOST-PORT.conf;` (`any-PORT.conf`: for whatever host). This program writes the file before it asks for that
//!   line, and never removes one, since somebody includes it. Headers that the server adds don't hold in what it includes. A host of which a
//!   service has the whole gets a server of ours, which may share its port with servers of the operator's if one of these is the port's
//!   `default_server`. The include above stands before all of them.
//! - For services of TCP and UDP its stream module, and `include /etc/nginx/choirmaster.conf.stream;` within `stream { … }` of the main
//!   configuration, with an empty file of that name. It takes nginx 1.21.4 or newer. This program writes the file next to the include.
//! - For services of HTTPS a certificate and its key, or one for each host.
//! - A folder on a memory file system, which this program makes; nginx's workers must be able to read it.
//! - The rights of whoever starts nginx: its check opens the logs and certificates of the configuration, and its process is sent
//!   a signal, unless a command has it load.
//! - Of nginx's `limit_conn` within `http { … }` and `stream { … }` nothing holds for services of ours: they have one of their own, which limits
//!   nothing and counts the calls of each variation that go on, so that the end of a drain is seen. It takes nginx 1.17.6 or newer.
//! - Where calls are counted, nothing but the log format of ours is written for services of ours: an `access_log` of the operator's for
//!   all servers isn't theirs any more. See [`crate::measure`].
//! - `worker_shutdown_timeout` in the main configuration: else a worker that still has a long connection stays for as long as that
//!   lasts after a configuration was loaded anew, and goes by the one before. Where TCP is led it is to be as long as connections of TCP may
//!   last, or left out: each change of their shares is a reload, after which it cuts those that last for so long. [`Operations::check`] warns.
//!   Each reload leaves as many processes behind as there are workers with such connections.
//!
//! # How a wanted state gets there
//!
//! Shares of calls of HTTP are files that are made and removed: nginx isn't told. Everything else is the include, and the file of services of
//! TCP and UDP, whose shares stand in it. It is written, checked by
//! `nginx -t` with all that is the operator's, and loaded; then nginx is asked on new connections until only workers answer that
//! have it. What is refused is replaced by what was there before, on disk too. Ports that somebody else has are looked for before,
//! since `nginx -t` says nothing of them.
//!
//! A crash of the machine takes the memory with it: everybody gets the stable variation then, until [`Nginx::restore`] was called,
//! best before nginx starts.
//!
//! Files are written in place and not by a thread of their own: they are small, and whoever drops an answer knows that nothing of it
//! goes on.

mod adopt;
mod apply;
mod ask;
pub mod config;
mod files;
mod options;
mod parts;
mod process;
mod read;
mod state;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use self::options::Options;
use crate::nginx::config::{Layout, id_of};
use tokio::sync::{Mutex, MutexGuard};
use traffic::{RouterKind, desired::DesiredConfig, observed::ObservedConfig};

use crate::{
    Answer, Applied, Checked, Operations, Router, RouterError,
    disk::{self, Disk, Lock},
    measure::{Measure, Totals},
};

const NGINX: &str = "nginx";

/// Until it is asked once more whether no call goes on.
const ONCE_MORE: Duration = Duration::from_millis(50);

/// Where nginx is and what is ours of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `nginx`, or a path.
    pub program: PathBuf,
    /// The main configuration, which has the include.
    pub config: PathBuf,
    /// Our file of it.
    pub include: PathBuf,
    /// The file into which nginx writes the number of its process.
    pub pid: PathBuf,
    pub reload: Reload,
    /// The folder of buckets, and where services and our own server listen.
    pub layout: Layout,
    /// For one answer of nginx. Loading a configuration may take ten times as long.
    pub time_limit: Duration,
}

/// How nginx is had load its configuration anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// SIGHUP to its process.
    Signal,
    /// A command, without a shell, that ends with 0 once nginx was told.
    Command(Vec<String>),
}

/// Leads an nginx.
pub struct Nginx {
    settings: Settings,
    disk: Disk,
    /// One change at a time; with the lock since the first.
    leader: Mutex<Option<Lock>>,
    /// What the last change that this program carried out whole has folders hold. A state of another number looks into those alone that
    /// are to hold something else; the same number again, as a repair has it, looks into all.
    held: std::sync::Mutex<BTreeMap<String, state::Buckets>>,
    /// Counts its calls, and so has to know when which shares were in force.
    measure: Option<Arc<Measure>>,
}

impl fmt::Debug for Nginx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nginx").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Nginx {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::on(settings, Disk::default())
    }

    /// The same, whose steps pass this disk.
    #[must_use]
    pub fn on(settings: Settings, disk: Disk) -> Self {
        Self { settings, disk, leader: Mutex::default(), held: std::sync::Mutex::default(), measure: None }
    }

    /// Its calls are counted there, from the lines that it logs where [`Layout::log`] says.
    #[must_use]
    pub fn measured(self, measure: Arc<Measure>) -> Self {
        Self { measure: Some(measure), ..self }
    }

    async fn totals_now(&self) -> Result<Totals, RouterError> {
        if !self.settings.layout.log.as_ref().is_some_and(|log| log.is_alone) {
            return Ok(Totals::Untold);
        }
        let ended = self.door().open().await?.ended().await?;
        Ok(ended.map_or(Totals::Untold, |ended| Totals::Ended(BTreeMap::from([(0, ended)]))))
    }

    /// Of all its processes, also those that were replaced. A call that was just given to a variation may not be counted yet, so none
    /// is only believed twice.
    async fn connections_now(&self, service: &str, variation: &str) -> Result<Option<u64>, RouterError> {
        let (id, mut asking) = (id_of(service), self.door().open().await?);
        let left = self.connections_of(&mut asking, &id, variation).await?;
        if left != Some(0) {
            return Ok(left);
        }
        tokio::time::sleep(ONCE_MORE).await;
        self.connections_of(&mut asking, &id, variation).await
    }

    /// Of calls and sessions.
    async fn connections_of(
        &self,
        asking: &mut ask::Asking,
        id: &str,
        variation: &str,
    ) -> Result<Option<u64>, RouterError> {
        let calls = asking.flights(id, variation).await?;
        let sessions = self.sessions_of(id, variation).await?;
        Ok(calls.zip(sessions).map(|(calls, sessions)| calls + sessions))
    }

    /// Makes the files of all buckets anew as they were told last: after a crash of the machine, before nginx starts.
    ///
    /// # Errors
    ///
    /// Another process leads this nginx, or files can't be written.
    pub async fn restore(&self) -> Result<(), RouterError> {
        let _leader = self.lead().await?;
        let state = self.state()?;
        files::own(&self.disk, self.root())?;
        for (path, buckets) in &state.folders {
            let table = buckets.table().ok_or_else(|| self.spoiled_state())?;
            files::make_so(&self.disk, &self.root().join(path), &table, &buckets.asked).await?;
        }
        match state.newest() {
            Some(number) => files::write_number(&self.disk, self.root(), number),
            None => Ok(()),
        }
    }

    /// Waits for its turn among those of this process, and takes the lock against all others.
    async fn lead(&self) -> Result<MutexGuard<'_, Option<Lock>>, RouterError> {
        let mut leader = self.leader.lock().await;
        if leader.is_none() {
            *leader = Some(Lock::take(disk::beside(&self.settings.include, "lock"))?);
        }
        Ok(leader)
    }

    fn root(&self) -> &Path {
        Path::new(self.settings.layout.folder())
    }

    fn before(&self) -> PathBuf {
        disk::beside(&self.settings.include, "before")
    }

    /// The folder of what servers of the operator's include.
    fn parts(&self) -> PathBuf {
        let include = &self.settings.include;
        include.with_extension(if include.extension().is_some() { "" } else { "d" })
    }

    fn state_file(&self) -> PathBuf {
        disk::beside(&self.settings.include, "state")
    }

    fn state(&self) -> Result<state::State, RouterError> {
        state::State::read(&self.state_file())
    }

    fn spoiled_state(&self) -> RouterError {
        disk::at(&self.state_file())(std::io::Error::other("it holds no table of buckets"))
    }

    fn door(&self) -> ask::Door {
        ask::Door { at: self.settings.layout.ask, time_limit: self.settings.time_limit }
    }

    async fn check_now(&self, config: Option<&Path>) -> Result<Checked, RouterError> {
        let config = config.unwrap_or(&self.settings.config);
        let refused = self.refused(config).await?;
        let warnings = if refused.is_none() { self.stream_warnings(config).await? } else { Vec::new() };
        Ok(Checked { refused, left_over: self.left_over(&self.state()?)?, warnings })
    }

    /// Why a configuration isn't to be loaded; none: nginx takes it, and calls come to what is ours of it.
    async fn refused(&self, config: &Path) -> Result<Option<String>, RouterError> {
        match process::examine(&self.settings, config, &self.disk).await? {
            Some(said) => Ok(Some(said)),
            None => self.unserved(config).await,
        }
    }

    fn left_over(&self, state: &state::State) -> Result<Vec<String>, RouterError> {
        let paths = files::left_over(self.root(), state)?;
        Ok(paths.iter().map(|path| path.display().to_string()).collect())
    }
}

/// An include as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Include {
    header: crate::nginx::config::Header,
    text: String,
}

impl Include {
    /// None where there is no such file, or none of ours.
    fn read(path: &Path) -> Result<Option<Self>, RouterError> {
        let text = disk::read(path)?.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.and_then(|text| Some(Self { header: crate::nginx::config::header(&text)?, text })))
    }
}

impl Operations for Nginx {
    fn kind(&self) -> RouterKind {
        RouterKind::Nginx
    }

    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked> {
        Box::pin(self.check_now(config))
    }

    fn reload(&self) -> Answer<'_, ()> {
        Box::pin(self.reload_now())
    }

    fn adopt<'a>(&'a self, service: &'a str) -> Answer<'a, String> {
        Box::pin(self.adopt_now(service))
    }
}

impl Router for Nginx {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(self.apply_now(wanted))
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(self.read_now())
    }

    /// In steps: at least so many. Of sessions of TCP and UDP it is told whether there are any.
    fn connections<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(self.connections_now(service, variation))
    }

    fn totals(&self) -> Answer<'_, Totals> {
        Box::pin(self.totals_now())
    }
}
