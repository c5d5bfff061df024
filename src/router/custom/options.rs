//! What an operator sets of a router behind a webhook.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::Url;

use super::{Custom, Secret, Settings};
use crate::{
    measure::Measure,
    remote,
    setup::{Fault, OpenError, OpenRouter},
};

/// So many seconds after each other it is asked what it has counted.
const INTERVAL: u32 = 2;

/// Where it is, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub url: String,
    /// A file with what signs calls, in its first line.
    pub secret_file: Option<PathBuf>,
    /// What this router is called there.
    pub name: String,
    /// For one answer.
    pub time_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            url: String::new(),
            secret_file: None,
            name: "router".to_owned(),
            time_limit: Duration::from_secs(5),
        }
    }
}

impl Options {
    /// Where is called.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used. The secret isn't looked at.
    pub fn read(&self) -> Result<Url, Fault> {
        if self.url.is_empty() {
            return Err((
                "custom.url",
                "name the address that is called, as in https://router.example.org/choirmaster".to_owned(),
            ));
        }
        let url = Url::parse(&self.url).map_err(|error| ("custom.url", error.to_string()))?;
        if !remote::may_be_called(&url) {
            return Err(("custom.url", "only an address of this machine is called without https".to_owned()));
        }
        if self.secret_file.is_none() {
            let text = "name a file whose first line signs calls: `echo whsec_$(openssl rand -base64 32)` prints one";
            return Err(("custom.secret_file", text.to_owned()));
        }
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(may_stand) {
            return Err(("custom.name", "it is not 1 to 64 of A-Z a-z 0-9 . _ -".to_owned()));
        }
        Ok(url)
    }

    pub(crate) fn open(&self, folder: &Path) -> Result<OpenRouter, OpenError> {
        let url = self.read()?;
        let file = self.secret_file.as_deref().unwrap_or(Path::new(""));
        let fault = |why: String| ("custom.secret_file", format!("{}: {why}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| fault(error.to_string()))?;
        let secret = Secret::read(text.lines().next().unwrap_or_default().trim());
        let settings = Settings {
            url,
            secret: secret.map_err(|why| fault(why.to_owned()))?,
            router: self.name.clone(),
            time_limit: self.time_limit,
            folder: folder.join("custom"),
        };
        let measure = Measure::asking(INTERVAL);
        let router = Custom::open(settings)?.measured(Arc::clone(&measure));
        Ok(OpenRouter { router: Arc::new(router), measure: Some(measure) })
    }
}
