//! Calls over HTTP of what an operator names: a router or a runtime of theirs.

use std::{error::Error, fmt::Write, io, net::IpAddr, time::Duration};

use reqwest::{Client, RequestBuilder, Response, Url, redirect::Policy};
use serde::de::DeserializeOwned;

use crate::RouterError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Nothing but what is asked for is called: no proxy that the environment names, and nobody that an answer leads to.
///
/// # Errors
///
/// TLS can't be set up here.
pub fn client() -> Result<Client, String> {
    // TLS asks the process which cryptography it uses; a second answer is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT).build();
    built.map_err(|error| why(&error))
}

/// Without TLS only this machine is called.
#[must_use]
pub fn may_be_called(url: &Url) -> bool {
    let is_here = url.host_str().is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.map_or(host == "localhost", |address| address.is_loopback())
    });
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

/// Characters of an answer that are shown.
const SHOWN: usize = 300;

/// Calls one router, with errors that name it.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) http: Client,
    pub(crate) router: &'static str,
    /// For one answer.
    pub(crate) time_limit: Duration,
}

impl Caller {
    pub(crate) fn new(router: &'static str, time_limit: Duration) -> Result<Self, RouterError> {
        let http = client().map_err(|why| away(router, "setting up TLS", why))?;
        Ok(Self { http, router, time_limit })
    }

    pub(crate) async fn send(&self, call: RequestBuilder, doing: &str) -> Result<Response, RouterError> {
        call.timeout(self.time_limit).send().await.map_err(|error| {
            if error.is_timeout() { self.silent(doing) } else { self.away(doing, why(&error)) }
        })
    }

    /// Why there is no body of an answer.
    pub(crate) fn no_body(&self, error: &BodyError, doing: &str) -> RouterError {
        match error {
            BodyError::Late => self.silent(doing),
            BodyError::TooLong(_) | BodyError::BrokenOff(_) => self.away(doing, error.to_string()),
        }
    }

    /// What an answer says, which may have so many bytes.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        answer: Response,
        most: usize,
        doing: &str,
    ) -> Result<T, RouterError> {
        let body = body(answer, most).await.map_err(|error| self.no_body(&error, doing))?;
        serde_json::from_slice(&body).map_err(|error| self.nonsense(format!("{}: {error}", shown(&body))))
    }

    pub(crate) fn nonsense(&self, said: String) -> RouterError {
        RouterError::Nonsense { router: self.router, said }
    }

    pub(crate) fn away(&self, doing: &str, why: String) -> RouterError {
        away(self.router, doing, why)
    }

    fn silent(&self, doing: &str) -> RouterError {
        RouterError::Silent { router: self.router, within: self.time_limit, doing: doing.to_owned() }
    }
}

fn away(router: &'static str, doing: &str, why: String) -> RouterError {
    RouterError::Away { router, doing: doing.to_owned(), source: io::Error::other(why) }
}

/// The begin of an answer, for people.
pub(crate) fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.chars().filter(|one| !one.is_control()).take(SHOWN).collect()
}

/// Why there is no body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("no answer in time")]
    Late,
    #[error("its answer has more than {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    BrokenOff(String),
}

/// The body of an answer, unless it has more bytes than that.
///
/// # Errors
///
/// It has, or it breaks off.
pub async fn body(mut answer: Response, most: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > most {
            return Err(BodyError::TooLong(most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[allow(clippy::needless_pass_by_value, reason = "of a map_err")]
fn broken(error: reqwest::Error) -> BodyError {
    if error.is_timeout() { BodyError::Late } else { BodyError::BrokenOff(why(&error)) }
}

/// What went wrong, with what caused it. Addresses may hold secrets, and are left out.
#[must_use]
pub fn why(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    causes(error)
}

/// What caused an error, each cause with its own; never the error itself.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(cause) = next {
        let between = if text.is_empty() { "" } else { ": " };
        // Writing into a text can't fail.
        let _ = write!(text, "{between}{cause}");
        next = cause.source();
    }
    if text.is_empty() { "it can't be called".to_owned() } else { text }
}
