//! What no database of ours can keep, refused before it is asked: the same text from every adapter.

use super::{
    StoreError,
    rows::{Batch, Writes},
};

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
    for row in &writes.children {
        let texts = [&row.id, &row.kind, &row.detail];
        texts_fit("children", &row.child_key, texts)?;
        texts_fit("children", &row.child_key, row.name.iter().chain(&row.area))?;
    }
    for row in &writes.releases {
        let texts = [&row.id, &row.state, &row.strategy, &row.functions, &row.detail];
        texts_fit("releases", &row.release_key, texts)?;
    }
    for row in &writes.assignments {
        let key = &(row.release_key, row.child_key);
        texts_fit("assignments", key, row.outcome.iter().chain([&row.detail]))?;
    }
    for row in &writes.stage_results {
        texts_fit("stage_results", &(row.release_key, row.child_key), [&row.summary])?;
    }
    for row in &writes.analysis_runs {
        texts_fit("analysis_runs", &(row.release_key, row.block), [&row.detail])?;
    }
    for row in &writes.precedents {
        texts_fit("precedents", &row.release_key, [&row.function, &row.id, &row.times])?;
    }
    for row in &writes.deployments {
        texts_fit("deployments", &row.child_key, [&row.function, &row.variant, &row.path])?;
    }
    for row in &writes.audit {
        number_fits("audit sequence", row.seq)?;
        texts_fit("audit", &(row.seq, row.idx), [&row.actor, &row.events])?;
    }
    for row in &writes.outbox {
        number_fits("outbox id", row.id)?;
        number_fits("serving time", row.served_ms.unwrap_or_default())?;
        texts_fit("outbox", &row.id, [&row.kind, &row.payload])?;
    }
    writes.outbox_done.iter().try_for_each(|id| number_fits("outbox id", *id))
}

fn number_fits(what: &str, number: u64) -> Result<(), StoreError> {
    match i64::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Refused(format!("{what} {number} is too large"))),
    }
}

fn texts_fit<'a>(
    table: &str,
    key: &dyn std::fmt::Debug,
    texts: impl IntoIterator<Item = &'a String>,
) -> Result<(), StoreError> {
    for text in texts {
        if text.as_bytes().contains(&0) {
            return Err(StoreError::Refused(format!(
                "a text for table {table}, key {key:?}, contains the character NUL, which a database can't keep"
            )));
        }
    }
    Ok(())
}

/// What it means that a commit's step of the lease met no row: the lease that was found instead decides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The batch is there: an earlier try of it succeeded without our learning of it.
    AlreadyThere,
    Lost(String),
}

/// Judges the `(epoch, seq, holder)` that is in the store where the batch's own should be.
pub(crate) fn judge(found: Option<(u64, u64, String)>, batch: &Batch) -> Found {
    match found {
        Some((epoch, seq, _)) if epoch == batch.epoch && seq == batch.seq + 1 => Found::AlreadyThere,
        Some((epoch, seq, _)) if epoch == batch.epoch => {
            Found::Lost(format!("the store is at commit {seq}, this manager at {}", batch.seq))
        }
        Some((epoch, _, holder)) => {
            let by = if holder.is_empty() { "a manager that has ended".to_owned() } else { holder };
            Found::Lost(format!("taken by {by} (epoch {epoch}, ours was {})", batch.epoch))
        }
        None => Found::Lost("its row is gone".to_owned()),
    }
}
