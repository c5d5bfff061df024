//! What is asked about one child's part in a release, by itself or by an operator.

use std::sync::Arc;

use crate::release::summary::Received;

/// What is asked about one child's part.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `GET /release`.
    Fetch {
        child: String,
        offer: String,
    },
    Result {
        child: String,
        offer: String,
        reports: Vec<Arc<Received>>,
    },
    EndStage {
        child: String,
        offer: String,
        stage: String,
        /// Of so many stages that failed below it a manager asks what becomes of them.
        failures: Option<u32>,
    },
    /// Takes one child out.
    Skip {
        release: String,
        child: String,
    },
    /// Another attempt for one child.
    Retry {
        release: String,
        child: String,
    },
}
