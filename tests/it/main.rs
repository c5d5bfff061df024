#![allow(clippy::unwrap_used)] // a test that meets what it didn't expect shall fail

mod store;
