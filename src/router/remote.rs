//! Calls over HTTP of what an operator names: a router or a runtime of theirs.

use std::{error::Error, fmt::Write, net::IpAddr, time::Duration};

use reqwest::{Client, Response, Url, redirect::Policy};

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
