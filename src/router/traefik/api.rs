use std::time::Duration;

use reqwest::{Response, Url};
use serde::de::DeserializeOwned;

use super::{
    NAME,
    config::{EntryPoint, EntryPoints, RawData, counters},
};
use crate::{
    RouterError,
    measure::Counters,
    remote::{self, Caller},
};

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

    /// What it has counted, by its metrics at this address.
    pub(super) async fn counters(&self, metrics: &Url) -> Result<Counters, RouterError> {
        let doing = format!("asking {metrics}");
        let answer = self.caller.send(self.caller.http.get(metrics.clone()), &doing).await?;
        let status = answer.status();
        if status.is_client_error() {
            // It says so of an address that it serves nothing at.
            return Ok(Counters::Not(format!(
                "{metrics} answers with {status}: its metrics.prometheus is to be set, or traefik.metrics to name its address"
            )));
        }
        let answer = self.successful(answer, &doing)?;
        let body = remote::body(answer, LONGEST).await;
        let body = body.map_err(|error| self.caller.no_body(&error, &doing))?;
        Ok(counters(&String::from_utf8_lossy(&body)))
    }

    async fn get<T: DeserializeOwned>(&self, what: &str) -> Result<T, RouterError> {
        let doing = format!("asking {}api/{what}", self.at);
        let url = self.at.join(&format!("api/{what}"));
        let url = url.map_err(|error| self.caller.away(&doing, error.to_string()))?;
        let answer = self.caller.send(self.caller.http.get(url), &doing).await?;
        self.caller.read(self.successful(answer, &doing)?, LONGEST, &doing).await
    }

    fn successful(&self, answer: Response, doing: &str) -> Result<Response, RouterError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(self.caller.away(doing, format!("it answers with {status}")))
    }
}
