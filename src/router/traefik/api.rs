use std::{io, time::Duration};

use reqwest::{Client, Url};
use serde::de::DeserializeOwned;

use super::{
    NAME,
    config::{EntryPoint, EntryPoints, RawData},
};
use crate::{
    RouterError,
    remote::{self, BodyError},
};

/// Bytes of an answer: thousands of services.
const LONGEST: usize = 64 * 1024 * 1024;

/// Entry points are told in pages.
const PAGE: &str = "entrypoints?per_page=1000";

/// Asks Traefik what it does.
#[derive(Debug)]
pub(super) struct Api {
    at: Url,
    time_limit: Duration,
    http: Client,
}

impl Api {
    pub(super) fn new(at: Url, time_limit: Duration) -> Result<Self, RouterError> {
        let http = remote::client().map_err(|why| away("setting up TLS", why))?;
        Ok(Self { at, time_limit, http })
    }

    pub(super) async fn raw(&self) -> Result<RawData, RouterError> {
        self.get("rawdata").await
    }

    pub(super) async fn entry_points(&self) -> Result<EntryPoints, RouterError> {
        Ok(EntryPoint::by_port(self.get(PAGE).await?))
    }

    async fn get<T: DeserializeOwned>(&self, what: &str) -> Result<T, RouterError> {
        let doing = format!("asking {}api/{what}", self.at);
        let url = self.at.join(&format!("api/{what}")).map_err(|error| away(&doing, error.to_string()))?;
        let silent = || RouterError::Silent { router: NAME, within: self.time_limit, doing: doing.clone() };
        let answer =
            self.http.get(url).timeout(self.time_limit).send().await.map_err(|error| {
                if error.is_timeout() { silent() } else { away(&doing, remote::why(&error)) }
            })?;
        let status = answer.status();
        if !status.is_success() {
            return Err(away(&doing, format!("it answers with {status}")));
        }
        let body = remote::body(answer, LONGEST).await.map_err(|error| match error {
            BodyError::Late => silent(),
            BodyError::TooLong(_) | BodyError::BrokenOff(_) => away(&doing, error.to_string()),
        })?;
        serde_json::from_slice(&body).map_err(|error| {
            let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            RouterError::Nonsense { router: NAME, said: format!("{text}: {error}") }
        })
    }
}

fn away(doing: &str, why: String) -> RouterError {
    RouterError::Away { router: NAME, doing: doing.to_owned(), source: io::Error::other(why) }
}
