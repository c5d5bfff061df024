//! What is counted, compared with what callers and versions saw.

pub mod acting;
mod ledger;
mod served;
mod times;
