use std::time::Duration;

use reqwest::Url;
use serde::de::DeserializeOwned;

use super::{
    NAME,
    config::{EntryPoint, EntryPoints, RawData},
};
use crate::{RouterError, remote::Caller};

/// Bytes of an answer: thousands of services.
const LONGEST: usize = 64 * 1024 * 1024;

/// Entry points are told in pages.
const PAGE: &str = "entrypoints?per_page=1000";

/// Asks Traefik what it does.
#[derive(Debug)]
pub(super) struct Api {
    at: Url,
    caller: Caller,
}

impl Api {
    pub(super) fn new(at: Url, time_limit: Duration) -> Result<Self, RouterError> {
        Ok(Self { at, caller: Caller::new(NAME, time_limit)? })
    }

    pub(super) async fn raw(&self) -> Result<RawData, RouterError> {
        self.get("rawdata").await
    }

    pub(super) async fn entry_points(&self) -> Result<EntryPoints, RouterError> {
        Ok(EntryPoint::by_port(self.get(PAGE).await?))
    }

    async fn get<T: DeserializeOwned>(&self, what: &str) -> Result<T, RouterError> {
        let doing = format!("asking {}api/{what}", self.at);
        let url = self.at.join(&format!("api/{what}"));
        let url = url.map_err(|error| self.caller.away(&doing, error.to_string()))?;
        let answer = self.caller.send(self.caller.http.get(url), &doing).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.caller.away(&doing, format!("it answers with {status}")));
        }
        self.caller.read(answer, LONGEST, &doing).await
    }
}
