//! Who asks a proxy over its control socket.

use super::form::Refusal;
use crate::local_http::client;

/// The control socket of a proxy.
pub type Client = client::Client<Refusal>;

pub type ClientError = client::ClientError<Refusal>;

impl client::Refusal for Refusal {
    const BY: &'static str = "the proxy";
    const NOBODY: &'static str = "no proxy";

    fn why(&self) -> &str {
        &self.error
    }
}
