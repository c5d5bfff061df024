//! What a manager keeps of itself, as settings of its store: its own id among managers, and who it is at its parent.
//!
//! A setting that can't be read is not as if there were none: it stays, and nothing takes its place.

use std::sync::OnceLock;

use super::stored::{self, EnrolledForm};
use store::{StoreError, rows::SettingRow};

const IDENTITY: &str = "identity";
const ENROLLED: &str = "enrolled";

/// What a manager keeps of itself, as one setting of its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The id of this manager among managers, made once for a store.
    Identity(String),
    /// It is stored before it is used, and replaced by the next.
    Enrolled(Enrolled),
}

/// Who this manager is at its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// The parent.
    pub url: String,
    pub id: String,
}

impl Setting {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Identity(_) => IDENTITY,
            Self::Enrolled(_) => ENROLLED,
        }
    }

    /// As it is stored.
    pub(super) fn value(&self) -> Result<String, StoreError> {
        match self {
            Self::Identity(id) => Ok(id.clone()),
            Self::Enrolled(enrolled) => stored::json(&EnrolledForm::from(enrolled)),
        }
    }

    fn read(row: &SettingRow) -> Result<Self, StoreError> {
        match row.name.as_str() {
            IDENTITY => stored::identity(row).map(Self::Identity),
            ENROLLED => stored::enrolled(row).map(Self::Enrolled),
            other => Err(stored::bad("settings", other, "name", "it is none")),
        }
    }
}

/// Whether this manager is known to a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enrolment {
    No,
    At(Enrolled),
    /// It may be.
    Unreadable,
}

/// Whether a setting is the id of this manager: without it the manager would give itself another.
pub(super) fn is_identity(row: &SettingRow) -> bool {
    row.name == IDENTITY
}

/// What was kept when this life began.
#[derive(Debug, Default)]
pub struct Kept {
    identity: OnceLock<String>,
    enrolment: OnceLock<Enrolment>,
}

impl Kept {
    /// Takes a setting of the store in. The error is about one that can't be read.
    pub(super) fn load(&self, row: &SettingRow) -> Result<(), StoreError> {
        match Setting::read(row) {
            Ok(Setting::Identity(id)) => self.name_self(id),
            Ok(Setting::Enrolled(enrolled)) => self.enroll(Enrolment::At(enrolled)),
            Err(error) => {
                if row.name == ENROLLED {
                    self.enroll(Enrolment::Unreadable);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// There is one row of each name, and the first id is for life.
    pub(super) fn name_self(&self, id: String) {
        let _ = self.identity.set(id);
    }

    fn enroll(&self, enrolment: Enrolment) {
        let _ = self.enrolment.set(enrolment);
    }

    /// The id of this manager among managers: the same for the life of its store. Empty while its first start is under way.
    pub fn identity(&self) -> &str {
        self.identity.get().map_or("", String::as_str)
    }

    pub fn enrolment(&self) -> Enrolment {
        self.enrolment.get().cloned().unwrap_or(Enrolment::No)
    }
}
