//! What a router stands between in the tests: backends that say which variation they are, and callers that ask.

pub mod backend;
pub mod caller;
pub mod liar;
pub mod place;
pub mod program;
pub mod tls;
pub mod wants;
