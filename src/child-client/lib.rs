//! The calls of the child protocol, as whoever is a child makes them: an agent, or a manager below another one.
//!
//! Invariants: nothing that is answered is believed to be small, whole or sensible; a redirect is not followed, since what is
//! told to one address is not for another that this one chooses; no error shows a token, or an address with what is secret in it.
//!
//! Deliberately not here: when to say what, and how often to try again.

mod call;
mod download;
mod error;
mod part;
mod tls;
mod transport;

use std::path::PathBuf;

pub use call::{CALL_TIMEOUT, Caller, MAX_ANSWER_BYTES, Span, next_chunk};
pub use download::download;
pub use error::LinkError;
pub use transport::InProcess;

/// Where a manager is, and how it and its child prove who they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT`, with the path below which the manager answers, if there is one.
    pub url: String,
    /// PEM file with the authorities of which the manager's certificate must be; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate that the child shows, and those between it and its authority.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of `certificate`.
    pub key: Option<PathBuf>,
}
