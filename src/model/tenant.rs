//! Tenants: who shares a manager with others and is to see nothing of them.
//!
//! A tenant's releases have ids of the form `~TENANT~ID` in the manager, in its store, to children and to managers below and above;
//! the tenant itself says and sees `ID`. No release of anybody else has an id of that form: such a one is refused where it is submitted.
//! So ids are unique per tenant, and whatever has an id knows the tenant.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::id::{IdError, MAX_RELEASE_ID_LEN, ReleaseId};

/// The label of a child that names its tenant. Operators give it; what a child says of itself under this name is not heard.
pub const TENANT_LABEL: &str = "tenant";

/// Longest name of a tenant, in bytes.
pub const MAX_TENANT_LEN: usize = 16;

/// Stands before and after the name of a tenant in an id.
const MARK: char = '~';

/// The name of a tenant: 1 to [`MAX_TENANT_LEN`] small letters, digits and `-`, of which the first is no `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantName(Arc<str>);

/// The text is not the name of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tenant's name has 1 to {MAX_TENANT_LEN} small letters, digits and -, and does not begin with -")]
pub struct NoTenantName;

impl TenantName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, NoTenantName> {
        if is_name(text) { Ok(Self(text.into())) } else { Err(NoTenantName) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the ids of its releases.
    pub fn prefix(&self) -> String {
        format!("{MARK}{}{MARK}", self.0)
    }

    /// Whether what has this id in the manager is the tenant's.
    pub fn owns(&self, id: &str) -> bool {
        split(id).is_some_and(|(tenant, _)| tenant == self.as_str())
    }

    /// Longest id that a release of this tenant may have, as the tenant writes it, in bytes.
    pub fn max_release_id_len(&self) -> usize {
        MAX_RELEASE_ID_LEN - self.prefix().len()
    }

    /// The id in the manager of the release that the tenant calls so.
    pub fn release_id(&self, said: &ReleaseId) -> Result<ReleaseId, IdError> {
        let max = self.max_release_id_len();
        let len = said.as_str().len();
        if len > max {
            return Err(IdError::TooLong { len, max });
        }
        ReleaseId::parse(&(self.prefix() + said.as_str()))
    }
}

fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_TENANT_LEN).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(fits)
}

/// The tenant whose release has this id, and what the tenant calls it; `None`: it is no tenant's.
pub fn split(id: &str) -> Option<(&str, &str)> {
    let (tenant, said) = id.strip_prefix(MARK)?.split_once(MARK)?;
    (is_name(tenant) && !said.is_empty()).then_some((tenant, said))
}

/// What stands where something of somebody else would be named.
pub const ANOTHERS: &str = "another tenant's";

/// A release as it is named to those who see that of `own`, a tenant's if it has one.
pub fn named<'a>(own: Option<&str>, other: &'a ReleaseId) -> &'a str {
    if own.is_none() || own == other.tenant() { other.as_str() } else { ANOTHERS }
}

/// Whether releases of these tenants may meet on a child: a child has one tenant, and whoever is of none releases to all.
pub fn meet(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// By what earlier releases of a function or service are found, from the id of a release.
pub fn history_key(release: &str, subject: &str) -> String {
    let tenant = split(release).map(|(tenant, _)| tenant);
    tenant.map_or_else(|| subject.to_owned(), |tenant| format!("{MARK}{tenant}{MARK}{subject}"))
}

impl ReleaseId {
    /// The name of the tenant whose release has this id.
    pub fn tenant(&self) -> Option<&str> {
        split(self.as_str()).map(|(tenant, _)| tenant)
    }
}

impl TryFrom<String> for TenantName {
    type Error = NoTenantName;

    fn try_from(text: String) -> Result<Self, NoTenantName> {
        Self::parse(&text)
    }
}

impl From<TenantName> for String {
    fn from(name: TenantName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a token with roles may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Looks at everything and changes nothing. Every other role may look, too.
    Viewer,
    /// Submits releases, steers them, and cares for children.
    Operator,
    /// Says yes to what waits for approval.
    Approver,
}

crate::name_variants!(Role {
    Viewer => "viewer",
    Operator => "operator",
    Approver => "approver",
});
