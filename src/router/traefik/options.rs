//! What an operator sets of a Traefik.

use std::{path::PathBuf, sync::Arc, time::Duration};

use reqwest::Url;

use super::{Settings, Traefik};
use crate::{
    measure::Measure,
    remote,
    setup::{Fault, OpenError, OpenRouter, absolute},
};

/// So many seconds after each other it is asked what it has counted.
const INTERVAL: u32 = 1;

/// A Traefik; what an operator sets up for it stands in [`super`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder of its file provider; empty: it is told by its REST provider.
    pub folder: PathBuf,
    /// The folder of what isn't for it, on the same file system.
    pub own: PathBuf,
    pub api: String,
    /// The address of its metrics; empty: its calls aren't counted.
    pub metrics: String,
    /// For one answer.
    pub time_limit: Duration,
    /// For a file that was put into its folder.
    pub load_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: "/etc/traefik/dynamic".into(),
            own: "/etc/traefik/choirmaster".into(),
            api: "http://127.0.0.1:8080".to_owned(),
            metrics: "http://127.0.0.1:8080/metrics".to_owned(),
            time_limit: Duration::from_secs(2),
            load_within: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// As whoever leads it takes them.
    ///
    /// # Errors
    ///
    /// The first that can't be used.
    pub fn read(&self) -> Result<Settings, Fault> {
        let folder = Some(&self.folder).filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), |folder| absolute("traefik.folder", folder))?;
        absolute("traefik.own", &self.own)?;
        let api = address("traefik.api", &format!("{}/", self.api.trim_end_matches('/')))?;
        let metrics = Some(&self.metrics).filter(|metrics| !metrics.is_empty());
        let metrics = metrics.map(|metrics| address("traefik.metrics", metrics)).transpose()?;
        Ok(Settings {
            folder: folder.cloned(),
            own: self.own.clone(),
            api,
            metrics,
            time_limit: self.time_limit,
            load_within: self.load_within,
        })
    }

    pub(crate) fn open(&self) -> Result<OpenRouter, OpenError> {
        let settings = self.read()?;
        let measure = settings.metrics.as_ref().map(|_| Measure::asking(INTERVAL));
        let router = Traefik::open(settings)?;
        let router = match &measure {
            Some(measure) => router.measured(Arc::clone(measure)),
            None => router,
        };
        Ok(OpenRouter { router: Arc::new(router), measure })
    }
}

fn address(key: &'static str, text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text).map_err(|error| (key, error.to_string()))?;
    if !remote::may_be_called(&url) {
        return Err((key, "only an address of this machine is called without https".to_owned()));
    }
    Ok(url)
}
