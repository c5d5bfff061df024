use std::{fmt, str::FromStr};

use model::hex;
use serde::{Deserialize, Serialize};

/// The digest of a version's content, in lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionId(Box<str>);

/// The fewest and the most digits of a digest: those of 64 and of 256 bits.
const DIGITS: std::ops::RangeInclusive<usize> = 16..=64;
/// How many digits name a folder. Socket paths have at most 107 bytes, so that not all do.
const SHORT: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no digest of a version: 16 to 64 of the digits 0-9 and a-f")]
pub struct VersionIdError(String);

impl VersionId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of a digest that is written in digits already.
    pub(crate) fn of_digits(digits: String) -> Self {
        debug_assert!(digits.parse::<Self>().is_ok(), "{digits} is no digest");
        Self(digits.into())
    }

    /// What names its folder.
    pub(crate) fn short(&self) -> &str {
        &self.0[..SHORT]
    }
}

impl FromStr for VersionId {
    type Err = VersionIdError;

    fn from_str(text: &str) -> Result<Self, VersionIdError> {
        if DIGITS.contains(&text.len()) && hex::is_encoded(text) {
            Ok(Self(text.into()))
        } else {
            Err(VersionIdError(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for VersionId {
    type Error = VersionIdError;

    fn try_from(text: String) -> Result<Self, VersionIdError> {
        text.parse()
    }
}

impl From<VersionId> for String {
    fn from(version: VersionId) -> Self {
        version.0.into()
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
