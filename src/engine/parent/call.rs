//! The calls of the child protocol, as a child makes them.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{RequestBuilder, Url, header::CONTENT_TYPE};
use serde_json::value::RawValue;

use heart::{
    parent::{Below, Poll, Polled, Question},
    release::manager::FEATURE_RETRY,
};
use language::{MAX_STRATEGY_BYTES, functions::MAX_UPLOAD_BYTES};
use model::{ChildKind, FEATURE_CLASSES, FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_TRAFFIC, FEATURE_VALUES};
use wire::{
    child::{
        EndStageAnswer, EndStageRequest, ManagerTime, PollAnswer, PollRequest, ResultRequest, StageSummary,
    },
    question::{Answered, AnswersRequest, FEATURE_QUESTIONS, MAX_QUESTION_BYTES},
};

/// A call has this long until it is answered.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest answer to a poll, a result or a question, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Largest answer to a poll of a parent that asks questions, in bytes.
const MAX_ASKING_ANSWER_BYTES: usize = MAX_ANSWER_BYTES + MAX_QUESTION_BYTES;

/// Longest text of a refusal that is kept, in characters.
const MAX_REFUSAL_CHARS: usize = 200;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ParentCallError {
    #[error("{0:?} is no address of a manager")]
    Address(String),
    /// No answer, or half of one.
    #[error("{0}")]
    Unreachable(String),
    /// A status of 5xx: it may go better later.
    #[error("it answered {0}")]
    Troubled(u16),
    /// A status of 4xx.
    #[error("it answered {status}: {text}")]
    Refused { status: u16, text: String },
    #[error("it answered nonsense: {0}")]
    Nonsense(String),
}

impl From<reqwest::Error> for ParentCallError {
    fn from(error: reqwest::Error) -> Self {
        // The address may hold a secret.
        let error = error.without_url();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::Unreachable(format!("{error}{cause}"))
    }
}

#[derive(Debug)]
pub struct Parent {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
    /// What its last answer to a poll named.
    features: Mutex<Vec<String>>,
}

impl Parent {
    pub fn new(url: &str, token: Option<String>) -> Result<Self, ParentCallError> {
        let address = || ParentCallError::Address(url.to_owned());
        let url = Url::parse(url).ok().filter(|url| !url.cannot_be_a_base()).ok_or_else(address)?;
        let http = reqwest::Client::builder().timeout(CALL_TIMEOUT).build()?;
        Ok(Self { http, url, token, features: Mutex::default() })
    }

    /// Whether the parent named a feature when it was polled last.
    pub fn knows(&self, feature: &str) -> bool {
        let features = self.features.lock().unwrap_or_else(PoisonError::into_inner);
        features.iter().any(|known| known == feature)
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn send(&self, request: RequestBuilder, limit: usize) -> Result<Vec<u8>, ParentCallError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let mut answer = request.send().await?;
        let status = answer.status();
        if status.is_server_error() {
            return Err(ParentCallError::Troubled(status.as_u16()));
        }
        let is_page =
            answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if status.is_success() && is_page {
            // A proxy that wants somebody to log in: nothing has reached the parent.
            return Err(ParentCallError::Nonsense("a page to be looked at".to_owned()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(ParentCallError::Nonsense(format!("more than {limit} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        let text = text.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_CHARS).collect();
        Err(ParentCallError::Refused { status: status.as_u16(), text })
    }

    pub async fn poll(
        &self,
        poll: &Poll,
        name: Option<&str>,
        below: &Below,
    ) -> Result<Polled, ParentCallError> {
        let area = below.area(poll.understood).map(<&RawValue>::deserialize_str).transpose()?;
        let body = PollRequest {
            geographic_area: area,
            id: poll.id.as_deref().map(Cow::Borrowed),
            number_of_children: below.agents(),
            name: name.map(Cow::Borrowed),
            kind: Some(ChildKind::Rm),
            capabilities: below.capabilities(common(&poll.features)),
            rm_ids: poll.rm_ids.clone(),
            held: poll.held.clone(),
        };
        let request = self.http.post(self.at(&["poll"])).json(&body);
        let limit = if poll.features.is_empty() { MAX_ANSWER_BYTES } else { MAX_ASKING_ANSWER_BYTES };
        let answer = self.send(waiting(request, poll.wait_ms), limit).await?;
        let answer =
            PollAnswer::parse(&answer).map_err(|error| ParentCallError::Nonsense(error.to_string()))?;
        self.features.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&answer.features);
        let question = |asked: wire::question::QuestionForm| Question {
            body: asked.body.to_string(),
            id: asked.id,
            kind: asked.kind,
            within_ms: asked.within_ms,
        };
        Ok(Polled {
            offer: (!answer.new_release.is_empty()).then(|| answer.new_release.into_owned()),
            id: answer.id.into_owned(),
            rm_ids: answer.rm_ids,
            hold: answer.hold,
            features: answer.features,
            questions: answer.questions.into_iter().map(question).collect(),
        })
    }

    /// The strategy of an offer.
    pub async fn release(&self, id: &str, offer: &str) -> Result<Vec<u8>, ParentCallError> {
        let request = self.http.get(self.at(&["release"])).query(&[("childID", id), ("releaseID", offer)]);
        self.send(request, MAX_STRATEGY_BYTES).await
    }

    /// The functions of an offer: a zip.
    pub async fn functions(&self, id: &str, offer: &str) -> Result<Vec<u8>, ParentCallError> {
        let request = self.http.get(self.at(&["release", "functions", offer])).query(&[("childID", id)]);
        self.send(request, MAX_UPLOAD_BYTES as usize).await
    }

    /// Answered with the parent's time where a stage is reported that goes on.
    pub async fn result(
        &self,
        id: &str,
        offer: &str,
        summary: StageSummary,
    ) -> Result<Option<ManagerTime>, ParentCallError> {
        let body = ResultRequest {
            id: id.into(),
            release_id: offer.into(),
            // The reference document has it in the summary, deployed managers read it beside.
            next_stage: summary.next_stage.clone().map(Cow::Owned),
            stage_summaries: vec![summary],
        };
        let answer = self.send(self.http.post(self.at(&["result"])).json(&body), MAX_ANSWER_BYTES).await?;
        Ok(serde_json::from_slice(&answer).ok())
    }

    /// What the parent asked.
    pub async fn answers(&self, id: &str, answers: Vec<Answered>) -> Result<(), ParentCallError> {
        let body = AnswersRequest { id: id.into(), answers };
        self.send(self.http.post(self.at(&["answers"])).json(&body), MAX_ANSWER_BYTES).await?;
        Ok(())
    }

    /// Whether a stage may end, whether what was released is to be taken back, and which stages are to be passed over.
    pub async fn end_stage(
        &self,
        id: &str,
        offer: &str,
        stage: &str,
        skipped: Vec<String>,
        wait_ms: Option<u64>,
    ) -> Result<EndStageAnswer, ParentCallError> {
        let (id, strategy_id, stage_name) = (id.into(), offer.into(), stage.into());
        let body = EndStageRequest { id, stage_name, strategy_id, skipped };
        let request = self.http.post(self.at(&["end_stage"])).json(&body);
        let answer = self.send(waiting(request, wait_ms), MAX_ANSWER_BYTES).await?;
        read(&answer)
    }
}

/// Those features of a parent that this manager has too.
fn common(features: &[String]) -> Vec<String> {
    let of_managers = [FEATURE_QUESTIONS, FEATURE_RETRY, FEATURE_CLASSES, FEATURE_TRAFFIC];
    let known = of_managers.into_iter().chain([FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS]);
    known.filter(|known| features.iter().any(|feature| feature == known)).map(str::to_owned).collect()
}

/// Lets a call wait at the parent, and as much longer for its answer.
fn waiting(request: RequestBuilder, wait_ms: Option<u64>) -> RequestBuilder {
    let Some(wait_ms) = wait_ms else { return request };
    let timeout = CALL_TIMEOUT + Duration::from_millis(wait_ms);
    request.query(&[("wait", format!("{wait_ms}ms"))]).timeout(timeout)
}

fn read<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, ParentCallError> {
    serde_json::from_slice(body).map_err(|error| ParentCallError::Nonsense(error.to_string()))
}

/// A text that is JSON already.
trait DeserializeStr<'a>: Sized {
    fn deserialize_str(text: &'a str) -> Result<Self, ParentCallError>;
}

impl<'a> DeserializeStr<'a> for &'a RawValue {
    fn deserialize_str(text: &'a str) -> Result<Self, ParentCallError> {
        read(text.as_bytes())
    }
}
