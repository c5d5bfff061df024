//! How calls reach a manager: over the network, or within one process.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use reqwest::{Client, Request, Response};

use super::{LinkError, tls::Renewed};

/// A manager in the same process, which is called without a connection.
pub trait InProcess: fmt::Debug + Send + Sync {
    /// Answers a call as it would one that came over the network, without the limits in time that a connection has. Dropping the
    /// answer before it is there gives the call up.
    ///
    /// # Errors
    ///
    /// Why there is no answer, for people.
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Response, String>>;
}

/// Clones are the same one.
#[derive(Clone)]
pub(super) enum Way {
    Network(Arc<Renewed>),
    InProcess {
        /// Makes requests, and sends none.
        client: Client,
        manager: Arc<dyn InProcess>,
    },
}

impl Way {
    /// What requests are made with.
    pub fn client(&self) -> Client {
        match self {
            Self::Network(renewed) => renewed.http(),
            Self::InProcess { client, .. } => client.clone(),
        }
    }

    pub async fn execute(&self, request: Request) -> Result<Response, LinkError> {
        match self {
            Self::Network(renewed) => Ok(Arc::clone(renewed).renewed().await.execute(request).await?),
            Self::InProcess { manager, .. } => manager.call(request).await.map_err(LinkError::Unreachable),
        }
    }
}
