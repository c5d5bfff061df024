//! The columns of each table, in the order in which they are read, and how a row becomes a struct.

use bytes::Bytes;

use super::{
    ReleaseHead, StoreError,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, LeaseRow, MembersRow,
        OutboxRow, OverRow, PrecedentRow, ReleaseRow, StageResultRow,
    },
    session::Columns,
};

/// What an error about a row has to name.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// In the order of the SELECT.
    columns: &'static [&'static str],
    /// How many of the first columns are the key.
    key: usize,
}

/// Declares a table once, as the list that SELECT takes and as the names that errors take.
macro_rules! table {
    ($table:ident, $list:ident, $name:literal, key $key:literal, $first:literal $(, $column:literal)*) => {
        macro_rules! $list {
            () => {
                concat!($first $(, ", ", $column)*)
            };
        }
        pub(crate) use $list;
        const $table: Table = Table { name: $name, columns: &[$first $(, $column)*], key: $key };
    };
}

table!(CHILDREN, child_columns, "children", key 1,
    "child_key", "id", "kind", "name", "area", "agents", "born_ms", "seen_ms", "detail");
table!(HEADS, head_columns, "releases", key 1, "release_key", "id", "digest", "open");
table!(RELEASES, release_columns, "releases", key 1,
    "release_key", "id", "state", "open", "digest", "archive", "strategy", "functions", "submitted_ms",
    "updated_ms", "ended_ms", "detail");
table!(OVER, over_columns, "releases", key 1, "release_key", "id", "functions", "detail");
table!(ARCHIVES, archive_columns, "archives", key 1, "digest", "bytes");
table!(MEMBERS, member_columns, "members", key 2, "release_key", "slice", "keys", "waves");
table!(ASSIGNMENTS, assignment_columns, "assignments", key 2,
    "release_key", "child_key", "status", "outcome", "attempt", "stage", "stage_status", "updated_ms", "detail");
table!(STAGE_RESULTS, stage_result_columns, "stage_results", key 4,
    "release_key", "child_key", "attempt", "stage", "status", "at_ms", "digest", "summary");
table!(ANALYSIS_RUNS, analysis_run_columns, "analysis_runs", key 2, "release_key", "block", "detail");
table!(PRECEDENTS, precedent_columns, "precedents", key 2,
    "function", "release_key", "id", "ended_ms", "times");
table!(DEPLOYMENTS, deployment_columns, "deployments", key 2,
    "child_key", "function", "release_key", "variant", "path", "at_ms");
table!(AUDIT, audit_columns, "audit", key 2, "seq", "idx", "at_ms", "release_key", "actor", "events");
table!(OUTBOX, outbox_columns, "outbox", key 1, "id", "kind", "at_ms", "payload", "served_ms");
table!(LEASE, lease_columns, "lease", key 0, "epoch", "seq", "holder", "served_ms");

/// A row of a table that is being read.
pub(crate) struct Row<'a> {
    table: &'static Table,
    columns: &'a dyn Columns,
}

impl Row<'_> {
    fn bad(&self, index: usize, why: String) -> StoreError {
        StoreError::BadRow { table: self.table.name, key: self.key(), column: self.table.columns[index], why }
    }

    /// The key as far as it can be read, for the text of an error.
    fn key(&self) -> String {
        let part = |index| {
            let columns = self.columns;
            match (columns.int(index), columns.small(index), columns.text(index), columns.bytes(index)) {
                (Ok(Some(int)), ..) => int.to_string(),
                (_, Ok(Some(small)), ..) => small.to_string(),
                (_, _, Ok(Some(text)), _) => text,
                (_, _, _, Ok(Some(bytes))) => super::hex(&bytes),
                _ => "?".to_owned(),
            }
        };
        (0..self.table.key).map(part).collect::<Vec<_>>().join("/")
    }

    fn present<T>(&self, index: usize, found: Result<Option<T>, String>) -> Result<T, StoreError> {
        match found {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(self.bad(index, "is NULL".to_owned())),
            Err(why) => Err(self.bad(index, why)),
        }
    }

    fn optional<T>(&self, index: usize, found: Result<Option<T>, String>) -> Result<Option<T>, StoreError> {
        found.map_err(|why| self.bad(index, why))
    }

    fn fit<T: TryFrom<i64>>(&self, index: usize, wide: i64) -> Result<T, StoreError> {
        T::try_from(wide).map_err(|_| self.bad(index, format!("{wide} is out of range")))
    }

    fn int<T: TryFrom<i64>>(&self, index: usize) -> Result<T, StoreError> {
        let wide = self.present(index, self.columns.int(index))?;
        self.fit(index, wide)
    }

    fn opt_int<T: TryFrom<i64>>(&self, index: usize) -> Result<Option<T>, StoreError> {
        let wide = self.optional(index, self.columns.int(index))?;
        wide.map(|wide| self.fit(index, wide)).transpose()
    }

    fn small(&self, index: usize) -> Result<i16, StoreError> {
        self.present(index, self.columns.small(index))
    }

    fn boolean(&self, index: usize) -> Result<bool, StoreError> {
        self.present(index, self.columns.boolean(index))
    }

    fn text(&self, index: usize) -> Result<String, StoreError> {
        self.present(index, self.columns.text(index))
    }

    fn opt_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        self.optional(index, self.columns.text(index))
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, StoreError> {
        self.present(index, self.columns.bytes(index))
    }
}

/// A struct that can be read from a row whose columns are the table's.
pub(crate) trait FromRow: Sized {
    const TABLE: &'static Table;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError>;

    fn read(columns: &dyn Columns) -> Result<Self, StoreError> {
        Self::from_row(&Row { table: Self::TABLE, columns })
    }
}

impl FromRow for ChildRow {
    const TABLE: &'static Table = &CHILDREN;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            child_key: row.int(0)?,
            id: row.text(1)?,
            kind: row.text(2)?,
            name: row.opt_text(3)?,
            area: row.opt_text(4)?,
            agents: row.int(5)?,
            born_ms: row.int(6)?,
            seen_ms: row.int(7)?,
            detail: row.text(8)?,
        })
    }
}

impl FromRow for ReleaseHead {
    const TABLE: &'static Table = &HEADS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { release_key: row.int(0)?, id: row.text(1)?, digest: row.bytes(2)?, open: row.boolean(3)? })
    }
}

impl FromRow for OverRow {
    const TABLE: &'static Table = &OVER;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { release_key: row.int(0)?, id: row.text(1)?, functions: row.text(2)?, detail: row.text(3)? })
    }
}

impl FromRow for ReleaseRow {
    const TABLE: &'static Table = &RELEASES;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            release_key: row.int(0)?,
            id: row.text(1)?,
            state: row.text(2)?,
            open: row.boolean(3)?,
            digest: row.bytes(4)?,
            archive: row.bytes(5)?,
            strategy: row.text(6)?,
            functions: row.text(7)?,
            submitted_ms: row.int(8)?,
            updated_ms: row.int(9)?,
            ended_ms: row.opt_int(10)?,
            detail: row.text(11)?,
        })
    }
}

impl FromRow for ArchiveRow {
    const TABLE: &'static Table = &ARCHIVES;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { digest: row.bytes(0)?, bytes: Bytes::from(row.bytes(1)?) })
    }
}

impl FromRow for MembersRow {
    const TABLE: &'static Table = &MEMBERS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { release_key: row.int(0)?, slice: row.int(1)?, keys: row.bytes(2)?, waves: row.bytes(3)? })
    }
}

impl FromRow for AssignmentRow {
    const TABLE: &'static Table = &ASSIGNMENTS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            release_key: row.int(0)?,
            child_key: row.int(1)?,
            status: row.small(2)?,
            outcome: row.opt_text(3)?,
            attempt: row.small(4)?,
            stage: row.small(5)?,
            stage_status: row.small(6)?,
            updated_ms: row.int(7)?,
            detail: row.text(8)?,
        })
    }
}

impl FromRow for StageResultRow {
    const TABLE: &'static Table = &STAGE_RESULTS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            release_key: row.int(0)?,
            child_key: row.int(1)?,
            attempt: row.small(2)?,
            stage: row.small(3)?,
            status: row.small(4)?,
            at_ms: row.int(5)?,
            digest: row.int(6)?,
            summary: row.text(7)?,
        })
    }
}

impl FromRow for AnalysisRunRow {
    const TABLE: &'static Table = &ANALYSIS_RUNS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { release_key: row.int(0)?, block: row.small(1)?, detail: row.text(2)? })
    }
}

impl FromRow for PrecedentRow {
    const TABLE: &'static Table = &PRECEDENTS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            function: row.text(0)?,
            release_key: row.int(1)?,
            id: row.text(2)?,
            ended_ms: row.opt_int(3)?,
            times: row.text(4)?,
        })
    }
}

impl FromRow for DeploymentRow {
    const TABLE: &'static Table = &DEPLOYMENTS;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            child_key: row.int(0)?,
            function: row.text(1)?,
            release_key: row.int(2)?,
            variant: row.text(3)?,
            path: row.text(4)?,
            at_ms: row.int(5)?,
        })
    }
}

impl FromRow for AuditRow {
    const TABLE: &'static Table = &AUDIT;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            seq: row.int(0)?,
            idx: row.int(1)?,
            at_ms: row.int(2)?,
            release_key: row.opt_int(3)?,
            actor: row.text(4)?,
            events: row.text(5)?,
        })
    }
}

impl FromRow for OutboxRow {
    const TABLE: &'static Table = &OUTBOX;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.int(0)?,
            kind: row.text(1)?,
            at_ms: row.int(2)?,
            payload: row.text(3)?,
            served_ms: row.opt_int(4)?,
        })
    }
}

impl FromRow for LeaseRow {
    const TABLE: &'static Table = &LEASE;
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { epoch: row.int(0)?, seq: row.int(1)?, holder: row.text(2)?, served_ms: row.int(3)? })
    }
}
