//! The calls of the child protocol, as a child makes them.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;

use child_client::{Caller, LinkError, MAX_ANSWER_BYTES, Settings, Span};
use domain::{
    parent::{Below, Poll, PollResponse, Question},
    release::manager::FEATURE_RETRY,
};
use language::MAX_STRATEGY_BYTES;
use model::{
    ChildKind, FEATURE_AGENTS, FEATURE_CLASSES, FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_RUNS,
    FEATURE_SERVICES, FEATURE_TRAFFIC, FEATURE_VALUES,
};
use protocol::{
    child::{EndStageAnswer, EndStageRequest, ManagerTime, PollAnswer, PollRequest, StageSummary},
    placements::{MAX_PLACEMENTS_ANSWER_BYTES, PlacementsAnswer, PlacementsRequest},
    question::{AnswersRequest, FEATURE_QUESTIONS, MAX_QUESTION_BYTES, QuestionAnswer},
};

/// Largest answer to a poll of a parent that asks questions, in bytes.
const MAX_ASKING_ANSWER_BYTES: usize = MAX_ANSWER_BYTES + MAX_QUESTION_BYTES;

/// What a manager says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own<'a> {
    pub name: Option<&'a str>,
    /// Where people reach its own page.
    pub public_url: Option<&'a str>,
}

#[derive(Debug)]
pub struct Parent {
    caller: Caller,
    /// What its last answer to a poll named.
    features: Mutex<Option<Vec<String>>>,
}

impl Parent {
    pub fn new(url: &str, token: Option<String>) -> Result<Self, LinkError> {
        let settings = Settings { url: url.to_owned(), ..Settings::default() };
        Ok(Self { caller: Caller::new(&settings, token)?, features: Mutex::default() })
    }

    /// Whether the parent named a feature when it was polled last.
    pub fn knows(&self, feature: &str) -> bool {
        self.named(feature) == Some(true)
    }

    /// Whether the parent was polled, and didn't name a feature.
    pub fn lacks(&self, feature: &str) -> bool {
        self.named(feature) == Some(false)
    }

    fn named(&self, feature: &str) -> Option<bool> {
        let features = self.features.lock().unwrap_or_else(PoisonError::into_inner);
        Some(features.as_ref()?.iter().any(|known| known == feature))
    }

    pub async fn poll(&self, poll: &Poll, own: Own<'_>, below: &Below) -> Result<PollResponse, LinkError> {
        let area = below.area(poll.understood).map(<&RawValue>::deserialize_str).transpose()?;
        let body = PollRequest {
            geographic_area: area,
            id: poll.id.as_deref().map(Cow::Borrowed),
            number_of_children: below.agents(),
            name: own.name.map(Cow::Borrowed),
            nonce: None,
            kind: Some(ChildKind::Rm),
            capabilities: below.capabilities(common(&poll.features), own.public_url),
            rm_ids: poll.rm_ids.clone(),
            held: poll.held.clone(),
        };
        let limit = if poll.features.is_empty() { MAX_ANSWER_BYTES } else { MAX_ASKING_ANSWER_BYTES };
        let answer = self.caller.poll(&body, poll.wait_ms.map(Duration::from_millis), limit).await?;
        let answer = PollAnswer::parse(&answer).map_err(|error| LinkError::Nonsense(error.to_string()))?;
        self.features.lock().unwrap_or_else(PoisonError::into_inner).replace(answer.features.clone());
        let question = |asked: protocol::question::QuestionForm| Question {
            body: asked.body.to_string(),
            id: asked.id,
            kind: asked.kind,
            within_ms: asked.within_ms,
        };
        Ok(PollResponse {
            offer: (!answer.new_release.is_empty()).then(|| answer.new_release.into_owned()),
            id: answer.id.into_owned(),
            rm_ids: answer.rm_ids,
            hold: answer.hold,
            features: answer.features,
            questions: answer.questions.into_iter().map(question).collect(),
        })
    }

    /// Says what runs here of the parent's workflows; what is to run here.
    pub async fn placements(
        &self,
        request: &PlacementsRequest,
        wait: Duration,
    ) -> Result<PlacementsAnswer, LinkError> {
        let answer = self.caller.placements(request, Some(wait), MAX_PLACEMENTS_ANSWER_BYTES).await?;
        PlacementsAnswer::parse(&answer).map_err(|error| LinkError::Nonsense(error.to_string()))
    }

    /// The strategy of an offer.
    pub async fn release(&self, id: &str, offer: &str) -> Result<Vec<u8>, LinkError> {
        self.caller.release(id, offer, MAX_STRATEGY_BYTES).await
    }

    /// Downloads the functions of an offer, a zip of at most so many bytes, to a file; what has come of it stays when the line breaks.
    pub async fn functions(&self, id: &str, offer: &str, into: &Path, at_most: u64) -> Result<(), LinkError> {
        child_client::download(&self.caller, id, offer, into, at_most).await
    }

    /// Answered with the parent's time where a stage is reported that goes on.
    pub async fn result(
        &self,
        id: &str,
        offer: &str,
        summary: StageSummary,
    ) -> Result<Option<ManagerTime>, LinkError> {
        let next = summary.next_stage.clone();
        self.caller.result(id, offer, summary, next.as_deref()).await
    }

    /// What the parent asked.
    pub async fn answers(&self, id: &str, answers: Vec<QuestionAnswer>) -> Result<(), LinkError> {
        let body = AnswersRequest { id: id.into(), answers };
        let request = self.caller.post(&["answers"], &body);
        self.caller.send(request, Span::Short, MAX_ANSWER_BYTES).await?;
        Ok(())
    }

    /// Whether a stage may end, whether what was released is to be taken back, and which stages are to be passed over.
    pub async fn end_stage(
        &self,
        id: &str,
        offer: &str,
        stage: &str,
        (skipped, failures): (Vec<String>, Option<u32>),
        wait_ms: Option<u64>,
    ) -> Result<EndStageAnswer, LinkError> {
        let body = EndStageRequest {
            id: id.into(),
            stage_name: stage.into(),
            strategy_id: offer.into(),
            skipped,
            shares: BTreeMap::new(),
            failures,
        };
        self.caller.end_stage(&body, wait_ms.map(Duration::from_millis)).await
    }
}

/// Those features of a parent that this manager has too.
fn common(features: &[String]) -> Vec<String> {
    let of_managers = [
        FEATURE_QUESTIONS,
        FEATURE_RETRY,
        FEATURE_CLASSES,
        FEATURE_TRAFFIC,
        FEATURE_SERVICES,
        FEATURE_AGENTS,
        FEATURE_RUNS,
    ];
    let known = of_managers.into_iter().chain([FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS]);
    known.filter(|known| features.iter().any(|feature| feature == known)).map(str::to_owned).collect()
}

fn read<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, LinkError> {
    serde_json::from_slice(body).map_err(|error| LinkError::Nonsense(error.to_string()))
}

/// A text that is JSON already.
trait DeserializeStr<'a>: Sized {
    fn deserialize_str(text: &'a str) -> Result<Self, LinkError>;
}

impl<'a> DeserializeStr<'a> for &'a RawValue {
    fn deserialize_str(text: &'a str) -> Result<Self, LinkError> {
        read(text.as_bytes())
    }
}
