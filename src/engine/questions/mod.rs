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
//! - lists come in pages of at most [`MAX_ANSWER_ENTRIES`](protocol::question::MAX_ANSWER_ENTRIES);
//! - nothing that comes back is believed to be sensible: what can't be read counts as not answered.
//!
//! # To add a kind
//!
//! 1. A file beside [`eligible`] with the types of its body and its answer, and a `struct` that is [`QuestionKind`]: its name on
//!    the wire, and one function that answers from the read side ([`ToAnswer`] has the engine, the time left, and
//!    [`ToAnswer::ask_below`] for managers below).
//! 2. A line in `answer` below.
//! 3. Whoever asks calls [`ask`] or [`ask_all`].
//!
//! A manager that doesn't know a kind says so by name, which counts as not answered; so kinds may come and go between
//! versions. Fields of a body or an answer may be added if they have a default.
//!
//! Deliberately not here: how questions wait and are handed out ([`crate::open_questions`]).

pub mod children;
pub mod deployments;
pub mod eligible;
mod kind;
pub mod liveness;
pub mod part;
pub mod path;
pub mod releases;
pub mod tree;

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout_at;

pub use self::kind::{MAX_ASKED, PATIENCE, QuestionKind, ToAnswer, Unanswered, ask, ask_all};
use crate::Engine;
use protocol::question::MAX_REFUSAL_BYTES;

/// Answers a question of the parent: JSON, or in a line why not.
pub async fn answer(engine: &Engine, kind: &str, body: &str, within: Duration) -> Result<Value, String> {
    let asked = ToAnswer::new(engine.clone(), within);
    let said = match kind {
        eligible::Eligible::NAME => read_and_answer::<eligible::Eligible>(asked, body).await,
        children::ChildrenOf::NAME => read_and_answer::<children::ChildrenOf>(asked, body).await,
        deployments::DeploymentsOf::NAME => read_and_answer::<deployments::DeploymentsOf>(asked, body).await,
        releases::ReleasesOf::NAME => read_and_answer::<releases::ReleasesOf>(asked, body).await,
        releases::ReleaseOf::NAME => read_and_answer::<releases::ReleaseOf>(asked, body).await,
        tree::TreeOf::NAME => read_and_answer::<tree::TreeOf>(asked, body).await,
        part::PartOf::NAME => read_and_answer::<part::PartOf>(asked, body).await,
        unknown => Err(format!("questions of the kind {unknown:?} are not known here")),
    };
    said.map_err(|why| why.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_BYTES / 4).collect())
}

async fn read_and_answer<K: QuestionKind>(asked: ToAnswer, body: &str) -> Result<Value, String> {
    let body = serde_json::from_str(body).map_err(|error| format!("the body can't be read: {error}"))?;
    let until = asked.until;
    let said = timeout_at(until, K::answer(asked, body)).await;
    let answer = said.map_err(|_| "no answer in time".to_owned())??;
    serde_json::to_value(answer).map_err(|error| format!("the answer can't be written: {error}"))
}
