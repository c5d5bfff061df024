//! What is asked of an analysis.

use super::InterimAnalysis;

/// What is asked of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Lets an analysis go on after an end that decides nothing.
    Extend {
        release: String,
        for_ms: u64,
        /// Or until so many more calls were measured.
        calls: Option<u64>,
    },
    /// The data of an analysis were looked at.
    Looked(Box<InterimAnalysis>),
}
