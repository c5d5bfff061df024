//! What puts back what ran before a release.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Submitted;

/// `POST /api/v1/releases/{id}/rollback`: the release that puts back what ran before another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseRollback {
    #[serde(flatten)]
    pub submitted: Submitted,
    /// The release that is rolled back.
    pub rollback_of: String,
    /// What is put back, in the order of that release.
    pub puts_back: Vec<PutBack>,
    /// Through the stages of that release; else at once.
    pub staged: bool,
}

/// A function or a service, and what serves of it before and after a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PutBack {
    /// The function, or `service/NAME`.
    pub name: String,
    /// What the release that is rolled back left: the folder of a function's version; of a service a variation, and where that is.
    pub from: String,
    /// What ran before.
    pub to: String,
}
