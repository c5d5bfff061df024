use std::{fmt, str::FromStr};

use model::hex;
use xxhash_rust::xxh64::xxh64;

/// All that a process of `HAProxy` has to be started anew for, as a digest of 32 hexadecimal digits.
///
/// Two of them tell each other apart by accident, not by intent: whoever may have the file written may write any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Structure(String);

impl Structure {
    pub(super) fn of(text: &str) -> Self {
        Self(digest(text.as_bytes()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:016x}{:016x}", xxh64(bytes, 0), xxh64(bytes, 1))
}

impl FromStr for Structure {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 32 || !hex::is_encoded(text) {
            return Err(());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
