//! One call: credentials, time-outs, and limits on the answer.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::{
    Client, ClientBuilder, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    redirect::Policy,
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    LinkError, Settings,
    tls::Renewed,
    transport::{InProcess, Way},
};
use model::Secret;
use protocol::child::{EndStageAnswer, EndStageRequest, ManagerTime, ResultRequest, StageSummary};

/// A call has this long until it is answered, beyond the time that it asks to wait.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection must be there within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection on which nothing comes is looked after this often: what stands between may have forgotten it.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// An answer that is read as it comes has this long until it is whole.
const LONGEST_STREAM: Duration = Duration::from_hours(1);

/// Largest answer to a poll, a result or a question, in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Longest text of a refusal that is kept, in characters.
const MAX_REFUSAL_CHARS: usize = 200;

/// Most of a refusal that is read, in bytes.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// What a manager in the same process is called by: a name that no resolver knows, for nothing is ever sent there.
const IN_PROCESS: &str = "http://manager.invalid";

/// How long a call takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// [`CALL_TIMEOUT`] for all of it.
    Short,
    /// The manager may wait so long before it answers.
    Waiting(Duration),
    /// [`CALL_TIMEOUT`] for its head, and as long again whenever something of its body has come; an hour in all.
    Streamed,
}

/// A manager that can be called, as one of its children. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    way: Way,
    url: Url,
    token: RwLock<Option<Secret>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What an address has before its host may be a secret.
        f.debug_struct("Inner").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Caller {
    /// Reads the files of the settings; blocks meanwhile. They are read again before each call, and once they hold something else that can be
    /// used, calls go by that, over connections of their own. `token` is the child's own.
    pub fn new(settings: &Settings, token: Option<String>) -> Result<Self, LinkError> {
        // The first caller decides; another provider of cryptography that was chosen before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = address(&settings.url)?;
        let http = Renewed::new(settings, url.scheme() == "http", builder)?;
        Ok(Self::by(Way::Network(Arc::new(http)), url, token))
    }

    /// Calls a manager in the same process.
    pub fn in_process(manager: Arc<dyn InProcess>, token: Option<String>) -> Result<Self, LinkError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = builder().build().map_err(|error| LinkError::Settings(error.to_string()))?;
        Ok(Self::by(Way::InProcess { client, manager }, address(IN_PROCESS)?, token))
    }

    fn by(way: Way, url: Url, token: Option<String>) -> Self {
        Self(Arc::new(Inner { way, url, token: RwLock::new(token.map(Secret::new)) }))
    }

    /// What the calls from now on show.
    pub fn set_token(&self, token: Option<String>) {
        *self.0.token.write().unwrap_or_else(PoisonError::into_inner) = token.map(Secret::new);
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.0.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    pub fn get(&self, path: &[&str]) -> RequestBuilder {
        self.0.way.client().get(self.at(path))
    }

    pub fn post(&self, path: &[&str], body: &impl Serialize) -> RequestBuilder {
        self.0.way.client().post(self.at(path)).json(body)
    }

    /// Makes a call; what is answered well has its body still before it. It shows `token`, or else the child's own.
    pub fn open(
        &self,
        request: RequestBuilder,
        span: Span,
        token: Option<&str>,
    ) -> BoxFuture<'static, Result<Response, LinkError>> {
        let request = self.with_token(request, token);
        let way = self.0.way.clone();
        Box::pin(async move {
            let (_, request) = span.bound(request?).build_split();
            let request = request?;
            let answered = async { opened(way.execute(request).await?).await };
            match span {
                Span::Short | Span::Waiting(_) => answered.await,
                Span::Streamed => timeout(CALL_TIMEOUT, answered).await.unwrap_or_else(|_| Err(silent())),
            }
        })
    }

    /// Makes a call; the whole body of an answer that is good and has no more than so many bytes.
    pub fn send(
        &self,
        request: RequestBuilder,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        self.send_with(request, span, limit, None)
    }

    /// The same with another token than the child's own.
    pub fn send_with(
        &self,
        request: RequestBuilder,
        span: Span,
        limit: usize,
        token: Option<&str>,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let answer = self.open(request, span, token);
        Box::pin(async move {
            let mut answer = answer.await?;
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                if body.len() + chunk.len() > limit {
                    return Err(LinkError::Nonsense(format!("more than {limit} bytes")));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        })
    }

    fn with_token(&self, request: RequestBuilder, token: Option<&str>) -> Result<RequestBuilder, LinkError> {
        let own = self.0.token.read().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = token.or(own.as_ref().map(Secret::reveal)) else { return Ok(request) };
        let unsendable =
            |_| LinkError::Settings("the token holds what no header can carry: it is one line".to_owned());
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(unsendable)?;
        value.set_sensitive(true);
        Ok(request.header(AUTHORIZATION, value))
    }

    /// The text of an offer, of at most so many bytes.
    pub fn release(
        &self,
        id: &str,
        offer: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let request = self.get(&["release"]).query(&[("childID", id), ("releaseID", offer)]);
        self.send(request, Span::Short, limit)
    }

    /// Asks for the functions of an offer, a zip.
    pub fn functions(&self, id: &str, offer: &str) -> RequestBuilder {
        self.get(&["release", "functions", offer]).query(&[("childID", id)])
    }

    /// Reports one stage; `next` is the one that follows, empty for none. Answered with the manager's time where the stage goes on.
    pub fn result(
        &self,
        id: &str,
        offer: &str,
        summary: StageSummary,
        next: Option<&str>,
    ) -> BoxFuture<'static, Result<Option<ManagerTime>, LinkError>> {
        let body = ResultRequest {
            id: id.into(),
            release_id: offer.into(),
            // The reference document has it in the summary, deployed managers read it beside.
            next_stage: next.map(Cow::Borrowed),
            stage_summaries: vec![summary],
        };
        let answer = self.send(self.post(&["result"], &body), Span::Short, MAX_ANSWER_BYTES);
        Box::pin(async move { Ok(serde_json::from_slice(&answer.await?).ok()) })
    }

    /// Asks whether a stage may end, whether what was released is to be taken back, which stages are to be passed over, and what variations
    /// get in others. The manager may wait for news, but for those that are known.
    pub fn end_stage(
        &self,
        body: &EndStageRequest<'_>,
        wait: Option<Duration>,
    ) -> BoxFuture<'static, Result<EndStageAnswer, LinkError>> {
        let (request, span) = waiting(self.post(&["end_stage"], body), wait);
        let answer = self.send(request, span, MAX_ANSWER_BYTES);
        Box::pin(async move {
            serde_json::from_slice(&answer.await?).map_err(|error| LinkError::Nonsense(error.to_string()))
        })
    }

    /// Polls; the body of the answer, of at most so many bytes.
    pub fn poll(
        &self,
        body: &protocol::PollRequest<'_>,
        wait: Option<Duration>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let (request, span) = waiting(self.post(&["poll"], body), wait);
        self.send(request, span, limit)
    }

    /// Says what a router does; the body of the answer, of at most so many bytes. The manager may wait with it for something to be asked.
    pub fn traffic(
        &self,
        body: &protocol::traffic::TrafficRequest<'_>,
        wait: Option<Duration>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let (request, span) = waiting(self.post(&["traffic"], body), wait);
        self.send(request, span, limit)
    }
}

impl Caller {
    /// Says what runs of what is placed here; the body of the answer, of at most so many bytes. The manager may wait with it for
    /// something else to be placed.
    pub fn placements(
        &self,
        body: &protocol::placements::PlacementsRequest,
        wait: Option<Duration>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let (request, span) = waiting(self.post(&["placements"], body), wait);
        self.send(request, span, limit)
    }
}

impl Span {
    fn bound(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Short => request.timeout(CALL_TIMEOUT),
            Self::Waiting(wait) => request.timeout(CALL_TIMEOUT + wait),
            Self::Streamed => request.timeout(LONGEST_STREAM),
        }
    }
}

/// Lets a call wait at the manager, and as much longer for its answer.
fn waiting(request: RequestBuilder, wait: Option<Duration>) -> (RequestBuilder, Span) {
    match wait {
        Some(wait) if !wait.is_zero() => {
            (request.query(&[("wait", format!("{}ms", wait.as_millis()))]), Span::Waiting(wait))
        }
        _ => (request, Span::Short),
    }
}

/// What comes next of the body of an answer; `None` at its end. Silence of [`CALL_TIMEOUT`] is an error.
pub fn next_chunk(answer: &mut Response) -> BoxFuture<'_, Result<Option<Bytes>, LinkError>> {
    Box::pin(async {
        let next = timeout(CALL_TIMEOUT, answer.chunk()).await;
        Ok(next.map_err(|_| silent())??)
    })
}

fn builder() -> ClientBuilder {
    Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT).tcp_keepalive(KEEP_ALIVE)
}

fn silent() -> LinkError {
    LinkError::Unreachable(format!("nothing came for {} s", CALL_TIMEOUT.as_secs()))
}

fn address(text: &str) -> Result<Url, LinkError> {
    let url = Url::parse(text).ok();
    let fits = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    url.filter(fits).ok_or_else(|| LinkError::Address(without_user(text)))
}

/// The address without the name and password in it, however wrong the rest is.
fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        (_, None) => text.to_owned(),
    }
}

/// An answer that is the manager's, and good.
async fn opened(mut answer: Response) -> Result<Response, LinkError> {
    let status = answer.status();
    if status.is_server_error() {
        return Err(LinkError::Troubled(status.as_u16()));
    }
    let is_page =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_page || status.is_redirection() {
        // Somebody else answers, who wants a log-in for example: nothing has reached the manager.
        let what = if is_page { "a page to be looked at" } else { "another address" };
        return Err(LinkError::Nonsense(format!("{what} ({})", status.as_u16())));
    }
    if status.is_success() {
        return Ok(answer);
    }
    let mut body = Vec::new();
    // What is there of a refusal will do.
    while let Ok(Some(chunk)) = answer.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_REFUSAL_BYTES {
            break;
        }
    }
    let text = String::from_utf8_lossy(&body);
    let text = text.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_CHARS).collect();
    Err(LinkError::Refused { status: status.as_u16(), text })
}
