//! A release as it comes in.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::release::parent::ParentOffer;
use language::Strategy;
use model::ReleaseId;

/// A release as it was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    /// The YAML as sent.
    pub text: Arc<str>,
    /// Over the parsed strategy and the functions.
    pub digest: [u8; 32],
    /// Names the functions' archive in the store.
    pub archive: [u8; 32],
    /// `None`: a developer submitted it here.
    pub parent: Option<ParentOffer>,
    /// It starts only when somebody says so.
    pub deferred: bool,
    /// `None`: once it has ended, nothing is registered.
    pub adopts: Option<Arc<Adoption>>,
}

/// What is registered once a release has ended well: carried along, never interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// As the kind is stored: `release`.
    pub kind: String,
    pub name: String,
    /// UUID.
    pub id: String,
    /// JSON object.
    pub detail: String,
}

impl Submission {
    /// By which it is recognised when it comes again. What it adopts counts: a release that is planned once more adopts what it was
    /// submitted with, so the same strategy with another adoption is another submission.
    pub(in crate::release) fn recognised_by(&self) -> [u8; 32] {
        let Some(Adoption { kind, name, id, detail }) = self.adopts.as_deref() else { return self.digest };
        let mut hash = Sha256::new().chain_update(self.digest);
        for text in [kind, name, id, detail] {
            // With its length, so that no two adoptions read the same.
            hash = hash.chain_update((text.len() as u64).to_be_bytes()).chain_update(text);
        }
        hash.finalize().into()
    }
}
