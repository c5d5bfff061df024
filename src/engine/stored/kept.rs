//! The stored forms of what a manager keeps of itself, of where strategies went, and of what the parent is owed.

use serde::{Deserialize, Serialize};

use super::form::{Version, forms};
use crate::{kept::Enrolled, pointers::Pointer};
use heart::release::classes::Begun;

/// The value of the setting `enrolled`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnrolledForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    url: String,
    id: String,
}

impl From<&Enrolled> for EnrolledForm {
    fn from(enrolled: &Enrolled) -> Self {
        let Enrolled { url, id } = enrolled.clone();
        Self { version: Version::NOW, url, id }
    }
}

impl From<EnrolledForm> for Enrolled {
    fn from(form: EnrolledForm) -> Self {
        let EnrolledForm { version: _, url, id } = form;
        Self { url, id }
    }
}

/// `pointers.detail`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PointerForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    release: String,
    to: String,
}

impl From<&Pointer> for PointerForm {
    fn from(pointer: &Pointer) -> Self {
        let Pointer { release, to } = pointer.clone();
        Self { version: Version::NOW, release, to }
    }
}

impl From<PointerForm> for Pointer {
    fn from(form: PointerForm) -> Self {
        let PointerForm { version: _, release, to } = form;
        Self { release, to }
    }
}

/// By what the history of children is found, for the parent's classes of them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Begun")]
pub(crate) struct HistoryForm {
    function: String,
    at_ms: i64,
}

forms! { HistoryForm = Begun }
