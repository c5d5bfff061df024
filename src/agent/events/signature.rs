//! The signature of an event that one node hands to another.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::event::Event;

impl Event<'_> {
    fn mac(&self, key: &str) -> Option<Hmac<Sha256>> {
        let Self { part, node, from, logical, number, output, age_ms, body } = self;
        let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
        let head = format!("{part}\n{node}\n{from}\n{logical}\n{number}\n{output}\n{age_ms}\n");
        Some(mac.chain_update(head).chain_update(body))
    }

    /// As it stands in the field.
    pub fn sign(&self, key: &str) -> String {
        let mac = self.mac(key);
        mac.map(|mac| BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).unwrap_or_default()
    }

    pub fn is_signed(&self, key: &str, signature: &str) -> bool {
        let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        !key.is_empty() && self.mac(key).is_some_and(|mac| mac.verify_slice(&signature).is_ok())
    }
}
