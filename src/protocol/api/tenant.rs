//! Who shares a manager with others: `/api/v1/tenants`.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};
use utoipa::ToSchema;

/// A tenant: who shares the manager with others and sees nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    pub name: String,
    /// UUID, as `tenantId` of A/B releases.
    pub id: String,
    pub created: String,
    /// Children that operators labelled `tenant=NAME`.
    pub children: TenantRoom,
    /// Releases that are not over.
    pub releases: TenantRoom,
    /// Bytes of the strategies and functions of all its releases that the store has.
    pub bytes: TenantRoom,
    /// Whoever has a token of the tenant, or did something for it; the first 1,000 by name. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<TenantUser>>,
}

/// Somebody who acts for a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantUser {
    /// As the audit trail names them.
    pub name: String,
    /// UUID, as `createdBy` of A/B releases.
    pub id: String,
    /// When they were first known.
    pub since: String,
}

/// How much a tenant may have; what is left out stays as it is, or is what is usual: 10,000 children, 100 releases, 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TenantLimits {
    #[schema(maximum = 1_000_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    #[schema(maximum = 1_000_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub releases: Option<u64>,
    #[schema(maximum = 1_000_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// By names alone: a list of its values would be taken for it, too.
fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = serde_json::Map::deserialize(deserializer)?;
    T::deserialize(serde_json::Value::Object(fields)).map_err(de::Error::custom)
}

/// The body of `POST /api/v1/tenants`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,15}$")]
    pub name: String,
    #[serde(default, deserialize_with = "object")]
    pub limits: TenantLimits,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    /// Why.
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    #[serde(default)]
    pub note: Option<String>,
}

/// The body of `PUT /api/v1/tenants/{name}/limits`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewLimits {
    #[serde(deserialize_with = "object")]
    pub limits: TenantLimits,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub by: Option<String>,
    /// Why.
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    pub note: Option<String>,
}

/// How much a tenant has of something, and how much it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantRoom {
    pub used: u64,
    pub limit: u64,
}
