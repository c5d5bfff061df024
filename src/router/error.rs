use std::{io, path::PathBuf, time::Duration};

use traffic::desired::Number;

/// Why a router could not be told or asked. Texts name files and what the router said, and no secret.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    #[error("{router} refuses the configuration, and the one before stays in force: {said}")]
    Refused { router: &'static str, said: String },
    #[error("{asked} is older than {newest}, by which this router was led last: somebody else leads it now")]
    Older { asked: Number, newest: Number },
    #[error("another process leads this router: it holds {lock}")]
    Locked { lock: PathBuf },
    #[error("{router} doesn't answer within {within:?}: {doing}")]
    Silent { router: &'static str, within: Duration, doing: String },
    #[error("{router} can't be reached: {doing}: {source}")]
    Away { router: &'static str, doing: String, source: io::Error },
    #[error("what {router} says makes no sense: {said:?}")]
    Nonsense { router: &'static str, said: String },
    #[error("{router} can't do that: {what}")]
    Unable { router: &'static str, what: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{program} can't be run: {source}")]
    Program { program: PathBuf, source: io::Error },
}
