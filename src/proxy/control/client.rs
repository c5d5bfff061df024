//! Who asks a proxy over its control socket.

use std::{io, path::PathBuf, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};

use super::{MAX_ANSWER, form::Refusal};

/// How long an answer may take, beside what was asked to be waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it is waited before it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// The control socket of a proxy.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no proxy answers on {path}: {source}")]
    Unreachable { path: PathBuf, source: io::Error },
    #[error("the proxy did not answer: {0}")]
    Broken(String),
    #[error("the proxy answered nothing for {} seconds", .0.as_secs())]
    Late(Duration),
    /// The proxy's own words.
    #[error("{}", .refusal.error)]
    Refused { status: u16, refusal: Refusal },
}

impl Client {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub async fn get<A: DeserializeOwned>(&self, target: &str) -> Result<A, ClientError> {
        self.ask(Method::GET, target, Bytes::new(), PATIENCE).await
    }

    /// Asks for what may come only after so long.
    pub async fn wait<A: DeserializeOwned>(&self, target: &str, wait: Duration) -> Result<A, ClientError> {
        self.ask(Method::GET, target, Bytes::new(), PATIENCE + wait).await
    }

    pub async fn put<A: DeserializeOwned>(&self, target: &str, body: Bytes) -> Result<A, ClientError> {
        self.ask(Method::PUT, target, body, PATIENCE).await
    }

    pub async fn post<A: DeserializeOwned>(&self, target: &str) -> Result<A, ClientError> {
        self.ask(Method::POST, target, Bytes::new(), PATIENCE).await
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<A, ClientError> {
        let asked = async {
            loop {
                let (status, body) = self.exchange(method.clone(), target, body.clone()).await?;
                // Another process takes over, and answers next.
                if status != StatusCode::SERVICE_UNAVAILABLE {
                    return Ok((status, body));
                }
                sleep(AGAIN).await;
            }
        };
        let (status, body) = timeout(patience, asked).await.map_err(|_| ClientError::Late(patience))??;
        let no_form =
            |error: serde_json::Error| ClientError::Broken(format!("{status} with another body: {error}"));
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(no_form);
        }
        let refusal = serde_json::from_slice(&body).map_err(no_form)?;
        Err(ClientError::Refused { status: status.as_u16(), refusal })
    }

    async fn exchange(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let broken = |error: &dyn std::fmt::Display| ClientError::Broken(error.to_string());
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|source| ClientError::Unreachable { path: self.path.clone(), source })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        let driving = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "proxy")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| broken(&error))?;
        let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| broken(&error))?;
        driving.abort();
        Ok((status, body.to_bytes()))
    }
}
