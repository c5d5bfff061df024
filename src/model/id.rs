//! Ids: what children and developers call things (strings), and what the engine calls them (small numbers).
//!
//! An outer id is `[A-Za-z0-9._~-]`: agents put ids into URLs unescaped, so nothing else is safe.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

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

/// Longest text that a [`Short`] holds itself, in bytes: a UUID has 36.
const SHORT: usize = 38;

/// The text of an id. There is one for every child, so those that managers give, and whatever is as short, take no
/// memory of their own.
#[derive(Clone)]
enum Short {
    Here { len: u8, bytes: [u8; SHORT] },
    There(Arc<str>),
}

impl Short {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Here { len, bytes } => &bytes[..usize::from(*len)],
            Self::There(text) => text.as_bytes(),
        }
    }
}

impl From<&str> for Short {
    fn from(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            None => Self::There(text.into()),
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Self::Here { len: text.len() as u8, bytes }
            }
        }
    }
}

impl AsRef<str> for Short {
    fn as_ref(&self) -> &str {
        match self {
            // It was a text when it was put here.
            Self::Here { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::There(text) => text,
        }
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl PartialEq for Short {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Short {}

impl PartialOrd for Short {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Short {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// As the text has it, which maps look it up by.
impl Hash for Short {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident($text:ty), $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name($text);

        impl $name {
            /// Parses an id; see [`IdError`] for what is refused.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                check(text, $max)?;
                Ok(Self(<$text>::from(text)))
            }

            pub fn as_str(&self) -> &str {
                self.0.as_ref()
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
                id.as_str().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

text_id!(
    /// What a child is called in every call: given by the manager at its first poll, or brought along.
    ChildId(Short),
    MAX_CHILD_ID_LEN
);
text_id!(
    /// What the developer calls a release: the `id` of the strategy.
    ReleaseId(Arc<str>),
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

impl ChildId {
    /// Whether this is the id, without a look at what it consists of.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes() == text.as_bytes()
    }
}
