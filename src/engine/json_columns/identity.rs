//! The stored forms of what a manager keeps of itself, of where strategies went, and of what the parent is owed.

use serde::{Deserialize, Serialize};

use super::form::{Version, forms};
use crate::{
    forwarded_releases::Pointer,
    settings::{ChildToken, Enrolled, Limits, Tenant},
    view::OfferKey,
};
use domain::release::speed_classes::Begun;
use model::{ReleaseKey, TenantName, hex};

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

/// The value of the setting `offer_key`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OfferKeyForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
}

impl From<&OfferKey> for OfferKeyForm {
    fn from(key: &OfferKey) -> Self {
        let OfferKey { key, after } = key.clone();
        Self { version: Version::NOW, key, after: after.map(|key| key.0) }
    }
}

impl From<OfferKeyForm> for OfferKey {
    fn from(form: OfferKeyForm) -> Self {
        let OfferKeyForm { version: _, key, after } = form;
        Self { key, after: after.map(ReleaseKey) }
    }
}

/// The value of a setting that is the token of a child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChildTokenForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    /// SHA-256 of the token, in hexadecimal digits.
    digest: String,
    /// The name of the token with which the child joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    door: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    revoked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<TenantName>,
}

impl From<&ChildToken> for ChildTokenForm {
    fn from(token: &ChildToken) -> Self {
        let ChildToken { digest, door, is_revoked, tenant } = token.clone();
        Self { version: Version::NOW, digest: hex::encode(&digest), door, revoked: is_revoked, tenant }
    }
}

impl TryFrom<ChildTokenForm> for ChildToken {
    type Error = &'static str;

    fn try_from(form: ChildTokenForm) -> Result<Self, &'static str> {
        let ChildTokenForm { version: _, digest, door, revoked, tenant } = form;
        let digest = hex::decode(&digest).map_err(|_| "`digest` has 64 hexadecimal digits")?;
        Ok(Self { digest, door, is_revoked: revoked, tenant })
    }
}

/// The value of a setting that is a tenant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TenantForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    name: TenantName,
    created_ms: i64,
    max_children: u64,
    max_releases: u64,
    max_bytes: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
}

impl From<&Tenant> for TenantForm {
    fn from(tenant: &Tenant) -> Self {
        let Tenant { name, created_ms, limits: Limits { children, releases, bytes }, is_deleted } =
            tenant.clone();
        let (max_children, max_releases, max_bytes) = (children, releases, bytes);
        let version = Version::NOW;
        Self { version, name, created_ms, max_children, max_releases, max_bytes, deleted: is_deleted }
    }
}

impl From<TenantForm> for Tenant {
    fn from(form: TenantForm) -> Self {
        let TenantForm { version: _, name, created_ms, max_children, max_releases, max_bytes, deleted } =
            form;
        let limits = Limits { children: max_children, releases: max_releases, bytes: max_bytes };
        Self { name, created_ms, limits, is_deleted: deleted }
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
