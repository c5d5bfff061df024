use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use model::hex;
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
        format!("v1={}", hex::encode(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
