//! A router of any kind, led by calls to an address of its operator's, as `docs/custom-router.md` says.
//!
//! What was answered to `apply` is believed no further than `read` shows it. Each answer has a limit of time and of bytes; one that
//! contradicts itself is refused whole; no redirect is followed. Without TLS only this machine is called. What is ours is one folder: the
//! newest number by which the router was ever led, and the lock of who leads it.

mod call;
mod form;
mod options;
mod secret;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::Url;
use traffic::{
    RouterKind,
    desired::DesiredConfig,
    observed::{ObservedConfig, differences},
};

use self::{
    call::Caller,
    form::{Ask, CheckedForm, SeenForm, ServiceForm},
};
pub use self::{options::Options, secret::Secret};
use crate::{
    Answer, Applied, Checked, Operations, Router, RouterError,
    disk::{self, Disk},
    leadership::Leadership,
    measure::{Counters, Measure},
};

/// As errors name it.
const NAME: &str = "the webhook";

/// The most bytes of a configuration that is to be checked.
const CONFIG: u64 = 1024 * 1024;

/// Whom to call, and as whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://…`, or `http://` with an address of this machine.
    pub url: Url,
    pub secret: Secret,
    /// What this router is called there.
    pub router: String,
    /// How long one call may take.
    pub time_limit: Duration,
    /// What is ours of it; no other router has this folder.
    pub folder: PathBuf,
}

/// Leads whatever answers there.
pub struct Custom {
    caller: Caller,
    leadership: Leadership,
    measure: Option<Arc<Measure>>,
    /// What it was told last, until it was seen to do so.
    told: Mutex<Option<DesiredConfig>>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Custom {
    /// Nothing is called yet.
    ///
    /// # Errors
    ///
    /// The folder can't be made, or TLS can't be set up.
    pub fn open(settings: Settings) -> Result<Self, RouterError> {
        Self::open_on(settings, Disk::default())
    }

    /// The same, whose steps pass this disk.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_on(settings: Settings, disk: Disk) -> Result<Self, RouterError> {
        let Settings { url, secret, router, time_limit, folder } = settings;
        let caller = Caller::new(url, secret, router, time_limit)?;
        let leadership = Leadership::open(folder, disk)?;
        Ok(Self { caller, leadership, measure: None, told: Mutex::default() })
    }

    /// The same, whose calls are counted.
    #[must_use]
    pub fn measured(self, measure: Arc<Measure>) -> Self {
        Self { measure: Some(measure), ..self }
    }

    async fn apply_now(&self, wanted: &DesiredConfig) -> Result<Applied, RouterError> {
        let _leader = self.leadership.lead().await?;
        let asked = wanted.number;
        self.leadership.lead_by(asked)?;
        self.leadership.disk().step().map_err(disk::at(self.leadership.folder()))?;
        if let Some(measure) = &self.measure {
            measure.changing(wanted);
            *self.told() = Some(wanted.clone());
        }
        let services = wanted.services().iter().map(ServiceForm::from).collect();
        let was_reloaded = self.caller.apply(&Ask::Apply { number: asked.into(), services }, asked).await?;
        Ok(Applied { number: asked, was_reloaded })
    }

    async fn read_now(&self) -> Result<ObservedConfig, RouterError> {
        let seen: SeenForm = self.caller.ask(&Ask::Read).await?;
        let seen = seen.into_observed().map_err(|said| RouterError::Nonsense { router: NAME, said })?;
        if let Some(measure) = &self.measure
            && let mut told = self.told()
            && let Some(wanted) = told.take_if(|wanted| differences(wanted, &seen).is_empty())
        {
            measure.told(&wanted);
        }
        Ok(seen)
    }

    fn told(&self) -> MutexGuard<'_, Option<DesiredConfig>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn counters_now(&self) -> Result<Counters, RouterError> {
        let seen: SeenForm = self.caller.ask(&Ask::Read).await?;
        seen.counters().map_err(|said| RouterError::Nonsense { router: NAME, said })
    }

    async fn check_now(&self, config: Option<&Path>) -> Result<Checked, RouterError> {
        let config = config.map(text_of).transpose()?;
        let CheckedForm { refused, left_over } = self.caller.ask(&Ask::Validate { config }).await?;
        Ok(Checked { refused, left_over, warnings: Vec::new() })
    }

    async fn connections_now(&self, service: &str, variation: &str) -> Result<Option<u64>, RouterError> {
        let seen: SeenForm = self.caller.ask(&Ask::Read).await?;
        Ok(seen.connections(service, variation))
    }
}

/// A configuration that is to be checked: its text, where it isn't too long.
fn text_of(path: &Path) -> Result<String, RouterError> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(disk::at(path))?;
    file.take(CONFIG + 1).read_to_string(&mut text).map_err(disk::at(path))?;
    if text.len() as u64 > CONFIG {
        return Err(disk::at(path)(std::io::Error::other("it has more than 1 MiB")));
    }
    Ok(text)
}

impl Operations for Custom {
    fn kind(&self) -> RouterKind {
        RouterKind::Custom
    }

    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked> {
        Box::pin(self.check_now(config))
    }

    fn reload(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let _leader = self.leadership.lead().await?;
            self.caller.tell(&Ask::Reload).await
        })
    }

    /// Nobody asks it for a configuration.
    fn adopt<'a>(&'a self, _: &'a str) -> Answer<'a, String> {
        Box::pin(async {
            let what = "nobody asks it for what it does by a configuration of its own".to_owned();
            Err(RouterError::Unable { router: NAME, what })
        })
    }
}

impl Router for Custom {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(self.apply_now(wanted))
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(self.read_now())
    }

    fn connections<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(self.connections_now(service, variation))
    }

    fn counters(&self) -> Answer<'_, Counters> {
        Box::pin(self.counters_now())
    }
}
