//! What can go wrong with an answer. Each is the verdict `error`, so each says enough to mend it.

use std::time::Duration;

/// Longest text of a provider that an error repeats, in characters.
pub const MAX_ERROR_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    #[error("it can't be reached: {0}")]
    Unreachable(String),
    #[error("it didn't answer within {}", model::duration::show_millis(.0.as_millis() as u64))]
    Timeout(Duration),
    #[error("the file with its secret can't be used: {0}")]
    Secret(String),
    #[error("it answered {0}, a redirect, and those are not followed: configure where it leads")]
    Redirected(u16),
    /// A status of 4xx: the question or the credentials are wrong.
    #[error("it refused with {status}: {text}")]
    Refused { status: u16, text: String },
    /// A status of 5xx, or one that no answer has.
    #[error("it answered {status}: {text}")]
    Troubled { status: u16, text: String },
    #[error("its answer ended in the middle: {0}")]
    Broken(String),
    #[error("its answer has more than {0} bytes")]
    TooLarge(usize),
    #[error(
        "that would be {points} points, at most {most} are possible: look for a shorter time or with a longer step"
    )]
    TooManyPoints { points: u64, most: usize },
    #[error("its answer can't be understood: {0}")]
    Nonsense(String),
    #[error("its answer is only partial: {0}")]
    Partial(String),
    #[error("the query gives {0} series, and one is needed: sum or average them in the query")]
    SeveralSeries(usize),
    #[error("the query gives {0}, and numbers over time are needed")]
    WrongKind(String),
    #[error("{0} is not a number")]
    NotANumber(String),
    #[error("a value is infinite: the query may divide by 0")]
    Infinite,
}

/// A provider that can't be set up as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider {provider:?} can't be set up: {message}")]
pub struct SetupError {
    pub provider: String,
    pub message: String,
}

/// A stranger's text, short and on one line.
pub(super) fn shown(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect()
}
