//! Times as the API shows them.

pub use crate::wire::time::{of_served, rfc3339};
