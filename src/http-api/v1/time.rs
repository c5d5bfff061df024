//! Times as the API shows them.

pub use protocol::time::{of_served, rfc3339};
