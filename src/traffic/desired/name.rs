//! Words that routers' own languages take as they stand.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a word isn't taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no {what}: {rule}")]
pub struct WordError {
    word: String,
    what: &'static str,
    rule: &'static str,
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $what:literal, $most:literal, $rule:literal, $is_one:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = WordError;

            fn from_str(text: &str) -> Result<Self, WordError> {
                let is_one: fn(&[u8]) -> bool = $is_one;
                if text.is_empty() || text.len() > $most || !is_one(text.as_bytes()) {
                    let word = text.chars().take(80).collect();
                    return Err(WordError { word, what: $what, rule: $rule });
                }
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = WordError;

            fn try_from(text: String) -> Result<Self, WordError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

word!(
    /// Of a service or a variation: letters, digits and `. _ -`, at most 63. It begins with a letter or digit, so that it may also be
    /// a file or a folder (`..` is none), and a word of a command line.
    Name,
    "name",
    63,
    "write 1 to 63 letters, digits and . _ -, of which the first is a letter or digit",
    |bytes| bytes[0].is_ascii_alphanumeric() && are(bytes, b"._-")
);

word!(
    /// Letters, digits, `_` and `-`, at most 64: what a cookie's name may be, and a variable of nginx can be made of.
    CookieName,
    "name of a cookie",
    64,
    "write 1 to 64 letters, digits and _ -",
    |bytes| are(bytes, b"_-")
);

word!(
    /// Letters, digits and `-`, at most 64, of which the first is a letter or digit.
    HeaderName,
    "name of a header",
    64,
    "write 1 to 64 letters, digits and -, of which the first is a letter or digit",
    |bytes| bytes[0].is_ascii_alphanumeric() && are(bytes, b"-")
);

word!(
    /// A value that a header may have: 1 to 256 printable characters of ASCII, whatever they mean to a router, with no space around
    /// them, which is none of a header's value. Whoever writes it down quotes it.
    HeaderValue,
    "value of a header",
    256,
    "write 1 to 256 printable characters of ASCII, with no space at either end",
    |bytes| {
        let is_ended = bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ');
        is_ended && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
    }
);

/// Letters, digits, and those beside them.
fn are(bytes: &[u8], beside: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || beside.contains(byte))
}
