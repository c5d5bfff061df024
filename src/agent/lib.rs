//! What stands beside a node: it runs versions, leads the proxy that shares calls among them, measures, and answers to a
//! manager.

pub mod runtime;
