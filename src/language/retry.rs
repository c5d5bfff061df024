//! When a call that the new version failed is carried out by the base version.
//!
//! It says how whoever routes the calls goes about it, as `sticky` does. Nothing here repeats anything.

pub use traffic::Retry;

use super::{fields::FieldEntry, findings::Findings, reading::read_word};

pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Retry> {
    let all = Retry::ALL.map(|retry| (retry.name(), retry));
    read_word(entry, "way for calls to be repeated", &all, findings)
}
