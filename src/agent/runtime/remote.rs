//! Calls over HTTP of what runs versions for the agent.

use std::{error::Error, fmt::Write, time::Duration};

use reqwest::{Client, Response, redirect::Policy};

use super::Fault;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Nothing but what is asked for is called: no proxy that the environment names, and nobody that an answer leads to.
pub(crate) fn client() -> Result<Client, Fault> {
    // TLS asks the process which cryptography it uses; a second answer is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT).build();
    built.map_err(|error| Fault::Setting { name: "tls", why: why(&error) })
}

/// The body of an answer, unless it has more bytes than that.
pub(crate) async fn body(mut answer: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| why(&error))? {
        if body.len() + chunk.len() > most {
            return Err(format!("its answer has more than {most} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What went wrong, with what caused it. Addresses may hold secrets, and are left out.
pub(crate) fn why(error: &reqwest::Error) -> String {
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
