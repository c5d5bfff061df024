//! What a kind of question is, and how one is put to a manager below.

use std::time::Duration;

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::{Engine, open_questions::Asking};
use domain::release::state::Snapshot;
use model::ChildKey;
use protocol::question::{FEATURE_QUESTIONS, MAX_QUESTION_BYTES};

/// Whoever asks waits so long for all answers together.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What a hop keeps for the way back at least, and the part of the time that is left which it keeps otherwise.
const MIN_KEPT: Duration = Duration::from_millis(50);
const KEPT: u32 = 8;

/// Managers that are asked at once; more are not asked.
pub const MAX_ASKED: usize = 1_000;

/// How long the engine may take for a look at the state.
pub(super) const LOOK_PATIENCE: Duration = PATIENCE;

/// A kind of question.
pub trait QuestionKind: 'static {
    /// On the wire.
    const NAME: &'static str;
    type Body: Serialize + DeserializeOwned + Send + Sync;
    type Answer: Serialize + DeserializeOwned + Send;

    /// Answers for this manager and what is below it. The error is a line for whoever asked.
    fn answer(asked: ToAnswer, body: Self::Body)
    -> impl Future<Output = Result<Self::Answer, String>> + Send;
}

/// Why there is no answer. It is shown as "not asked", with what is known without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error("it is a manager that answers no questions")]
    Unable,
    #[error("too many questions are open, or this one is too large")]
    TooMuch,
    #[error("it didn't answer in time")]
    Late,
    #[error("it says: {0}")]
    Refused(String),
    #[error("it answered what can't be read: {0}")]
    Nonsense(String),
}

/// What answers a question has at hand.
#[derive(Debug, Clone)]
pub struct ToAnswer {
    pub engine: Engine,
    pub(super) until: Instant,
}

impl ToAnswer {
    /// With so much time, at most [`PATIENCE`].
    pub fn new(engine: Engine, within: Duration) -> Self {
        Self { engine, until: Instant::now() + within.min(PATIENCE) }
    }

    /// The time that is left for an answer.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The time that whoever is asked from here has.
    pub(super) fn left_below(&self) -> Duration {
        let left = self.left();
        left.saturating_sub((left / KEPT).max(MIN_KEPT))
    }

    /// Looks at the state, as it is committed.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.engine.read_apart(LOOK_PATIENCE, look).await.map_err(|error| error.to_string())
    }

    /// Asks managers below, all at once, within the time that is left; the answers come in the order of the questions.
    pub async fn ask_below<K: QuestionKind>(
        &self,
        of: Vec<(ChildKey, K::Body)>,
    ) -> Vec<(ChildKey, Result<K::Answer, Unanswered>)> {
        ask_all::<K>(&self.engine, of, self.left_below()).await
    }
}

/// Asks one child.
pub async fn ask<K: QuestionKind>(
    engine: &Engine,
    child: ChildKey,
    body: &K::Body,
    time: Duration,
) -> Result<K::Answer, Unanswered> {
    let entry = engine.view().children.entry(child).ok_or(Unanswered::Unable)?;
    let profile = entry.profile.as_deref().filter(|profile| profile.kind.is_manager());
    if !profile.is_some_and(|profile| profile.capabilities.has(FEATURE_QUESTIONS)) {
        return Err(Unanswered::Unable);
    }
    let body = serde_json::to_value(body).map_err(|error| Unanswered::Nonsense(error.to_string()))?;
    let asking = Asking::begin(engine.view(), child, (K::NAME, body), MAX_QUESTION_BYTES, time);
    let asking = asking.ok_or(Unanswered::TooMuch)?;
    let said = asking.answered().await.ok_or(Unanswered::Late)?.map_err(Unanswered::Refused)?;
    serde_json::from_value(said).map_err(|error| Unanswered::Nonsense(error.to_string()))
}

/// Asks several children at once: the first [`MAX_ASKED`] of them.
pub async fn ask_all<K: QuestionKind>(
    engine: &Engine,
    of: Vec<(ChildKey, K::Body)>,
    time: Duration,
) -> Vec<(ChildKey, Result<K::Answer, Unanswered>)> {
    let asked = of.into_iter().enumerate().map(|(at, (child, body))| async move {
        let said = if at < MAX_ASKED {
            ask::<K>(engine, child, &body, time).await
        } else {
            Err(Unanswered::TooMuch)
        };
        (child, said)
    });
    join_all(asked).await
}
