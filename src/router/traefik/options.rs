//! What an operator sets of a Traefik.

use std::{path::PathBuf, sync::Arc, time::Duration};

use reqwest::Url;

use super::{Settings, Traefik};
use crate::{
    remote,
    setup::{Fault, OpenError, OpenRouter, absolute},
};

/// A Traefik; what an operator sets up for it stands in [`super`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder of its file provider.
    pub folder: PathBuf,
    /// The folder of what isn't for it, on the same file system.
    pub own: PathBuf,
    pub api: String,
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
        absolute("traefik.folder", &self.folder)?;
        absolute("traefik.own", &self.own)?;
        let api = Url::parse(&format!("{}/", self.api.trim_end_matches('/')));
        let api = api.map_err(|error| ("traefik.api", error.to_string()))?;
        if !remote::may_be_called(&api) {
            return Err((
                "traefik.api",
                "only an address of this machine is called without https".to_owned(),
            ));
        }
        Ok(Settings {
            folder: self.folder.clone(),
            own: self.own.clone(),
            api,
            time_limit: self.time_limit,
            load_within: self.load_within,
        })
    }

    pub(crate) fn open(&self) -> Result<OpenRouter, OpenError> {
        Ok(OpenRouter { router: Arc::new(Traefik::open(self.read()?)?), measure: None })
    }
}
