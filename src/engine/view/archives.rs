//! Archives of functions in memory: those of releases that are not over, and some of the others.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use papaya::HashMap;
use sha2::{Digest as _, Sha256};
use tokio::{sync::OnceCell, task::spawn_blocking};

/// Bytes of function archives kept in memory beside those of the open releases.
const CACHE_BYTES: usize = 256 * 1024 * 1024;

/// The digest of an archive with more bytes is made where it keeps no other call waiting.
const QUICK_BYTES: usize = 64 * 1024;

/// An archive that is kept in memory.
#[derive(Debug, Clone)]
pub struct Archive {
    pub bytes: Bytes,
    /// SHA-256 of the bytes, once it was asked for. What names an archive is the digest of what is in it.
    sum: Arc<OnceCell<[u8; 32]>>,
}

impl Archive {
    fn new(bytes: Bytes) -> Self {
        Self { bytes, sum: Arc::default() }
    }

    /// SHA-256 of the bytes. It is made once, however many ask at the same time.
    pub async fn sum(&self) -> [u8; 32] {
        let sum = self.sum.get_or_init(async || {
            let bytes = self.bytes.clone();
            if bytes.len() <= QUICK_BYTES {
                return sum(&bytes);
            }
            match spawn_blocking(move || sum(&bytes)).await {
                Ok(sum) => sum,
                // Nobody works any more beside what is there: the process ends.
                Err(_) => sum(&self.bytes),
            }
        });
        *sum.await
    }
}

fn sum(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Archives that are kept in memory, by digest.
#[derive(Debug, Default)]
pub struct Archives {
    by_digest: HashMap<[u8; 32], Archive>,
    /// Oldest first.
    order: Mutex<Vec<[u8; 32]>>,
}

impl Archives {
    pub fn get(&self, digest: &[u8; 32]) -> Option<Archive> {
        self.by_digest.pin().get(digest).cloned()
    }

    /// Keeps one; those that are not in use make room first.
    pub(super) fn keep(
        &self,
        digest: [u8; 32],
        bytes: Bytes,
        is_in_use: impl Fn(&[u8; 32]) -> bool,
    ) -> Archive {
        let archives = self.by_digest.pin();
        let kept = Archive::new(bytes);
        if archives.insert(digest, kept.clone()).is_some() {
            return kept;
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.push(digest);
        let mut total: usize =
            order.iter().filter_map(|digest| archives.get(digest)).map(|archive| archive.bytes.len()).sum();
        order.retain(|old| {
            let keep = total <= CACHE_BYTES || *old == digest || is_in_use(old);
            if !keep && let Some(archive) = archives.remove(old) {
                total -= archive.bytes.len();
            }
            keep
        });
        kept
    }
}
