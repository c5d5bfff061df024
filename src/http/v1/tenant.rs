//! Whose things a caller sees.

use axum::Extension;

use crate::auth::CallingOperator;
use progressive::DEFAULT_TENANT;

/// The tenant that a caller is bound to.
pub(super) fn tenant_of(_caller: Option<&Extension<CallingOperator>>) -> &'static str {
    DEFAULT_TENANT
}
