//! Traefik, by a file of its file provider or a call of its REST provider, and read back over its API. What it is told stands in
//! [`config`].
//!
//! # What an operator sets up
//!
//! - `providers.file.directory`, a folder that Traefik watches. This program puts one file there, `choirmaster.yml`.
//! - Beside that folder, on the same file system, one of ours: what is to come into it is written there first, because Traefik reads each
//!   file of its folder, hidden ones too, and one that isn't whole takes everything away that it said before.
//! - Or `providers.rest.insecure: true`, and nobody else who calls that: each call replaces all that was told so. What it was told it
//!   forgets when it is started anew; it is then told again.
//! - `api`, at an entry point that this machine alone reaches: `api.insecure: true` with `entryPoints.traefik.address: 127.0.0.1:8080`.
//! - An entry point for each port of a service.
//! - `metrics.prometheus: {}`, for calls to be counted.
//!
//! # How a wanted state gets there
//!
//! The file is written whole, renamed into the folder, and waited for: Traefik takes it within `providers.providersThrottleDuration` (2 s).
//! Where it goes by no part of it, the file that was there before is put back. What is in force already isn't written again, since each
//! change begins the round of calls anew. Nothing is loaded anew, and no connection ends.
//!
//! In our folder: `choirmaster.yml` while it is being written, or what it was told last by REST, `newest` (the newest number that was ever applied), `lock`.

mod adopt;
mod api;
pub mod config;
mod options;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::Url;
use tokio::time::{Instant, sleep};
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Number},
    observed::{ObservedConfig, differences},
};

pub use self::options::Options;
use self::{
    api::Api,
    config::{Provider, RawData, Unable, body_of, number_in, render},
};
use crate::{
    Answer, Applied, Checked, Operations, Router, RouterError,
    disk::{self, Disk},
    leadership::Leadership,
    measure::{Counters, Measure},
};

/// As errors name it.
const NAME: &str = "Traefik";

/// Our file.
const FILE: &str = "choirmaster.yml";

/// What it is told by REST where it is to do nothing: it passes over what has no section at all.
const NOTHING: &str = r#"{"http":{"routers":{}}}"#;

/// Until it is asked once more whether it has taken a file.
const ONCE_MORE: Duration = Duration::from_millis(50);
/// Its entry points are switched one after the other, in no order, and its API answers at one of them. So long the others may be behind.
const SETTLED: Duration = Duration::from_millis(50);

/// Where Traefik is, and what is ours of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of its file provider; none: it is told by its REST provider.
    pub folder: Option<PathBuf>,
    /// The folder of what isn't for it, on the same file system.
    pub own: PathBuf,
    /// Its API, with a slash at the end.
    pub api: Url,
    /// Its metrics; none: its calls aren't counted.
    pub metrics: Option<Url>,
    /// For one answer.
    pub time_limit: Duration,
    /// For a file that was put into its folder.
    pub load_within: Duration,
}

/// Leads a Traefik.
pub struct Traefik {
    settings: Settings,
    api: Api,
    leadership: Leadership,
    measure: Option<Arc<Measure>>,
}

impl fmt::Debug for Traefik {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traefik").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Traefik {
    /// Makes our own folder. Nothing else is done yet.
    ///
    /// # Errors
    ///
    /// It can't be made, or isn't where Traefik's folder is.
    pub fn open(settings: Settings) -> Result<Self, RouterError> {
        Self::open_on(settings, Disk::default())
    }

    /// The same, whose steps pass this disk.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_on(settings: Settings, disk: Disk) -> Result<Self, RouterError> {
        let provider = if settings.folder.is_some() { Provider::File } else { Provider::Rest };
        let api = Api::new(settings.api.clone(), provider, settings.time_limit)?;
        let leadership = Leadership::open(settings.own.clone(), disk)?;
        if let Some(folder) = &settings.folder {
            check_folders(folder, &settings.own)?;
        }
        Ok(Self { settings, api, leadership, measure: None })
    }

    /// The same, whose calls are counted.
    #[must_use]
    pub fn measured(self, measure: Arc<Measure>) -> Self {
        Self { measure: Some(measure), ..self }
    }

    /// Our file, in its folder or in ours.
    fn file(&self) -> PathBuf {
        self.settings.folder.as_ref().unwrap_or(&self.settings.own).join(FILE)
    }

    fn text(&self) -> Result<Option<String>, RouterError> {
        let bytes = disk::read(&self.file())?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// What it does that it was told by REST, which nobody else has told it something by; none where it goes by a file.
    async fn told_by_rest(&self) -> Result<Option<ObservedConfig>, RouterError> {
        if self.settings.folder.is_some() {
            return Ok(None);
        }
        let raw = self.api.raw().await?;
        if let Some(other) = raw.of_others().next() {
            let what =
                format!("somebody else has told it of {other} by REST, which would go by what is told now");
            return Err(RouterError::Unable { router: NAME, what });
        }
        Ok(Some(raw.observed()))
    }

    async fn apply_now(&self, wanted: &DesiredConfig) -> Result<Applied, RouterError> {
        let _leader = self.leadership.lead().await?;
        let asked = wanted.number;
        self.leadership.lead_by(asked)?;
        let applied = Applied { number: asked, was_reloaded: false };
        let (before, told) = (self.text()?, self.told_by_rest().await?);
        let has_nothing = before.is_none() && told.as_ref().is_none_or(|told| told.number.is_none());
        if wanted.services().is_empty() && has_nothing {
            return Ok(applied);
        }
        let entry_points = self.api.entry_points().await?;
        let unable = |unable: Unable| RouterError::Unable { router: NAME, what: unable.to_string() };
        let text = render(wanted, &entry_points).map_err(unable)?;
        if let Some(measure) = &self.measure {
            measure.changing(wanted);
        }
        let does = |told: &ObservedConfig| differences(wanted, told).is_empty();
        if before.as_ref() != Some(&text) || !told.as_ref().is_none_or(does) {
            self.put(&text).await?;
        }
        match self.taken(asked).await? {
            None => {
                if let Some(measure) = &self.measure {
                    measure.told(wanted);
                }
                Ok(applied)
            }
            Some(said) => {
                match before.filter(|before| number_in(before).is_some()) {
                    Some(before) => self.put(&before).await?,
                    None => self.take_away().await?,
                }
                Err(RouterError::Refused { router: NAME, said })
            }
        }
    }

    /// Tells it this: by our file in its folder, whole, or by REST.
    async fn put(&self, text: &str) -> Result<(), RouterError> {
        let draft = self.settings.own.join(FILE);
        self.leadership.disk().replace(&draft, text.as_bytes())?;
        if self.settings.folder.is_some() {
            return self.leadership.disk().rename(&draft, &self.file());
        }
        self.leadership.disk().step().map_err(disk::at(&draft))?;
        self.api.put(body_of(text)).await
    }

    /// Tells it nothing any more.
    async fn take_away(&self) -> Result<(), RouterError> {
        if self.settings.folder.is_none() {
            self.api.put(NOTHING).await?;
        }
        self.leadership.disk().remove(&self.file())
    }

    /// Waits until it goes by this state. Why it doesn't, where it has it and goes by no part of it.
    async fn taken(&self, asked: Number) -> Result<Option<String>, RouterError> {
        let until = Instant::now() + self.settings.load_within;
        loop {
            let raw = self.api.raw().await?;
            if raw.number() == Some(asked) {
                sleep(SETTLED).await;
                return Ok(raw.fault());
            }
            if Instant::now() >= until {
                let doing = if self.settings.folder.is_some() {
                    format!(
                        "going by {}: is its folder that of providers.file.directory, with watch, and is no other file there broken?",
                        self.file().display()
                    )
                } else {
                    "going by what it was told by REST".to_owned()
                };
                return Err(RouterError::Silent { router: NAME, within: self.settings.load_within, doing });
            }
            sleep(ONCE_MORE).await;
        }
    }

    async fn read_now(&self) -> Result<ObservedConfig, RouterError> {
        let raw = self.api.raw().await?;
        let mut observed = raw.observed();
        if self.settings.folder.is_none() {
            observed.left_over = strange(&raw, &observed);
            return Ok(observed);
        }
        let written = self.text()?.as_deref().and_then(number_in);
        if written.is_some() && observed.number.is_none() {
            // One that was just started has read no file yet: nothing was changed by anybody.
            let source = io::Error::other(format!("it doesn't go by {} yet", self.file().display()));
            return Err(RouterError::Away { router: NAME, doing: "reading what it does".to_owned(), source });
        }
        // A file that somebody has changed is in force, and by no wanted state.
        observed.number = observed.number.filter(|_| written.is_some());
        observed.left_over = strange(&raw, &observed);
        Ok(observed)
    }

    async fn check_now(&self, config: Option<&Path>) -> Result<Checked, RouterError> {
        if config.is_some() {
            let what = "it has no check of a file before it goes by that".to_owned();
            return Err(RouterError::Unable { router: NAME, what });
        }
        let raw = self.api.raw().await?;
        let mut left_over = strange(&raw, &raw.observed());
        let draft = self.settings.own.join(FILE);
        let is_left = self.settings.folder.is_some() && draft.exists();
        left_over.extend(is_left.then(|| draft.display().to_string()));
        Ok(Checked { refused: raw.fault(), left_over, warnings: Vec::new() })
    }
}

/// What is marked as ours and belongs to no service that is there.
fn strange(raw: &RawData, observed: &ObservedConfig) -> Vec<String> {
    let is_known = |name: &&str| {
        let service = raw.own_name(name).map(|own| own.split(':').next().unwrap_or_default());
        service.is_some_and(|service| observed.services.contains_key(service))
    };
    let mut strange: Vec<String> = raw.marked().filter(|name| !is_known(name)).map(str::to_owned).collect();
    strange.sort_unstable();
    strange.dedup();
    strange
}

/// A file can only be renamed within a file system; and what is in Traefik's folder is read by it.
fn check_folders(folder: &Path, own: &Path) -> Result<(), RouterError> {
    use std::os::unix::fs::MetadataExt as _;
    let about = |path: &Path| fs::metadata(path).map_err(disk::at(path));
    let whole = |path: &Path| fs::canonicalize(path).map_err(disk::at(path));
    if about(folder)?.dev() != about(own)?.dev() {
        let why = format!(
            "it is on another file system than {}, so nothing can be renamed from it",
            folder.display()
        );
        return Err(disk::at(own)(io::Error::other(why)));
    }
    if whole(own)?.starts_with(whole(folder)?) {
        let why = format!("it is within {}, of which Traefik reads each file", folder.display());
        return Err(disk::at(own)(io::Error::other(why)));
    }
    Ok(())
}

impl Operations for Traefik {
    fn kind(&self) -> RouterKind {
        RouterKind::Traefik
    }

    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked> {
        Box::pin(self.check_now(config))
    }

    fn reload(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let what = "it has nothing to load: it goes by its files as they come into its folder".to_owned();
            Err(RouterError::Unable { router: NAME, what })
        })
    }

    fn adopt<'a>(&'a self, service: &'a str) -> Answer<'a, String> {
        Box::pin(self.adopt_now(service))
    }
}

impl Router for Traefik {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(self.apply_now(wanted))
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(self.read_now())
    }

    /// It counts connections by entry point alone.
    fn connections<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(async { Ok(None) })
    }

    fn counters(&self) -> Answer<'_, Counters> {
        Box::pin(async {
            match &self.settings.metrics {
                Some(metrics) => self.api.counters(metrics).await,
                None => Ok(Counters::Not("traefik.metrics isn't set".to_owned())),
            }
        })
    }
}
