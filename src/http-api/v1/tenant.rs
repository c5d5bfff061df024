//! Whose things a caller registers and names.

use crate::scope::Scope;
use ab_releases::DEFAULT_TENANT;

/// The tenant to which a caller is bound; one that nobody is called like, where it is bound to none.
pub(super) fn tenant_of(scope: &Scope) -> &str {
    scope.tenant().map_or(DEFAULT_TENANT, |tenant| tenant.as_str())
}
