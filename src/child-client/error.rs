use std::error::Error;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("{0:?} is no address of a manager: it looks like https://HOST:PORT")]
    Address(String),
    /// What this side was configured with can't be used.
    #[error("{0}")]
    Settings(String),
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
    #[error("it has functions of more than {at_most} bytes, which is the most that is taken here")]
    TooLarge { at_most: u64 },
    /// What came could not be kept on this machine.
    #[error("{0}")]
    Disk(String),
}

impl LinkError {
    /// Whether the same call may go better later, without anybody changing what this side was told.
    pub fn passes(&self) -> bool {
        match self {
            Self::Address(_) | Self::Settings(_) => false,
            // Somebody may answer in the manager's place for a while, as networks do that want a log-in first.
            Self::Unreachable(_)
            | Self::Troubled(_)
            | Self::Nonsense(_)
            | Self::TooLarge { .. }
            | Self::Disk(_) => true,
            // Too slow, too early, too often.
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429),
        }
    }
}

impl From<reqwest::Error> for LinkError {
    fn from(error: reqwest::Error) -> Self {
        // The address may hold a secret.
        let error = error.without_url();
        let why = innermost(&error);
        if error.is_builder() {
            return Self::Settings(why);
        }
        if error.is_timeout() {
            return Self::Unreachable("it didn't answer in time".to_owned());
        }
        Self::Unreachable(if error.is_connect() { format!("it can't be reached: {why}") } else { why })
    }
}

/// The cause behind all others, which says what has happened.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
