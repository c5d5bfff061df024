use serde::{Deserialize, Serialize};

/// When a call that a new version failed is repeated on the stable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Whenever it failed before anything of the answer was passed on, though the new version may have carried it out.
    Failed,
    /// Only where the new version can't have seen it: there was no connection to it, or no place for the call.
    Refused,
    Never,
}

impl Retry {
    pub const ALL: [Self; 3] = [Self::Failed, Self::Refused, Self::Never];

    /// As it is written in strategies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Never => "never",
        }
    }

    /// What holds for a method where nothing was declared: those that may be carried out twice are repeated.
    #[must_use]
    pub fn default_for(method: &[u8]) -> Self {
        match method {
            b"GET" | b"HEAD" | b"PUT" | b"DELETE" | b"OPTIONS" => Self::Failed,
            _ => Self::Refused,
        }
    }
}

/// How a version failed a call before the first byte of its answer's body was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// No connection could be made, or all its places were taken: it can't have seen the call.
    Refused,
    /// The connection ended before there was a whole head of an answer.
    Died,
    /// There was no head of an answer in time.
    TimedOut,
    /// What it answered is no HTTP.
    Nonsense,
    /// It answered with a status from 500 to 599.
    Status,
}

impl Failure {
    pub const ALL: [Self; 5] = [Self::Refused, Self::Died, Self::TimedOut, Self::Nonsense, Self::Status];

    /// Its name in counts, metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Died => "died",
            Self::TimedOut => "timed_out",
            Self::Nonsense => "nonsense",
            Self::Status => "status",
        }
    }
}

/// Whether a call that failed so may be repeated.
#[must_use]
pub fn may_repeat(retry: Retry, failure: Failure) -> bool {
    match (retry, failure) {
        (Retry::Failed, _) | (Retry::Refused, Failure::Refused) => true,
        (Retry::Never, _)
        | (Retry::Refused, Failure::Died | Failure::TimedOut | Failure::Nonsense | Failure::Status) => false,
    }
}

/// How the last [`Recent::CALLS`] calls of a new version went. While more than half of them had to be repeated, further calls go
/// to the stable version at once, but for every [`Recent::PROBE`]th, which shows whether the new version is back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recent {
    repeated: u32,
    passed_over: u8,
}

impl Recent {
    pub const CALLS: u32 = 20;
    pub const PROBE: u8 = 20;

    /// Notes how a call went.
    pub fn note(&mut self, was_repeated: bool) {
        self.repeated = ((self.repeated << 1) | u32::from(was_repeated)) & ((1 << Self::CALLS) - 1);
    }

    /// Whether the next call is to go past the new version.
    pub fn passes_over(&mut self) -> bool {
        if self.repeated.count_ones() * 2 <= Self::CALLS {
            self.passed_over = 0;
            return false;
        }
        self.passed_over = (self.passed_over + 1) % Self::PROBE;
        self.passed_over != 0
    }
}
