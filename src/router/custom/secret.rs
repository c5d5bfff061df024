use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Of a secret that is written in base64.
const PREFIX: &str = "whsec_";

/// The fewest and the most bytes of a secret, as Standard Webhooks has them.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// What signs calls. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// `whsec_` and 24 to 64 bytes in base64, as `echo whsec_$(openssl rand -base64 32)` prints them.
    ///
    /// # Errors
    ///
    /// Anything else, without what was written.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let bytes = text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.filter(|bytes| BYTES.contains(&bytes.len()));
        let why = "its first line is not whsec_ and 24 to 64 bytes in base64: `echo whsec_$(openssl rand -base64 32)` prints one";
        bytes.map(|bytes| Self(bytes.into())).ok_or(why)
    }

    /// The signature of a call, as it stands in `webhook-signature`. `timestamp`: seconds since 1970.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // A key of this kind may have any length.
            return String::new();
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
