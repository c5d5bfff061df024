//! What a manager keeps of itself, as settings of its store: its own id among managers, and who it is at its parent.
//!
//! A setting that can't be read is not as if there were none: it stays, and nothing takes its place.

use std::{borrow::Cow, sync::OnceLock};

use super::{
    json_columns::{self, ChildTokenForm, EnrolledForm, OfferKeyForm, TenantForm},
    tenants::Tenant,
    view::OfferKey,
};
use model::TenantName;
use store::{StoreError, rows::SettingRow};

const IDENTITY: &str = "identity";
const ENROLLED: &str = "enrolled";
const OFFER_KEY: &str = "offer_key";

/// The settings that are tokens of children are called so, with the child's id behind it.
const CHILD_TOKEN: &str = "child_token/";

/// The settings that are tenants are called so, with the tenant's name behind it.
const TENANT: &str = "tenant/";

/// What a manager keeps of itself, as one setting of its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The id of this manager among managers, made once for a store.
    Identity(String),
    /// It is stored before it is used, and replaced by the next.
    Enrolled(Enrolled),
    /// Made once for a store.
    OfferKey(OfferKey),
    /// The token of a child that joined.
    ChildToken {
        child: String,
        token: ChildToken,
    },
    Tenant(Tenant),
}

/// Who this manager is at its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// The parent.
    pub url: String,
    pub id: String,
}

/// The token of a child, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildToken {
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// The name of the token with which the child joined.
    pub door: String,
    pub is_revoked: bool,
    /// Whose child it becomes when it calls for the first time, as an operator said of that token.
    pub tenant: Option<TenantName>,
}

/// The child whose token a setting is.
pub(super) fn child_of(row: &SettingRow) -> Option<&str> {
    row.name.strip_prefix(CHILD_TOKEN)
}

/// The tenant that a setting is about.
pub(super) fn tenant_of(row: &SettingRow) -> Option<&str> {
    row.name.strip_prefix(TENANT)
}

impl Setting {
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Identity(_) => IDENTITY.into(),
            Self::Enrolled(_) => ENROLLED.into(),
            Self::OfferKey(_) => OFFER_KEY.into(),
            Self::ChildToken { child, .. } => format!("{CHILD_TOKEN}{child}").into(),
            Self::Tenant(tenant) => format!("{TENANT}{}", tenant.name).into(),
        }
    }

    /// As it is stored.
    pub(super) fn value(&self) -> Result<String, StoreError> {
        match self {
            Self::Identity(id) => Ok(id.clone()),
            Self::Enrolled(enrolled) => json_columns::json(&EnrolledForm::from(enrolled)),
            Self::OfferKey(key) => json_columns::json(&OfferKeyForm::from(key)),
            Self::ChildToken { token, .. } => json_columns::json(&ChildTokenForm::from(token)),
            Self::Tenant(tenant) => json_columns::json(&TenantForm::from(tenant)),
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

/// Whether a setting makes the ids of offers: without it those that are in somebody's hands would not be known.
pub(super) fn is_offer_key(row: &SettingRow) -> bool {
    row.name == OFFER_KEY
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
