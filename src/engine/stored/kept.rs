//! The stored forms of what a manager keeps of itself, and of where strategies went.

use serde::{Deserialize, Serialize};

use super::form::Version;
use crate::{kept::Enrolled, pointers::Pointer};

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
