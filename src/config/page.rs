//! The web page.

use std::time::Duration;

use super::section::{Field, Section};

/// Shortest and longest session, in milliseconds: a minute, and thirty days.
const SESSION_MS: (u64, u64) = (60 * 1000, 30 * 24 * 60 * 60 * 1000);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// How long nobody needs to sign in again.
    pub session: Duration,
    /// Above so many agents an abort asks for the release's id.
    pub confirm_abort_above: usize,
}

impl Default for Page {
    fn default() -> Self {
        let ::page::Settings { session, confirm_abort_above, .. } = ::page::Settings::default();
        Self { session, confirm_abort_above: confirm_abort_above as usize }
    }
}

impl Section for Page {
    fn name(&self) -> &'static str {
        "page"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("session", &mut self.session, SESSION_MS.0, SESSION_MS.1),
            Field::within("confirm_abort_above", &mut self.confirm_abort_above, 0, u64::from(u32::MAX)),
        ]
    }
}
