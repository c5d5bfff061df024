//! What everybody in a test shares: where the manager listens at the moment, and the ledger.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ledger::{Fact, Ledger};
use crate::world::client;

/// Longer than the manager lets anybody wait, so that a wait without an end shows.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);

/// The test is over.
#[derive(Debug)]
pub struct Over;

/// What came back of a call.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
    pub retry_after: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

#[derive(Debug)]
pub struct World {
    address: watch::Sender<Option<SocketAddr>>,
    /// Answers with success so far.
    acknowledged: watch::Sender<u64>,
    http: reqwest::Client,
    ledger: Mutex<Ledger>,
    pub stop: CancellationToken,
}

impl World {
    pub fn new() -> Arc<Self> {
        let http = client().timeout(CALL_TIMEOUT).build().unwrap();
        Arc::new(Self {
            address: watch::Sender::new(None),
            acknowledged: watch::Sender::new(0),
            http,
            ledger: Mutex::default(),
            stop: CancellationToken::new(),
        })
    }

    /// Tells everybody where the manager is now.
    pub fn serves_at(&self, address: Option<SocketAddr>) {
        self.address.send_replace(address);
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what an answer has promised.
    pub fn note(&self, fact: Fact) {
        self.ledger().facts.push(fact);
        self.acknowledged.send_modify(|count| *count += 1);
    }

    pub fn violation(&self, what: String) {
        self.ledger().violations.push(what);
    }

    pub fn acknowledged(&self) -> u64 {
        *self.acknowledged.borrow()
    }

    /// Waits until `more` answers with success have come.
    pub async fn acknowledged_after(&self, more: u64) {
        let from = self.acknowledged();
        let _ = self.acknowledged.subscribe().wait_for(|count| *count >= from + more).await;
    }

    /// One call, to the manager that serves now or next. `Ok(None)`: there was no answer, and what became of the call
    /// is not known.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Answer>, Over> {
        let mut address = self.address.subscribe();
        let address = tokio::select! {
            () = self.stop.cancelled() => return Err(Over),
            address = address.wait_for(Option::is_some) => address.map_err(|_| Over)?.ok_or(Over)?,
        };
        let mut request = self.http.request(method, format!("http://{address}{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        Ok(self.send(request).await)
    }

    pub async fn get(&self, path: &str) -> Result<Option<Answer>, Over> {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Option<Answer>, Over> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Submits the text of a strategy.
    pub async fn submit(&self, text: &str) -> Result<Option<Answer>, Over> {
        let mut address = self.address.subscribe();
        let address = tokio::select! {
            () = self.stop.cancelled() => return Err(Over),
            address = address.wait_for(Option::is_some) => address.map_err(|_| Over)?.ok_or(Over)?,
        };
        let request = self.http.post(format!("http://{address}/release"));
        Ok(self.send(request.header("Content-Type", "application/x-yaml").body(text.to_owned())).await)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().contains_key("retry-after");
        let body = answer.bytes().await.ok()?;
        Some(Answer { status, body, retry_after })
    }

    pub async fn pause(&self, time: Duration) -> Result<(), Over> {
        tokio::select! {
            () = self.stop.cancelled() => Err(Over),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}
