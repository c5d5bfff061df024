//! HTTP as an agent does it: one connection, kept alive, opened again when the manager closed it.
//!
//! Plain http/1.1 only. A whole client library would cost each of thousands of children a pool and its timers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use super::error::FleetError;

/// Longest wait for an answer, as the agents have it. It is not scaled by the pace.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Who is calling: not a real agent.
const AGENT_NAME: &str = concat!("choirmaster-fleet/", env!("CARGO_PKG_VERSION"), " (simulated)");

/// Where the manager listens.
#[derive(Debug)]
pub struct Origin {
    /// `HOST:PORT`.
    authority: String,
}

impl Origin {
    pub fn parse(url: &str) -> Result<Self, FleetError> {
        let error = || FleetError::Url(url.into());
        let uri: hyper::Uri = url.parse().map_err(|_| error())?;
        let plain =
            uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|a| plain && !a.as_str().contains('@')).ok_or_else(error)?;
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { authority: format!("{}:{port}", authority.host()) })
    }
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    #[error("no such address can be called: {0}")]
    Address(#[from] hyper::http::Error),
    #[error("connection closed: {0}")]
    Closed(#[from] hyper::Error),
    #[error("no whole answer: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer within {CALL_TIMEOUT:?}")]
    Timeout,
}

/// One child's connection.
#[derive(Debug)]
pub struct Client {
    origin: Arc<Origin>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(origin: Arc<Origin>) -> Self {
        Self { origin, connection: None }
    }

    /// `target` is path and query as they are to stand in the request: nothing is escaped here.
    pub async fn get(&mut self, target: &str) -> Result<Response, RequestError> {
        self.call(Method::GET, target, Bytes::new()).await
    }

    pub async fn post(&mut self, target: &str, json: Vec<u8>) -> Result<Response, RequestError> {
        self.call(Method::POST, target, json.into()).await
    }

    async fn call(&mut self, method: Method, target: &str, body: Bytes) -> Result<Response, RequestError> {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, self.origin.authority.as_str())
            .header(USER_AGENT, AGENT_NAME);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body))?;
        let answer =
            timeout(CALL_TIMEOUT, self.exchange(request)).await.unwrap_or(Err(RequestError::Timeout));
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response, RequestError> {
        let response = match self.kept_connection().await {
            None => self.connect().await?.send_request(request).await?,
            Some(mut kept) => match kept.try_send_request(request).await {
                Ok(response) => {
                    self.connection = Some(kept);
                    response
                }
                // The manager closed the idle connection in this instant; nothing was sent.
                Err(mut unsent) => match unsent.take_message() {
                    Some(request) => self.connect().await?.send_request(request).await?,
                    None => return Err(unsent.into_error().into()),
                },
            },
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(RequestError::Body)?;
        Ok(Response { status, body: body.to_bytes() })
    }

    /// The connection of the last call, unless the manager has closed it since.
    async fn kept_connection(&mut self) -> Option<SendRequest<Full<Bytes>>> {
        let mut kept = self.connection.take()?;
        kept.ready().await.is_ok().then_some(kept)
    }

    async fn connect(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, RequestError> {
        let stream = TcpStream::connect(&self.origin.authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends by itself when the sender is dropped or the manager closes; its error shows at the call.
        tokio::spawn(async move { connection.await.ok() });
        Ok(self.connection.insert(sender))
    }
}
