//! What no database of ours can keep, refused before it is asked: the same text from every adapter.

use model::hex;

use super::{
    StoreError,
    rows::{Batch, Writes},
    tables::{See, SeeTables, Stored, Value},
};

/// The schema's version after the first step, in every kind of database. What was numbered below was given up before the first release.
pub(crate) const FIRST_VERSION: i64 = 100;

/// Refuses a store that no step leads to this program's version.
pub(crate) const fn is_readable(found: i64, known: i64) -> Result<(), StoreError> {
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found < FIRST_VERSION {
        return Err(StoreError::Older { found, first: FIRST_VERSION });
    }
    Ok(())
}

/// Refuses to read a store as a whole that has not been brought to this program's version yet.
pub(crate) fn is_current(found: i64, known: i64) -> Result<(), StoreError> {
    if found == known {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the store has schema version {found}, this program reads {known}: start `choirmaster serve` on it once, which \
         brings it there"
    )))
}

/// Checks one batch. Text with a NUL can't be kept in Postgres, numbers beyond `i64::MAX` in neither.
pub(crate) fn batch(batch: &Batch) -> Result<(), StoreError> {
    for (what, number) in
        [("epoch", batch.epoch), ("sequence", batch.seq.saturating_add(1)), ("serving time", batch.served_ms)]
    {
        number_fits(what, number)?;
    }
    writes(&batch.writes)
}

/// Checks the rows of a batch.
pub(crate) fn writes(writes: &Writes) -> Result<(), StoreError> {
    writes.show(&mut Checking)?;
    writes.outbox_done.iter().try_for_each(|id| number_fits("outbox id", *id))?;
    writes.pointers_gone.iter().try_for_each(|key| number_fits("key of a pointer", *key))
}

fn number_fits(what: &str, number: u64) -> Result<(), StoreError> {
    match i64::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Refused(format!("{what} {number} is too large"))),
    }
}

struct Checking;

impl SeeTables for Checking {
    fn table<T: Stored>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        let Some((place, column, why)) = T::show(rows.iter(), Unkept::default()).0 else { return Ok(()) };
        let key = T::show(rows.iter().skip(place).take(1), Key::default());
        let (table, key) = (T::TABLE.name, key.0[..T::TABLE.key].join(", "));
        Err(StoreError::Refused(format!("a row for table {table}, key ({key}), column {column}: {why}")))
    }
}

/// The first value found that can't be kept: in which row, in which column, and why.
#[derive(Default)]
struct Unkept(Option<(usize, &'static str, String)>);

impl See for Unkept {
    fn see<'r, V: Value + 'r>(self, column: &'static str, values: impl Iterator<Item = &'r V>) -> Self {
        if self.0.is_some() {
            return self;
        }
        for (place, value) in values.enumerate() {
            let why = if value.text().is_some_and(|text| text.as_bytes().contains(&0)) {
                "it contains the character NUL, which a database can't keep".to_owned()
            } else if let Some(number) = value.too_large() {
                format!("{number} is too large")
            } else {
                continue;
            };
            return Self(Some((place, column, why)));
        }
        self
    }
}

/// The values of a row's columns, for the text of an error.
#[derive(Default)]
struct Key(Vec<String>);

impl See for Key {
    fn see<'r, V: Value + 'r>(mut self, _: &'static str, mut values: impl Iterator<Item = &'r V>) -> Self {
        let Some(value) = values.next() else { return self };
        let number = value.int().or(value.small().map(i64::from)).map(|number| number.to_string());
        let text = || value.text().map(|text| format!("{text:?}"));
        let bytes = || value.bytes().map(hex::encode);
        self.0.push(number.or_else(text).or_else(bytes).unwrap_or_default());
        self
    }
}

/// What it means that a commit's step of the lease met no row: the lease that was found instead decides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LeaseCheck {
    /// The batch is there: an earlier try of it succeeded without our learning of it.
    AlreadyThere,
    Lost(String),
}

/// Judges the `(epoch, seq, holder)` that is in the store where the batch's own should be.
pub(crate) fn judge(found: Option<(u64, u64, String)>, batch: &Batch) -> LeaseCheck {
    match found {
        Some((epoch, seq, _)) if epoch == batch.epoch && seq == batch.seq + 1 => LeaseCheck::AlreadyThere,
        Some((epoch, seq, _)) if epoch == batch.epoch => {
            LeaseCheck::Lost(format!("the store is at commit {seq}, this manager at {}", batch.seq))
        }
        Some((epoch, _, holder)) => {
            let by = if holder.is_empty() { "a manager that has ended".to_owned() } else { holder };
            LeaseCheck::Lost(format!("taken by {by} (epoch {epoch}, ours was {})", batch.epoch))
        }
        None => LeaseCheck::Lost("its row is gone".to_owned()),
    }
}
