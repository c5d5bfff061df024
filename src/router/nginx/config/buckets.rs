//! Buckets as files: which there are to be, and which table those that are there make.

use std::collections::BTreeSet;

use traffic::{BUCKETS, Bucket, Run, Table, TableError, Variation};

/// What a bucket's file is called: its number, with four digits, as the two `split_clients` make it.
#[must_use]
pub fn bucket_name(bucket: u16) -> String {
    format!("{bucket:04}")
}

/// In which folders a call looks for its bucket, one after the other; where it is in several, the last of these counts.
///
/// With two variations there is one look, and so it is as if it were one instant. With more, a bucket may go from the second
/// folder to the first while a call, which found nothing in the first, has yet to look into the second. It then looks into all but
/// the last once more. So whoever was moved once in between is found: in the old folder, or in the new.
#[must_use]
pub fn lookups(variations: usize) -> Vec<u8> {
    let last = variations.saturating_sub(1) as u8;
    (1..=last).chain(1..last).collect()
}

/// What is to be made and removed so that the files are those of a table: first all that is made, then all that is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Folder and bucket.
    pub make: Vec<(u8, u16)>,
    /// Folders that are to be empty and aren't, each of which goes at once by one renaming.
    pub empty: Vec<u8>,
    pub remove: Vec<(u8, u16)>,
}

/// From the files that are there, the first of them the folder of variation 1.
#[must_use]
pub fn changes(there: &[BTreeSet<u16>], table: &Table) -> Changes {
    let mut wanted = vec![BTreeSet::new(); table.variations()];
    for run in table.runs() {
        wanted[run.variation.index()].extend(run.from..run.to);
    }
    let mut changes = Changes::default();
    let none = BTreeSet::new();
    for (folder, wanted) in (1_u8..).zip(wanted.iter().skip(1)) {
        let there = there.get(usize::from(folder) - 1).unwrap_or(&none);
        changes.make.extend(wanted.difference(there).map(|bucket| (folder, *bucket)));
        if wanted.is_empty() && !there.is_empty() {
            changes.empty.push(folder);
        } else {
            changes.remove.extend(there.difference(wanted).map(|bucket| (folder, *bucket)));
        }
    }
    changes
}

/// The table by which calls are shared while these files are there.
///
/// # Errors
///
/// No variation, or more than there may be.
pub fn table_of(variations: usize, there: &[BTreeSet<u16>]) -> Result<Table, TableError> {
    let order = lookups(variations);
    let mut of = vec![Variation::STABLE; usize::from(BUCKETS)];
    for folder in order {
        let files = there.get(usize::from(folder) - 1).into_iter().flatten();
        for bucket in files.filter(|bucket| **bucket < BUCKETS) {
            of[usize::from(*bucket)] = Variation(folder);
        }
    }
    table_from(variations, &of)
}

/// The same table where the router itself gave these buckets to these variations.
///
/// # Errors
///
/// A variation that the table doesn't know.
pub fn as_answered(table: &Table, answers: &[(Bucket, Variation)]) -> Result<Table, TableError> {
    let mut of = vec![Variation::STABLE; usize::from(BUCKETS)];
    for run in table.runs() {
        of[usize::from(run.from)..usize::from(run.to)].fill(run.variation);
    }
    for (bucket, variation) in answers {
        of[usize::from(bucket.index())] = *variation;
    }
    table_from(table.variations(), &of)
}

/// The table that has these, a bucket each.
pub(super) fn table_from(variations: usize, of: &[Variation]) -> Result<Table, TableError> {
    let mut runs: Vec<Run> = Vec::new();
    for (bucket, &variation) in (0..BUCKETS).zip(of) {
        match runs.last_mut() {
            Some(run) if run.variation == variation => run.to = bucket + 1,
            _ => runs.push(Run { from: bucket, to: bucket + 1, variation }),
        }
    }
    Table::from_runs(variations, &runs)
}
