//! Times as the API shows them.

pub use wire::time::{of_served, rfc3339};
