//! What was counted, in the form that all who count share, and how it is taken from the threads.

mod collect;

pub(crate) use self::collect::Collector;
pub use ::ledger::*;
