use std::time::Duration;

use reqwest::{Response, StatusCode, Url, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;

use super::{
    NAME,
    config::{EntryPoint, EntryPoints, Provider, RawData, counters},
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
    provider: Provider,
    caller: Caller,
}

impl Api {
    pub(super) fn new(at: Url, provider: Provider, time_limit: Duration) -> Result<Self, RouterError> {
        Ok(Self { at, provider, caller: Caller::new(NAME, time_limit)? })
    }

    pub(super) async fn raw(&self) -> Result<RawData, RouterError> {
        let raw: RawData = self.get("rawdata").await?;
        Ok(RawData { provider: self.provider, ..raw })
    }

    pub(super) async fn entry_points(&self) -> Result<EntryPoints, RouterError> {
        Ok(EntryPoint::by_port(self.get(PAGE).await?))
    }

    /// Tells it this in place of all that it was told so.
    pub(super) async fn put(&self, text: &str) -> Result<(), RouterError> {
        let (url, doing) = self.url("providers/rest", "telling")?;
        let call = self.caller.http.put(url).header(CONTENT_TYPE, "application/json").body(text.to_owned());
        let answer = self.caller.send(call, &doing).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            let what = "its providers.rest isn't on, or not insecure: nobody answers there".to_owned();
            return Err(RouterError::Unable { router: NAME, what });
        }
        self.successful(answer, &doing).map(drop)
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
        Ok(counters(&String::from_utf8_lossy(&body), self.provider))
    }

    async fn get<T: DeserializeOwned>(&self, what: &str) -> Result<T, RouterError> {
        let (url, doing) = self.url(what, "asking")?;
        let answer = self.caller.send(self.caller.http.get(url), &doing).await?;
        self.caller.read(self.successful(answer, &doing)?, LONGEST, &doing).await
    }

    /// An address of its API, and what is done there in words.
    fn url(&self, what: &str, doing: &str) -> Result<(Url, String), RouterError> {
        let doing = format!("{doing} {}api/{what}", self.at);
        let url = self.at.join(&format!("api/{what}"));
        Ok((url.map_err(|error| self.caller.away(&doing, error.to_string()))?, doing))
    }

    fn successful(&self, answer: Response, doing: &str) -> Result<Response, RouterError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(self.caller.away(doing, format!("it answers with {status}")))
    }
}
