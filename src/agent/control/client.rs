//! Who asks an agent over its control socket.

use proxy::local_http::client;

use super::form::Refusal;

/// The control socket of an agent.
pub type Client = client::Client<Refusal>;

pub type ClientError = client::ClientError<Refusal>;

impl client::Refusal for Refusal {
    const BY: &'static str = "the agent";
    const NOBODY: &'static str = "no agent";

    fn why(&self) -> &str {
        &self.error
    }
}
