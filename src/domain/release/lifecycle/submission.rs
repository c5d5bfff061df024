//! A release as it comes in.

use std::sync::Arc;

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
}
