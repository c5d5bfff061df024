//! What an operator asks of a stage.

/// What an operator asks of a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Ends a stage for every child that is in it.
    End { release: String, stage: String },
    /// Lets everybody who has not begun a stage pass over it, and ends it for those who are in it.
    Skip { release: String, stage: String },
}
