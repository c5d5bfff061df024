// A test that meets what it did not expect is to panic.
#![allow(clippy::unwrap_used)]

mod fleet;
mod wire;
