//! Annotations by which a strategy says that it is that of a canary.
//!
//! Stored strategies have them, so their keys never change.

use language::Strategy;

/// The name of the registered release.
pub use ab_releases::REGISTERED_RELEASE as RELEASE;

/// What the canary was asked to be: its digest.
pub const CANARY: &str = "canary-release";

/// The version that the canary runs.
pub const VERSION: &str = "version";

/// What served when the canary was made, where that was started, of all its services, and what its release said of resources: see
/// [`crate::translate()`].
pub const BASE: &str = "canary-base";

/// The file of the watched folder from which the canary came.
pub const FILE: &str = "canary-file";

/// The digest of the canary that a strategy is of; `None`: it is of none.
#[must_use]
pub fn digest_of(strategy: &Strategy) -> Option<&str> {
    strategy.annotations.get(CANARY).map(String::as_str)
}

/// The file of the watched folder from which a canary came; `None`: somebody submitted it.
#[must_use]
pub fn file_of(strategy: &Strategy) -> Option<&str> {
    strategy.annotations.get(FILE).map(String::as_str)
}
