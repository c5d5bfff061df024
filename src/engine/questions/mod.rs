//! What a manager asks the managers below it, and what it answers the one above.
//!
//! Parents can't call their children. A question goes down with the answer to a manager's long poll and its answer comes
//! up as a call (`POST /answers`). Everything that a parent wants to know of what is below goes this way, on demand.
//!
//! ```text
//! ask::<K>(child, body) ─▶ open_questions ─▶ answer to the child's /poll ─▶ answer(kind, body) there
//!        ▲                                                                         │ may ask below, in the time left
//!        └────────────────────────── POST /answers ◀───────────────────────────────┘
//! ```
//!
//! Invariants:
//! - read-only: answering a question changes nothing and stores nothing;
//! - one hop at a time: a manager answers for what is below it, and asks its own managers for that;
//! - [`PATIENCE`] in all. Each hop keeps a part of it for the way back, so those who answered are heard of although
//!   others did not;
//! - lists come in pages of at most [`MAX_ANSWER_ENTRIES`](wire::question::MAX_ANSWER_ENTRIES);
//! - nothing that comes back is believed to be sensible: what can't be read counts as not answered.
//!
//! # To add a kind
//!
//! 1. A file beside [`eligible`] with the types of its body and its answer, and a `struct` that is [`Kind`]: its name on
//!    the wire, and one function that answers from the read side ([`Asked`] has the engine, the time left, and
//!    [`Asked::below`] for managers below).
//! 2. A line in `answer` below.
//! 3. Whoever asks calls [`ask`] or [`ask_all`].
//!
//! A manager that doesn't know a kind says so by name, which counts as not answered; so kinds may come and go between
//! versions. Fields of a body or an answer may be added if they have a default.
//!
//! Deliberately not here: how questions wait and are handed out ([`crate::questions`]).

pub mod children;
pub mod deployments;
pub mod eligible;
pub mod part;
pub mod turnout;

use std::time::Duration;

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::{Engine, open_questions::Asking};
use model::{ChildKey, ChildKind};
use wire::question::{FEATURE_QUESTIONS, MAX_QUESTION_BYTES, MAX_REFUSAL_BYTES};

/// Whoever asks waits so long for all answers together.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What a hop keeps for the way back at least, and the part of the time that is left which it keeps otherwise.
const MIN_KEPT: Duration = Duration::from_millis(50);
const KEPT: u32 = 8;

/// Managers that are asked at once; more are not asked.
pub const MAX_ASKED: usize = 1_000;

/// How long the engine may take for a look at the state.
const LOOK_PATIENCE: Duration = PATIENCE;

/// A kind of question.
pub trait Kind: 'static {
    /// On the wire.
    const NAME: &'static str;
    type Body: Serialize + DeserializeOwned + Send + Sync;
    type Answer: Serialize + DeserializeOwned + Send;

    /// Answers for this manager and what is below it. The error is a line for whoever asked.
    fn answer(asked: Asked, body: Self::Body) -> impl Future<Output = Result<Self::Answer, String>> + Send;
}

/// Answers a question of the parent: JSON, or in a line why not.
pub async fn answer(engine: &Engine, kind: &str, body: &str, within: Duration) -> Result<Value, String> {
    let asked = Asked::new(engine.clone(), within);
    let said = match kind {
        eligible::Eligible::NAME => run::<eligible::Eligible>(asked, body).await,
        children::ChildrenOf::NAME => run::<children::ChildrenOf>(asked, body).await,
        deployments::DeploymentsOf::NAME => run::<deployments::DeploymentsOf>(asked, body).await,
        part::PartOf::NAME => run::<part::PartOf>(asked, body).await,
        unknown => Err(format!("questions of the kind {unknown:?} are not known here")),
    };
    said.map_err(|why| why.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_BYTES / 4).collect())
}

async fn run<K: Kind>(asked: Asked, body: &str) -> Result<Value, String> {
    let body = serde_json::from_str(body).map_err(|error| format!("the body can't be read: {error}"))?;
    let until = asked.until;
    let said = timeout_at(until, K::answer(asked, body)).await;
    let answer = said.map_err(|_| "no answer in time".to_owned())??;
    serde_json::to_value(answer).map_err(|error| format!("the answer can't be written: {error}"))
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
pub struct Asked {
    pub engine: Engine,
    until: Instant,
}

impl Asked {
    /// With so much time, at most [`PATIENCE`].
    pub fn new(engine: Engine, within: Duration) -> Self {
        Self { engine, until: Instant::now() + within.min(PATIENCE) }
    }

    /// The time that is left for an answer.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The time that whoever is asked from here has.
    fn left_below(&self) -> Duration {
        let left = self.left();
        left.saturating_sub((left / KEPT).max(MIN_KEPT))
    }

    /// Looks at the state, as it is committed.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&heart::release::state::Snapshot) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.engine.read_apart(LOOK_PATIENCE, look).await.map_err(|error| error.to_string())
    }

    /// Asks managers below, all at once, within the time that is left; the answers come in the order of the questions.
    pub async fn below<K: Kind>(
        &self,
        of: Vec<(ChildKey, K::Body)>,
    ) -> Vec<(ChildKey, Result<K::Answer, Unanswered>)> {
        ask_all::<K>(&self.engine, of, self.left_below()).await
    }
}

/// Asks one child.
pub async fn ask<K: Kind>(
    engine: &Engine,
    child: ChildKey,
    body: &K::Body,
    time: Duration,
) -> Result<K::Answer, Unanswered> {
    let entry = engine.view().children.entry(child).ok_or(Unanswered::Unable)?;
    let profile = entry.profile.as_deref().filter(|profile| profile.kind == ChildKind::Rm);
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
pub async fn ask_all<K: Kind>(
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
