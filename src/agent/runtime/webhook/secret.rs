use std::fmt::{self, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The fewest bytes of a secret.
const SHORTEST: usize = 16;

/// What signs calls. It is never shown.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(super) fn is_long_enough(&self) -> bool {
        self.0.len() >= SHORTEST
    }

    /// The signature of a body that was made at this time, as it stands in the field.
    #[must_use]
    pub fn sign(&self, timestamp: u64, body: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // A key of this kind may have any length.
            return String::new();
        };
        mac.update(format!("{timestamp}.").as_bytes());
        mac.update(body);
        let mut text = "v1=".to_owned();
        for byte in mac.finalize().into_bytes() {
            // Writing into a text can't fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
