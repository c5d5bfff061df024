//! When a call that the new version failed is carried out by the base version.
//!
//! It says how whoever routes the calls goes about it, as `sticky` does. Nothing here repeats anything.

use serde::{Deserialize, Serialize};

use super::{fields::FieldEntry, findings::Findings, reading::read_word};

/// Which calls that the new version failed are repeated on the base version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// All that were failed before anything of the answer was passed on, though the new version may have carried them out.
    Failed,
    /// Only those that it can't have seen.
    Refused,
    Never,
}

impl Retry {
    /// As it is written.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Never => "never",
        }
    }
}

pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Retry> {
    let all = [Retry::Failed, Retry::Refused, Retry::Never].map(|retry| (retry.word(), retry));
    read_word(entry, "way for calls to be repeated", &all, findings)
}
