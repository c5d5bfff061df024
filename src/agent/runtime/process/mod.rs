//! Versions as processes of this machine, a shim beside each ([`shim`]).
//!
//! ```text
//! FOLDER/lock                 held by the agent
//! FOLDER/runs/DIGITS/         a version that runs; DIGITS are the first of its digest
//!   run.json                  what is run, and where it listens; its shim holds a lock on it for as long as it lives
//!   shim.sock                 its shim answers here
//!   fn.sock                   its function listens here, if it is of a form that needs no port
//!   content/ tmp/             a copy of its content, where it works; $TMPDIR
//!   runner.js | runner.py     what serves it
//!   log log.1 log.pipe        what it writes, and through what
//!   started.json              which process its function is
//! ```
//!
//! A folder is made under another name and gets its own at the end, so that each is whole. Whose lock is free has no shim: one whose
//! function runs gets another shim, which goes on with it; what is left of others is ended and taken away by whoever gets the lock.

mod ask;
pub mod cgroup;
mod clear;
mod content;
mod health;
mod listeners;
mod prepare;
mod run;
mod runner;
mod sandbox;
pub mod shim;
pub(crate) mod tree;

use std::{
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    pin::Pin,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use proxy::live::Target;
use tokio::{process::Command, task::JoinSet};

pub use self::runner::on_path;
use self::{
    cgroup::{CgroupKind, Cgroups, Hierarchies},
    health::SHORT_GRACE,
    prepare::Place,
    run::{Run, Spec},
    shim::Status,
};
pub(super) use self::{
    prepare::SEARCHED,
    sandbox::{Sandbox, SandboxedVersion, StartOptions},
};
use super::{
    Answer, Fault, Order, Phase, Running, Runtime, RuntimeError, VersionId, check,
    version_locks::{VersionLock, VersionLocks},
};
use crate::{lock::Lock, process_end::ProcessEnds};

/// The most bytes of a path to a socket, and what names one below the runtime's folder.
const SOCKET_PATH: usize = 107;
const BELOW: &str = "/runs/0123456789abcdef/shim.sock";
/// What a folder is called before it is whole.
const UNFINISHED: &str = ".new-";

/// Where versions run, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Holds all that runs. Nobody else has it, and its path has at most 75 bytes, because sockets lie in it.
    pub folder: PathBuf,
    /// The program of the shims, and what stands before their own arguments.
    pub shim: (PathBuf, Vec<String>),
    /// From the first to the last, the ports for functions that listen on one. They should lie outside of those that the machine
    /// gives to outgoing connections.
    pub ports: (u16, u16),
    /// What holds versions to their limits.
    pub cgroups: Cgroups,
}

impl Settings {
    /// Shims are this program.
    pub fn new(folder: PathBuf) -> io::Result<Self> {
        let shim = (std::env::current_exe()?, vec!["agent".to_owned(), "shim".to_owned()]);
        Ok(Self { folder, shim, ports: (20_000, 29_999), cgroups: Cgroups::Auto })
    }
}

/// Runs versions as processes, or in what the runtimes `oci` and `wasm` start as processes.
#[derive(Debug)]
pub struct ProcessRuntime {
    settings: Settings,
    runs: PathBuf,
    /// By the names of the runs' folders.
    turns: VersionLocks,
    /// One at a time chooses a port.
    choosing: Arc<Mutex<()>>,
    cgroups: Arc<Hierarchies>,
    sandbox: Option<Arc<dyn Sandbox>>,
    shims: ProcessEnds,
    _lock: Lock,
}

/// What came of the end of a version.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// The first digits of its digest.
    pub digits: String,
    pub ended: Result<(), Fault>,
}

impl ProcessRuntime {
    /// Takes the folder, and makes it where there is none.
    pub fn open(settings: Settings) -> Result<Self, RuntimeError> {
        Self::open_in(settings, None)
    }

    /// The same, with what each version runs in.
    pub(super) fn open_in(
        settings: Settings,
        sandbox: Option<Arc<dyn Sandbox>>,
    ) -> Result<Self, RuntimeError> {
        let folder = &settings.folder;
        if folder.as_os_str().as_bytes().len() + BELOW.len() > SOCKET_PATH {
            return Err(Fault::LongPath(folder.clone()).into());
        }
        let doing = |path: &Path| Fault::io(format!("opening {}", path.display()));
        let runs = folder.join("runs");
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&runs).map_err(doing(&runs))?;
        let runs = runs.canonicalize().map_err(doing(&runs))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).append(true).open(&path).map_err(doing(&path))?;
        let lock = Lock::take(lock).map_err(doing(&path))?.ok_or_else(|| Fault::Taken(folder.clone()))?;
        for (name, path) in folders(&runs).map_err(doing(&runs))? {
            if name.starts_with(UNFINISHED) {
                clear::remove(&path)?;
            }
        }
        let cgroups = Arc::new(Hierarchies::find(&settings.cgroups));
        let (turns, choosing, shims) = (VersionLocks::default(), Arc::default(), ProcessEnds::default());
        Ok(Self { settings, runs, turns, choosing, cgroups, sandbox, shims, _lock: lock })
    }

    /// What holds versions to their limits that are started now.
    #[must_use]
    pub fn limited_by(&self) -> CgroupKind {
        self.cgroups.kind()
    }

    /// Ends all that runs in the folder, whoever has started it.
    pub(crate) async fn end_all(&self, grace: Duration) -> Result<Vec<EndedRun>, RuntimeError> {
        let doing = Fault::io(format!("reading {}", self.runs.display()));
        let mut ending = JoinSet::new();
        for (digits, path) in folders(&self.runs).map_err(doing)? {
            ending.spawn(async move {
                let ended = end(&Run::at(path), grace).await;
                EndedRun { digits, ended }
            });
        }
        let mut ended = ending.join_all().await;
        ended.sort_by(|one, other| one.digits.cmp(&other.digits));
        Ok(ended)
    }

    fn run_of(&self, version: &VersionId) -> Run {
        Run::at(self.runs.join(version.short()))
    }

    async fn start_version(&self, order: &Order) -> Result<Running, Fault> {
        let mut turn = self.turns.of(order.version.short()).lock_owned().await;
        let run = self.run_of(&order.version);
        let was_there = self.is_watched(&run).await?;
        if !was_there {
            turn = self.make(order, &run, turn).await?;
            if let Err(fault) = self.start_shim(&run).await {
                end(&run, SHORT_GRACE).await?;
                return Err(fault);
            }
        }
        let spec = spec_of(&run)?;
        if spec.version != order.version {
            return Err(Fault::Same(spec.version));
        }
        match make_ready(&run, &spec, order, was_there).await {
            Ok(status) => {
                drop(turn);
                self.shims.watch(status.shim);
                running(&spec, Some(&status))
            }
            Err(fault) => {
                if !was_there {
                    end(&run, SHORT_GRACE).await?;
                }
                Err(fault)
            }
        }
    }

    /// Makes the folder of a run. The turn goes along, so that who drops the answer lets nobody in before the folder is made.
    async fn make(&self, order: &Order, run: &Run, turn: VersionLock) -> Result<VersionLock, Fault> {
        let (order, run) = (order.clone(), run.clone());
        let made = self.runs.join(format!("{UNFINISHED}{}", order.version.short()));
        let (shim, ports) = (self.settings.shim.1.clone(), self.settings.ports);
        let (choosing, cgroups) = (Arc::clone(&self.choosing), Arc::clone(&self.cgroups));
        let sandbox = self.sandbox.clone();
        blocking(move || {
            let sandbox = sandbox.as_deref();
            let place = Place { made, run: &run, shim: &shim, ports, cgroups: &cgroups, sandbox };
            clear::remove(&place.made)?;
            let done = prepare::prepare(&order, &place).and_then(|runner| {
                let _choosing = choosing.lock().unwrap_or_else(PoisonError::into_inner);
                prepare::name(&order, runner, &place)
            });
            if done.is_err() {
                clear::remove(&place.made)?;
            }
            done.map(|()| turn)
        })
        .await
    }

    async fn start_shim(&self, run: &Run) -> Result<(), Fault> {
        let (program, arguments) = &self.settings.shim;
        let started = Command::new(program)
            .args(arguments)
            .arg("start")
            .arg(run.folder())
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(Fault::io(format!("calling {}", program.display())))?;
        if started.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&started.stderr).trim().to_owned();
        Err(Fault::NoShim(if said.is_empty() { started.status.to_string() } else { said }))
    }

    /// Whether a shim watches a run, once a function that outlived its shim got another one, and what is left of other runs is taken away.
    async fn is_watched(&self, run: &Run) -> Result<bool, Fault> {
        if run.take().is_ok_and(|held| held.is_some()) && run.outlived().is_some() {
            tracing::warn!(run = %run.folder().display(), "a shim is gone, and another one goes on with its function");
            match self.start_shim(run).await {
                Err(error) if run.outlived().is_some() => {
                    tracing::error!(run = %run.folder().display(), %error, "a function has no shim; tried again");
                    return Ok(true);
                }
                Ok(()) | Err(_) => {}
            }
        }
        clear_unwatched(run).await?;
        Ok(run.folder().exists())
    }

    /// What a run is doing; `None` where there is nothing to list.
    async fn look(&self, run: &Run, has_turn: bool) -> Result<Option<Running>, Fault> {
        if has_turn && !self.is_watched(run).await? {
            return Ok(None);
        }
        match ask::status(run).await {
            Ok(status) => {
                self.shims.watch(status.shim);
                running(&spec_of(run)?, Some(&status)).map(Some)
            }
            Err(_) if !has_turn => Ok(None),
            Err(_) => running(&spec_of(run)?, None).map(Some),
        }
    }

    async fn list_all(&self) -> Result<Vec<Running>, Fault> {
        let doing = Fault::io(format!("reading {}", self.runs.display()));
        let mut found = Vec::new();
        for (name, path) in folders(&self.runs).map_err(doing)? {
            if name.starts_with(UNFINISHED) {
                continue;
            }
            let run = Run::at(path);
            // Who has the turn makes it or ends it: what is there of it is listed, and nothing is taken away.
            let turn = self.turns.of(&name).try_lock_owned();
            match self.look(&run, turn.is_ok()).await {
                Ok(one) => found.extend(one),
                Err(error) => {
                    tracing::warn!(run = %run.folder().display(), %error, "a version is neither listed nor taken away");
                }
            }
        }
        found.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(found)
    }
}

impl Runtime for ProcessRuntime {
    fn name(&self) -> &'static str {
        self.sandbox.as_ref().map_or("process", |sandbox| sandbox.runtime())
    }

    fn runners(&self) -> Vec<&'static str> {
        self.sandbox.as_ref().map_or_else(runner::here, |sandbox| sandbox.forms())
    }

    fn holds_cpu(&self) -> bool {
        self.limited_by() != CgroupKind::None
    }

    fn start<'a>(&'a self, order: &'a Order) -> Answer<'a, Running> {
        Box::pin(async move { self.start_version(order).await.map_err(|fault| fault.of(&order.version)) })
    }

    fn list(&self) -> Answer<'_, Vec<Running>> {
        Box::pin(async move { Ok(self.list_all().await?) })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shims.next())
    }

    fn stop<'a>(&'a self, version: &'a VersionId, grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let _turn = self.turns.of(version.short()).lock_owned().await;
            let run = self.run_of(version);
            // Another version with these digits is not the one that is meant.
            if run.spec().is_ok_and(|spec| spec.version != *version) {
                return Ok(());
            }
            end(&run, grace).await.map_err(|fault| fault.of(version))
        })
    }

    fn log<'a>(&'a self, version: &'a VersionId, at_most: usize) -> Answer<'a, Option<Vec<u8>>> {
        let run = self.run_of(version);
        Box::pin(async move {
            let reading = blocking(move || Ok(run.spec().is_ok().then(|| run.newest(at_most))));
            reading.await.map_err(|fault| fault.of(version))
        })
    }
}

/// The form of the function that a folder holds, by its files.
pub fn form_of(folder: &Path) -> Result<&'static str, Fault> {
    Ok(runner::Runner::of(None, folder)?.name())
}

/// Waits until a version answers, and makes its first calls.
async fn make_ready(run: &Run, spec: &Spec, order: &Order, was_there: bool) -> Result<Status, Fault> {
    let target = target_of(spec)?;
    let before = if was_there { ask::status(run).await?.restarts } else { 0 };
    let entry = spec.entry();
    let answers = || health::until_healthy(run, (&target, &entry), &order.health, before);
    let status = answers().await?;
    match &order.warm_up {
        Some(warm_up) if !was_there => {
            check::warm_up(&target, warm_up).await;
            answers().await
        }
        Some(_) | None => Ok(status),
    }
}

/// Takes away what is left of a run that nobody watches.
async fn clear_unwatched(run: &Run) -> Result<(), Fault> {
    match run.take() {
        Ok(None) => Ok(()),
        Ok(Some(held)) => {
            let run = run.clone();
            blocking(move || clear::clear(&run, held)).await
        }
        // It has no specification, or is none.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = run.folder().to_owned();
            blocking(move || clear::remove(&folder)).await
        }
        Err(error) => Err(Fault::io(format!("taking {}", run.folder().display()))(error)),
    }
}

/// Ends a run, whoever watches it, and takes it away.
async fn end(run: &Run, grace: Duration) -> Result<(), Fault> {
    clear_unwatched(run).await?;
    if run.folder().exists() {
        let held = ask::stop(run, grace).await?;
        let run = run.clone();
        let clear = move || match held {
            Some(held) => clear::clear(&run, held),
            None => clear::remove(run.folder()),
        };
        blocking(clear).await?;
    }
    Ok(())
}

fn running(spec: &Spec, status: Option<&Status>) -> Result<Running, Fault> {
    // The number alone may be that of another process by now.
    let pid = status.and_then(|status| status.pid.filter(|pid| tree::start_time(*pid) == status.started));
    Ok(Running {
        version: spec.version.clone(),
        runner: spec.runner.clone(),
        target: target_of(spec)?,
        phase: status.map_or(Phase::Silent, |status| status.phase),
        pid,
        restarts: status.map_or(0, |status| status.restarts),
        last_exit: status.and_then(|status| status.last_exit.clone()),
    })
}

fn target_of(spec: &Spec) -> Result<Target, Fault> {
    spec.target
        .parse()
        .map_err(|error| Fault::Io { doing: "its target".to_owned(), source: io::Error::other(error) })
}

fn spec_of(run: &Run) -> Result<Spec, Fault> {
    run.spec().map_err(Fault::io(format!("reading {}", run.spec_file().display())))
}

fn folders(runs: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(runs)?.collect::<io::Result<Vec<_>>>()?;
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    Ok(entries.into_iter().filter_map(named).collect())
}

/// What reads and writes many files is done beside.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Fault::Io { doing: "its folder".to_owned(), source: io::Error::other(error) }),
    }
}
