//! How long slow callers are borne with.

use super::section::{Field, Section};
use http_api::serve::Timeouts;

/// Shortest and longest timeout that can be set, in milliseconds.
const MIN_TIMEOUT_MS: u64 = 100;
const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

impl Section for Timeouts {
    fn name(&self) -> &'static str {
        "timeouts"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("head", &mut self.head, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
            Field::within("body_part", &mut self.body_part, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
            Field::within("body", &mut self.body, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
            Field::within("write", &mut self.write, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
            Field::within("handshake", &mut self.handshake, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
            Field::within("drain", &mut self.drain, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
        ]
    }
}
