//! Ids: what children and developers call things (strings), and what the engine calls them (small numbers).
//!
//! An outer id is `[A-Za-z0-9._~-]`: agents put ids into URLs unescaped, so nothing else is safe.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Longest child id accepted, in bytes.
pub const MAX_CHILD_ID_LEN: usize = 64;

/// Longest offer id handed out, in bytes.
pub const MAX_OFFER_ID_LEN: usize = 64;

/// Longest release id accepted, in bytes. The rest up to [`MAX_OFFER_ID_LEN`] is for the suffixes of offers.
pub const MAX_RELEASE_ID_LEN: usize = 48;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("an id must not be empty")]
    Empty,
    #[error("an id has at most {max} bytes, this one has {len}")]
    TooLong { len: usize, max: usize },
    #[error("an id consists of letters, digits and . _ ~ -, not of {0:?}")]
    Character(char),
    #[error("an id must not be \".\" or \"..\"")]
    Dots,
}

fn check(text: &str, max: usize) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > max {
        return Err(IdError::TooLong { len: text.len(), max });
    }
    if let Some(c) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-')))
    {
        return Err(IdError::Character(c));
    }
    // A client that normalises paths would walk up a folder.
    if text == "." || text == ".." {
        return Err(IdError::Dots);
    }
    Ok(())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an id; see [`IdError`] for what is refused.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                check(text, $max)?;
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// What a child is called in every call: given by the manager at its first poll, or brought along.
    ChildId,
    MAX_CHILD_ID_LEN
);
text_id!(
    /// What the developer calls a release: the `id` of the strategy.
    ReleaseId,
    MAX_RELEASE_ID_LEN
);

/// The engine's own number of a child: dense, given in order of birth, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChildKey(pub u32);

/// The engine's own number of a release: given in order of submission, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseKey(pub u32);
