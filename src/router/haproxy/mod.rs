//! `HAProxy` as it comes in the system's packages, by a file beside the operator's, over its runtime socket, and by a signal to its
//! master. What it is told stands in [`config`].
//!
//! # What an operator sets up
//!
//! - `stats socket PATH level admin` in the operator's `global` section.
//! - The program in master-worker mode, with a file for the master's process id and best with a socket for it, and with our file as
//!   its last: `haproxy -W -p PID -S SOCKET -f haproxy.cfg -f choirmaster/choirmaster.cfg`. Without the master's socket connections
//!   of processes that were replaced aren't counted, a reload that fails is noticed by its time alone, and one that somebody else
//!   began may undo a change that was told in that second, which is seen when it is read back.
//!
//! # How a wanted state gets there
//!
//! A change of shares is written to the maps' files and then told to the process
//! that serves, so that one that is started anew in between has it from there. All else is a new file, which takes the place of the
//! one in force once `HAProxy`'s own check takes it and its ports are free; if no process comes up with it, the one before is put
//! back, and the process that was there goes on serving all the while.
//!
//! In the folder: `choirmaster.cfg`; a folder of maps for it, and for the one before while that is being replaced; behind the name
//! of the file `.newest` (the newest number that was ever applied), `.lock`, and while a new one is being brought into force
//! `.candidate` and `.before`.

mod adopt;
mod apply;
pub mod config;
mod files;
mod options;
mod process;
mod program;
mod running;
mod runtime_socket;
mod settings;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use crate::haproxy::config::{
    SHOW_ENDED, SHOW_INFO, STATE, Structure, ended, info_of, strange_sections, structure_of,
};
use tokio::sync::Mutex;
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Name, Service},
    observed::ObservedConfig,
};

pub use self::options::Options;
pub use self::settings::{Limits, Reload, Settings};
use self::{
    files::Files,
    running::Running,
    runtime_socket::{Session, no_sense},
    settings::NAME,
};
use crate::{
    Answer, Applied, Checked, Operations, Router, RouterError,
    disk::{self, Disk, Lock},
    measure::{Measure, Totals},
};

/// One that is led.
#[derive(Debug)]
pub struct Haproxy {
    settings: Settings,
    files: Files,
    disk: Disk,
    /// Held by whoever is changing something; the right to, once it was taken, until this is dropped.
    turn: Mutex<Turn>,
    /// Counts its calls, and so has to know when which shares were in force.
    measure: Option<Arc<Measure>>,
}

#[derive(Debug, Default)]
struct Turn {
    lock: Option<Lock>,
    /// What is marked as ours and not taken away by a reload: for that it isn't done again.
    stays: Vec<String>,
    /// What the last change that this program carried out whole has a process do. A state of another number looks into the maps of those
    /// services alone that are to do something else; the same number again, as a repair has it, looks into all.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    pid: u32,
    structure: Structure,
    services: BTreeMap<Name, Service>,
}

impl Haproxy {
    /// Leads the one that has these settings. Makes its folder, with a file of ours that says nothing, where there is none: a
    /// router that is given the name of a missing file doesn't start.
    ///
    /// # Errors
    ///
    /// The folder or the file can't be made.
    pub fn open(settings: Settings) -> Result<Self, RouterError> {
        Self::open_on(settings, Disk::default())
    }

    /// The same with other means to change files.
    ///
    /// # Errors
    ///
    /// As [`Haproxy::open`].
    pub fn open_on(settings: Settings, disk: Disk) -> Result<Self, RouterError> {
        let files = Files { folder: settings.frame.folder.clone() };
        if disk::read(&files.folder.section())?.is_none() {
            disk.create_folder(files.folder.path())?;
            disk.replace(&files.folder.section(), b"# choirmaster\n")?;
        }
        Ok(Self { settings, files, disk, turn: Mutex::default(), measure: None })
    }

    /// Its calls are counted there, from the lines that it logs where [`crate::haproxy::config::Frame::log`] says.
    #[must_use]
    pub fn measured(self, measure: Arc<Measure>) -> Self {
        Self { measure: Some(measure), ..self }
    }

    /// Of the process that serves. What those count still that were replaced isn't known.
    async fn totals_now(&self) -> Result<Totals, RouterError> {
        let mut session = self.session().await?;
        let info = info_of(&session.ask(SHOW_INFO).await?).map_err(no_sense)?;
        let ended = ended(&session.ask(SHOW_ENDED).await?).map_err(no_sense)?;
        Ok(Totals::Ended(BTreeMap::from([(info.pid, ended)])))
    }

    async fn session(&self) -> Result<Session, RouterError> {
        Session::open(&self.settings.socket, self.settings.limits.answer).await
    }

    /// The operator's own files.
    fn main(&self) -> Vec<&Path> {
        self.settings.config.iter().map(AsRef::as_ref).collect()
    }

    /// What stands in them.
    fn main_text(&self) -> Result<String, RouterError> {
        let mut config = String::new();
        for path in self.main() {
            let bytes = disk::read(path)?.unwrap_or_default();
            config.push_str(&String::from_utf8_lossy(&bytes));
            config.push('\n');
        }
        Ok(config)
    }

    fn take_lock(&self, turn: &mut Turn) -> Result<(), RouterError> {
        if turn.lock.is_none() {
            turn.lock = Some(Lock::take(self.files.lock())?);
        }
        Ok(())
    }

    async fn read_now(&self) -> Result<ObservedConfig, RouterError> {
        let mut running = Running::find(self).await?;
        running.read_maps(self).await?;
        running.seen().await
    }

    async fn check_now(&self, config: Option<&Path>) -> Result<Checked, RouterError> {
        let main: Vec<&Path> = match config {
            Some(config) => vec![config],
            None => self.main(),
        };
        let section = self.files.folder.section();
        let refused = program::check(self, &main, &section).await?;
        let text = self.files.section()?.unwrap_or_default();
        let state = match structure_of(&text, &self.files.folder) {
            Some(structure) => disk::read(&Path::new(&self.files.folder.maps(&structure)).join(STATE))?,
            None => None,
        };
        let state = state.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let mut left_over = strange_sections(&text, &state);
        for config in main {
            if let Some(bytes) = disk::read(config)? {
                left_over.extend(strange_sections(&String::from_utf8_lossy(&bytes), ""));
            }
        }
        left_over.extend(self.files.left_over()?.iter().map(|path| path.display().to_string()));
        Ok(Checked { refused, left_over, warnings: Vec::new() })
    }

    async fn reload_now(&self) -> Result<(), RouterError> {
        let mut turn = self.turn.lock().await;
        self.take_lock(&mut turn)?;
        if let Some(said) = program::check(self, &self.main(), &self.files.folder.section()).await? {
            return Err(RouterError::Refused { router: NAME, said });
        }
        let running = Running::find(self).await?;
        let text = self.files.section()?.unwrap_or_default();
        process::reload(self, running.pid, structure_of(&text, &self.files.folder).as_ref()).await.map(drop)
    }
}

impl Operations for Haproxy {
    fn kind(&self) -> RouterKind {
        RouterKind::Haproxy
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

impl Router for Haproxy {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(self.apply_now(wanted))
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(self.read_now())
    }

    fn connections<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(process::connections(self, service, variation))
    }

    fn totals(&self) -> Answer<'_, Totals> {
        Box::pin(self.totals_now())
    }
}
