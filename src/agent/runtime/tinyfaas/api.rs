//! The API of tinyFaaS, as it is documented: `POST /upload`, `POST /delete`, `GET /list`, `GET /logs`.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Serialize;

use router::remote;

use super::super::{Fault, error::Tail};

/// Bytes of an answer.
const ANSWER: usize = 1024 * 1024;
/// Bytes of a log that are read.
const LOG: usize = 64 * 1024 * 1024;
/// Bytes of a log's end that are shown.
const TAIL: usize = 4096;
/// How long what only reads may take.
const READS: Duration = Duration::from_secs(10);

/// tinyFaaS, as it is managed.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub at: SocketAddr,
    pub time_limit: Duration,
    pub http: Client,
}

#[derive(Debug, Serialize)]
pub(super) struct Upload {
    pub name: String,
    pub env: &'static str,
    pub threads: u16,
    pub zip: String,
    /// `NAME=value`
    pub envs: Vec<String>,
}

impl Upload {
    pub(super) fn set_zip(&mut self, zip: &[u8]) {
        self.zip = STANDARD.encode(zip);
    }
}

impl Api {
    /// Builds, starts and waits for it; what is answered. It goes on with it when nobody waits any more.
    pub(super) async fn upload(&self, upload: &Upload) -> Result<String, Fault> {
        let answer =
            self.send("/upload", self.http.post(self.url("upload")).json(upload), self.time_limit).await?;
        self.text("/upload", answer).await
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Fault> {
        let ask = self.http.post(self.url("delete")).json(&serde_json::json!({ "name": name }));
        let answer = self.send("/delete", ask, self.time_limit).await?;
        self.text("/delete", answer).await.map(drop)
    }

    /// All names that are there, whoever's they are.
    pub(super) async fn names(&self) -> Result<Vec<String>, Fault> {
        let answer = self.send("/list", self.http.get(self.url("list")), READS).await?;
        let text = self.text("/list", answer).await?;
        Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// Whether there is anything of a function that is listed: of one that is gone it has no log. A call would say it too, and
    /// would be a call.
    pub(super) async fn is_there(&self, name: &str) -> Result<bool, Fault> {
        let answer = self.send("/logs", self.ask_log(name), READS).await?;
        Ok(answer.status() != StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What a function wrote to its standard output, as far as it is to be had.
    pub(super) async fn tail(&self, name: &str) -> Tail {
        let log = self.log(name, TAIL).await.unwrap_or_default();
        Tail(String::from_utf8_lossy(&log).into_owned())
    }

    /// The newest of it, at most so many bytes. It is sent from its beginning, so that no more than a part of a long one is read.
    pub(super) async fn log(&self, name: &str, at_most: usize) -> Option<Vec<u8>> {
        let mut answer = self.send("/logs", self.ask_log(name), READS).await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        let (mut newest, mut read) = (Vec::new(), 0);
        while let Ok(Some(chunk)) = answer.chunk().await {
            read += chunk.len();
            newest.extend_from_slice(&chunk);
            newest.drain(..newest.len().saturating_sub(at_most));
            if read > LOG {
                break;
            }
        }
        Some(newest)
    }

    pub(super) fn refused(&self, why: impl Into<String>) -> Fault {
        Fault::Refused { by: format!("tinyFaaS at {}", self.at), why: why.into() }
    }

    fn url(&self, what: &str) -> String {
        format!("http://{}/{what}", self.at)
    }

    fn ask_log(&self, name: &str) -> RequestBuilder {
        self.http.get(self.url("logs")).query(&[("name", name)])
    }

    async fn send(&self, what: &str, ask: RequestBuilder, time_limit: Duration) -> Result<Response, Fault> {
        let sent = ask.timeout(time_limit).send().await;
        sent.map_err(|error| self.refused(format!("{what}: {}", remote::why(&error))))
    }

    async fn text(&self, what: &str, answer: Response) -> Result<String, Fault> {
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refused(format!("{what} is answered with {status}")));
        }
        let body = remote::body(answer, ANSWER).await;
        let body = body.map_err(|why| self.refused(format!("{what}: {why}")))?;
        String::from_utf8(body)
            .map_err(|_| self.refused(format!("{what} is answered with something else than text")))
    }
}
