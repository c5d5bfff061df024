//! Entries of the audit trail as the API shows them.

use std::{fmt, str::FromStr};

use crate::v1::time::rfc3339;
use engine::{json_columns, unreadable::Unreadable};
use protocol::api::AuditEntry;
use store::rows::AuditRow;

/// The place of an entry in the trail, `SEQ-IDX`: the sequence that the store has once the commit is there, and
/// the place within it. `0-0` comes before all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AuditPlace {
    seq: u64,
    idx: u32,
}

impl AuditPlace {
    pub fn of(row: &AuditRow) -> Self {
        Self::at(row.seq, row.idx)
    }

    /// The place of a row by its columns, which count the commits before.
    pub fn at(seq: u64, idx: u32) -> Self {
        Self { seq: seq.saturating_add(1), idx }
    }

    /// The columns of the row at this place; `None` before all rows.
    pub fn columns(self) -> Option<(u64, u32)> {
        Some((self.seq.checked_sub(1)?, self.idx))
    }
}

impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seq, self.idx)
    }
}

/// The text is no place.
#[derive(Debug, PartialEq, Eq)]
pub struct NoPlace;

impl FromStr for AuditPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (seq, idx) = text.split_once('-').ok_or(NoPlace)?;
        Ok(Self { seq: seq.parse().map_err(|_| NoPlace)?, idx: idx.parse().map_err(|_| NoPlace)? })
    }
}

/// An entry as it is shown. What can't be read is said to be unreadable: something did happen.
pub fn entry(row: &AuditRow, unreadable: &Unreadable) -> AuditEntry {
    let events = json_columns::events(row).unwrap_or_else(|error| {
        unreadable.note(&error);
        vec![serde_json::json!({"event": "unreadable"})]
    });
    let release = events.first().and_then(|event| event.get("release")?.as_str()).map(str::to_owned);
    AuditEntry {
        id: AuditPlace::of(row).to_string(),
        at: rfc3339(row.at_ms),
        actor: row.actor.clone(),
        release: release.filter(|_| row.release_key.is_some()),
        events,
    }
}
