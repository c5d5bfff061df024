//! Archives of functions in memory: those of releases that are not over, and some of the others.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use papaya::HashMap;

/// Bytes of function archives kept in memory beside those of the open releases.
const CACHE_BYTES: usize = 256 * 1024 * 1024;

/// Archives that are kept in memory, by digest.
#[derive(Debug, Default)]
pub struct Archives {
    by_digest: HashMap<[u8; 32], Bytes>,
    /// Oldest first.
    order: Mutex<Vec<[u8; 32]>>,
}

impl Archives {
    pub fn get(&self, digest: &[u8; 32]) -> Option<Bytes> {
        self.by_digest.pin().get(digest).cloned()
    }

    /// Keeps one; those that are not in use make room first.
    pub(super) fn keep(&self, digest: [u8; 32], bytes: Bytes, is_in_use: impl Fn(&[u8; 32]) -> bool) {
        let archives = self.by_digest.pin();
        if archives.insert(digest, bytes).is_some() {
            return;
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.push(digest);
        let mut total: usize = order.iter().filter_map(|digest| archives.get(digest)).map(Bytes::len).sum();
        order.retain(|old| {
            let keep = total <= CACHE_BYTES || *old == digest || is_in_use(old);
            if !keep && let Some(bytes) = archives.remove(old) {
                total -= bytes.len();
            }
            keep
        });
    }
}
