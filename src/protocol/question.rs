//! Questions to managers below, and their answers. A parent can't call its children, so a question goes down with the
//! answer to a poll, and its answer comes up as a call of the manager: `POST /answers`.
//!
//! What is asked and answered is JSON that these forms only carry: see `questions` for the kinds there are.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    WireError,
    read::{at_most, read, within},
    text,
};
use model::MAX_OFFER_ID_LEN;

pub use model::FEATURE_QUESTIONS;

/// Most features that either side may name.
pub const MAX_FEATURES: usize = 32;

/// Most questions in one answer to a poll, and most answers in one call.
pub const MAX_QUESTIONS: usize = 16;

/// Most entries of an answer; who wants more asks again for those after.
pub const MAX_ANSWER_ENTRIES: usize = 1_000;

/// Largest question, in bytes: a target of many corners.
pub const MAX_QUESTION_BYTES: usize = 512 * 1024;

/// Largest body of a call with answers, in bytes.
pub const MAX_ANSWERS_BODY_BYTES: usize = 2 * 1024 * 1024;

/// Longest kind of a question, in bytes.
pub const MAX_KIND_BYTES: usize = 64;

/// Longest reason for which a question is not answered, in bytes.
pub const MAX_REFUSAL_BYTES: usize = 256;

/// What a manager is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Question")]
pub struct QuestionForm {
    pub id: String,
    pub kind: String,
    /// The answer has to be there within so many milliseconds.
    pub within_ms: u64,
    #[serde(default)]
    pub body: Value,
}

impl QuestionForm {
    /// Checks the limits of what a parent sends.
    pub fn validate(&self) -> Result<(), WireError> {
        within("questions.id", &self.id, MAX_OFFER_ID_LEN)?;
        within("questions.kind", &self.kind, MAX_KIND_BYTES)
    }
}

/// `POST /answers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswersRequest<'a> {
    /// The manager's.
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    /// 1 to [`MAX_QUESTIONS`].
    pub answers: Vec<QuestionAnswer>,
}

/// The answer to one question: a body, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The question's.
    pub id: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl<'a> AnswersRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        if request.answers.is_empty() {
            return Err(WireError::new("`answers` must hold at least one answer"));
        }
        at_most("answers", request.answers.len(), MAX_QUESTIONS)?;
        for answer in &request.answers {
            within("answers.id", &answer.id, MAX_OFFER_ID_LEN)?;
            if let Some(error) = &answer.error {
                within("answers.error", error, MAX_REFUSAL_BYTES)?;
            }
        }
        Ok(request)
    }
}
