//! What is counted, compared with what callers and versions saw.

pub mod acting;
mod call_metrics;
mod served;
mod times;
