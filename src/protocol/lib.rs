//! The JSON forms of the calls, shared by the server, the simulated fleet, the parent and the CLI.
//!
//! Invariants: parsing never panics, keeps nothing that was not asked for, and borrows from the body what it can
//! (a poll without escapes in its strings costs no allocation). A refusal is one line of text, however odd the
//! body was. Fields nobody knows are ignored: deployed children may send anything.
//!
//! Deliberately not here: what a call means. Whether an id or a stage exists is the engine's to say, and areas
//! stay unparsed text, because most polls repeat the area that is known byte for byte.

pub mod ab_releases;
pub mod api;
pub mod canary_releases;
pub mod child;
pub mod measurements;
mod number;
pub mod placements;
pub mod question;
mod read;
mod text;
pub mod time;
pub mod traffic;

pub use child::{
    Buckets, EndStageAnswer, EndStageRequest, FollowUp, HistogramForm, ManagerTime, PollAnswer, PollRequest,
    ResultRequest, StageSummary, StratumForm, TimesForm, VariationForm, VariationStratumForm,
};
use model::text::is_unprintable;
pub use model::{Capabilities, ChildKind, Leads};

/// Longest text of a refusal, in bytes: what it quotes comes from the caller.
pub const MAX_ERROR_BYTES: usize = 300;

/// Why a body was refused: one line of text that names the field where it can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WireError(String);

impl WireError {
    /// Keeps the text to one line of bounded length, whatever it quotes.
    pub(crate) fn new(text: &str) -> Self {
        let mut line = String::with_capacity(text.len().min(MAX_ERROR_BYTES));
        for c in text.chars() {
            if line.len() + c.len_utf8() > MAX_ERROR_BYTES {
                break;
            }
            line.push(if is_unprintable(c) { ' ' } else { c });
        }
        Self(line)
    }
}

impl From<serde_json::Error> for WireError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(&format!("the body can't be read: {error}"))
    }
}
