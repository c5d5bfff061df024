//! Who asks.

use std::{fmt, io, marker::PhantomData, path::PathBuf, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};

/// How long an answer may take, beside what was asked to be waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it is waited before it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// The most bytes of an answer.
pub const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// An answer that isn't what was asked for, as one kind of process words it.
pub trait Refusal: DeserializeOwned + fmt::Debug {
    /// Who answers so, with its article: `the proxy`.
    const BY: &'static str;
    /// Who is missing where nobody answers: `no proxy`.
    const NOBODY: &'static str;

    /// What happened, for people.
    fn why(&self) -> &str;
}

/// The socket of a process.
pub struct Client<R> {
    path: PathBuf,
    refusal: PhantomData<fn() -> R>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError<R: Refusal> {
    #[error("{nobody} answers on {path}: {source}", nobody = R::NOBODY)]
    Unreachable { path: PathBuf, source: io::Error },
    #[error("{by} did not answer: {0}", by = R::BY)]
    Broken(String),
    #[error("{by} answered nothing for {seconds} seconds", by = R::BY, seconds = .0.as_secs())]
    Late(Duration),
    /// Its own words.
    #[error("{}", .refusal.why())]
    Refused { status: u16, refusal: R },
}

impl<R: Refusal> ClientError<R> {
    /// Whoever asked can mend it: by asking elsewhere, or otherwise.
    #[must_use]
    pub fn is_the_callers(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => (400..500).contains(status),
            Self::Broken(_) | Self::Late(_) => false,
        }
    }
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<R> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self::new(self.path.clone())
    }
}

impl<R> Client<R> {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), refusal: PhantomData }
    }
}

impl<R: Refusal> Client<R> {
    pub async fn get<A: DeserializeOwned>(&self, target: &str) -> Result<A, ClientError<R>> {
        self.ask(Method::GET, target, Bytes::new(), PATIENCE).await
    }

    /// Asks for what may come only after so long.
    pub async fn wait<A: DeserializeOwned>(&self, target: &str, wait: Duration) -> Result<A, ClientError<R>> {
        self.ask(Method::GET, target, Bytes::new(), PATIENCE + wait).await
    }

    pub async fn put<A: DeserializeOwned>(&self, target: &str, body: Bytes) -> Result<A, ClientError<R>> {
        self.ask(Method::PUT, target, body, PATIENCE).await
    }

    pub async fn post<A: DeserializeOwned>(&self, target: &str) -> Result<A, ClientError<R>> {
        self.ask(Method::POST, target, Bytes::new(), PATIENCE).await
    }

    /// Asks with a JSON body and an answer in JSON, which may take so long.
    pub async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        time_limit: Duration,
    ) -> Result<A, ClientError<R>> {
        let text = self.bytes(method, target, body, time_limit).await?;
        serde_json::from_slice(&text)
            .map_err(|error| ClientError::Broken(format!("its answer is none: {error}")))
    }

    /// What was answered to a `GET`, as it is.
    pub async fn text(&self, target: &str) -> Result<Bytes, ClientError<R>> {
        self.bytes(Method::GET, target, Bytes::new(), PATIENCE).await
    }

    async fn bytes(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        time_limit: Duration,
    ) -> Result<Bytes, ClientError<R>> {
        let asked = async {
            loop {
                let (status, body) = self.exchange(method.clone(), target, body.clone()).await?;
                // Nobody can answer just now, and somebody will.
                if status != StatusCode::SERVICE_UNAVAILABLE {
                    return Ok((status, body));
                }
                sleep(AGAIN).await;
            }
        };
        let (status, body) =
            timeout(time_limit, asked).await.map_err(|_| ClientError::Late(time_limit))??;
        if status.is_success() {
            return Ok(body);
        }
        let refusal = serde_json::from_slice(&body)
            .map_err(|error| ClientError::Broken(format!("{status} with another body: {error}")))?;
        Err(ClientError::Refused { status: status.as_u16(), refusal })
    }

    async fn exchange(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError<R>> {
        let broken = |error: &dyn fmt::Display| ClientError::Broken(error.to_string());
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
            .header(header::HOST, "localhost")
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
