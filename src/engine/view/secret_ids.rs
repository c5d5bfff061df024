//! Ids of offers that nobody can guess.
//!
//! Deployed agents download functions without saying who they are, so whoever knows the id of an offer gets its archive. That is fine for
//! releases of the manager's own, and not for those of a tenant: others know what these are called, or try. So children that say nothing of
//! themselves are offered a tenant's release under `~TENANT~SECRET` and the suffix of the offer, where the secret has 122 bits or more
//! that only this store's key gives. All others name themselves when they download, and keep the release's own name.
//!
//! Releases that the store had before it had a key are offered as they were: their offers may be in somebody's hands.

use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use papaya::HashMap;
use sha2::Sha256;

use domain::release::offer::OfferName;
use model::{ReleaseId, ReleaseKey};

/// Five bits each.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Of 128 bits.
const SECRET_DIGITS: u32 = 26;

/// What makes the ids, kept for the life of a store.
#[derive(Clone, PartialEq, Eq)]
pub struct OfferKey {
    pub key: String,
    /// The newest release that there was before.
    pub after: Option<ReleaseKey>,
}

impl std::fmt::Debug for OfferKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OfferKey").field("after", &self.after).finish_non_exhaustive()
    }
}

impl OfferKey {
    /// What stands in the place of the id of a tenant's release; `None`: it is known by its own.
    fn secret(&self, key: ReleaseKey, id: &ReleaseId) -> Option<String> {
        let tenant = id.tenant().filter(|_| self.after.is_none_or(|after| key > after))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).ok()?;
        mac.update(&key.0.to_be_bytes());
        mac.update(id.as_str().as_bytes());
        let bits = u128::from_be_bytes(*mac.finalize().into_bytes().first_chunk()?);
        let digit = |at: u32| char::from(DIGITS[(bits >> (5 * at)) as usize % DIGITS.len()]);
        Some(format!("~{tenant}~{}", (0..SECRET_DIGITS).map(digit).collect::<String>()))
    }
}

/// The secrets of all releases that are known.
#[derive(Debug, Default)]
pub(super) struct SecretIds {
    key: OnceLock<OfferKey>,
    releases: HashMap<String, ReleaseId>,
}

impl SecretIds {
    /// Before any release is known. The first is for life.
    pub fn begin(&self, key: OfferKey) {
        let _ = self.key.set(key);
    }

    pub fn know(&self, key: ReleaseKey, id: &ReleaseId) {
        if let Some(secret) = self.of(key, id) {
            self.releases.pin().insert(secret, id.clone());
        }
    }

    pub fn forget(&self, key: ReleaseKey, id: &ReleaseId) {
        if let Some(secret) = self.of(key, id) {
            self.releases.pin().remove(&secret);
        }
    }

    pub fn of(&self, key: ReleaseKey, id: &ReleaseId) -> Option<String> {
        self.key.get()?.secret(key, id)
    }

    /// The offer's own id, if this is its secret one.
    pub fn open(&self, offer: &str) -> Option<String> {
        let releases = self.releases.pin();
        OfferName::candidates(offer).find_map(|(secret, name)| Some(name.id(releases.get(secret)?.as_str())))
    }
}
