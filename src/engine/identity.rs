//! Who this manager is: its own id among managers, and who it is at its parent.

use std::sync::OnceLock;

use super::{
    json_columns,
    settings::{ENROLLED, Enrolled, IDENTITY},
};
use store::{StoreError, rows::SettingRow};

/// Whether this manager is known to a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enrolment {
    No,
    At(Enrolled),
    /// It may be.
    Unreadable,
}

/// What was kept when this life began.
#[derive(Debug, Default)]
pub struct Identity {
    identity: OnceLock<String>,
    enrolment: OnceLock<Enrolment>,
}

impl Identity {
    /// Takes a setting of the store in. The error is about one that can't be read.
    pub(super) fn load(&self, row: &SettingRow) -> Result<(), StoreError> {
        match row.name.as_str() {
            IDENTITY => self.name_self(json_columns::identity(row)?),
            ENROLLED => match json_columns::enrolled(row) {
                Ok(enrolled) => self.enroll(Enrolment::At(enrolled)),
                Err(error) => {
                    self.enroll(Enrolment::Unreadable);
                    return Err(error);
                }
            },
            other => return Err(json_columns::bad("settings", other, "name", "it is none")),
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
