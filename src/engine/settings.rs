//! What a manager keeps of itself, as settings of its store: its own id among managers, who it is at its parent, the tokens of children
//! that joined, and its tenants.
//!
//! A setting that can't be read is not as if there were none: it stays, and nothing takes its place.

use std::borrow::Cow;

use super::view::OfferKey;
use model::TenantName;
use store::rows::SettingRow;

pub(super) const IDENTITY: &str = "identity";
pub(super) const ENROLLED: &str = "enrolled";
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

/// How much a tenant may have at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Children that are labelled as its own.
    pub children: u64,
    /// Releases that are not over.
    pub releases: u64,
    /// Bytes of the strategies and archives of all its releases that the store has.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { children: 10_000, releases: 100, bytes: 1 << 30 }
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub name: TenantName,
    /// In milliseconds since 1970.
    pub created_ms: i64,
    pub limits: Limits,
    pub is_deleted: bool,
}

/// What was done to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantChange {
    Created,
    Limited,
    Deleted,
}

/// The child whose token a setting is.
pub(super) fn child_of(row: &SettingRow) -> Option<&str> {
    row.name.strip_prefix(CHILD_TOKEN)
}

/// The tenant that a setting is about.
pub(super) fn tenant_of(row: &SettingRow) -> Option<&str> {
    row.name.strip_prefix(TENANT)
}

/// Whether a setting is the id of this manager: without it the manager would give itself another.
pub(super) fn is_identity(row: &SettingRow) -> bool {
    row.name == IDENTITY
}

/// Whether a setting makes the ids of offers: without it those that are in somebody's hands would not be known.
pub(super) fn is_offer_key(row: &SettingRow) -> bool {
    row.name == OFFER_KEY
}
