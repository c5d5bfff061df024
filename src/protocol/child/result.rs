//! `POST /result`: what a child measured, stage by stage.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    limits::{MAX_STAGE_NAME_BYTES, MAX_SUMMARIES},
    summary::StageSummary,
};
use crate::{
    WireError,
    read::{at_most, empty_for_none, read, within},
    text,
};

/// `POST /result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRequest<'a> {
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    /// The offer. A number is kept as it was written.
    #[serde(borrow, deserialize_with = "text::release_id")]
    pub release_id: Cow<'a, str>,
    /// 1 to [`MAX_SUMMARIES`], applied in order, all or none.
    pub stage_summaries: Vec<StageSummary>,
    /// What follows the last summary; see [`ResultRequest::next_stage_after`].
    #[serde(borrow, default, deserialize_with = "text::optional_text", serialize_with = "empty_for_none")]
    pub next_stage: Option<Cow<'a, str>>,
}

impl<'a> ResultRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.validate()?;
        Ok(request)
    }

    /// Checks numbers and limits; the refusal names the field.
    pub fn validate(&self) -> Result<(), WireError> {
        if self.stage_summaries.is_empty() {
            return Err(WireError::new("`stage_summaries` must hold at least one summary"));
        }
        at_most("stage_summaries", self.stage_summaries.len(), MAX_SUMMARIES)?;
        if let Some(next) = &self.next_stage {
            within("next_stage", next, MAX_STAGE_NAME_BYTES)?;
        }
        self.stage_summaries
            .iter()
            .enumerate()
            .try_for_each(|(index, summary)| summary.validate(&format!("stage_summaries[{index}]")))
    }

    /// The stage that the child says it runs after the summary at `index`: the summary's own `next_stage`, or for
    /// the last summary the one of the call. Nothing, `rollout` and `rollback` are no stage.
    pub fn next_stage_after(&self, index: usize) -> Option<&str> {
        self.says_next(index).filter(|name| !name.is_empty())
    }

    /// The stage that the child says it runs after the summary at `index`, but empty where the child says that no stage follows; nothing where it says nothing.
    pub fn says_next(&self, index: usize) -> Option<&str> {
        let own = self.stage_summaries.get(index)?.next_stage.as_deref();
        let of_call = || self.next_stage.as_deref().filter(|_| index + 1 == self.stage_summaries.len());
        let said = own.or_else(of_call)?;
        Some(if matches!(said, "rollout" | "rollback") { "" } else { said })
    }
}

/// The answer to a report of a stage that goes on: by this time children number the intervals of what they measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerTime {
    /// Milliseconds since 1970, of the manager at the top.
    pub time_ms: i64,
    /// By how much it may be off, in milliseconds: what managers know of the time of those above them.
    #[serde(default, skip_serializing_if = "is_exact")]
    pub time_error_ms: u32,
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_exact(error: &u32) -> bool {
    *error == 0
}
