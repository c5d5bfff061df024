//! The statements that follow from the declaration of each table, built once.

use std::sync::LazyLock;

use crate::{
    rows::{AssignmentRow, AuditRow, ChildRow, DeploymentRow, StageResultRow},
    tables::{ALL, Column, Ends, FromRow, Kind, Table, is_empty},
};

/// The database's clock in milliseconds.
macro_rules! now_ms {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
pub(super) use now_ms;

/// Those of one table.
pub(super) struct Statements {
    /// Writes rows, an array a column.
    pub write: String,
    /// Removes the rows whose keys are in the array `$1`. Only of tables with a key of one column.
    pub delete: String,
}

/// Those of each table, in the order of [`ALL`].
static EACH: LazyLock<Vec<Statements>> = LazyLock::new(|| ALL.iter().map(|table| of_table(table)).collect());

/// Steps the lease: `$1` epoch, `$2` seq, `$3` serving time. Then what most commits write, and nothing else: assignments
/// with their results, and the audit trail, array by array. Each table that a statement may write to costs time, rows or none.
pub(super) static STEP_AND_WRITE: LazyLock<String> =
    LazyLock::new(|| format!("{} SELECT 1 FROM step", step_and_write(&mut Places::from(4))));

/// The same with the other frequent tables, array by array; last the commit that results are of.
pub(super) static STEP_AND_WRITE_MORE: LazyLock<String> = LazyLock::new(step_and_write_more);

/// Removes what goes with the children whose keys are in the array `$1`.
pub(super) static GONE_WITH_CHILDREN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| format!("DELETE FROM {} WHERE child_key = ANY ($1::bigint[])", table.name);
    ending(Ends::WithChildren).map(gone).collect()
});

/// Removes what goes with the workflows whose keys are in the array `$1`.
pub(super) static GONE_WITH_WORKFLOWS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| format!("DELETE FROM {} WHERE workflow_key = ANY ($1::bigint[])", table.name);
    ending(Ends::WithWorkflows).map(gone).collect()
});

/// Removes rows that go with one release: key, limit, epoch.
pub(super) static GONE_WITH_RELEASE: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| {
        format!(
            "DELETE FROM {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE release_key = $1 LIMIT $2))
            AND EXISTS (SELECT 1 FROM lease WHERE epoch = $3)",
            table.name
        )
    };
    ending(Ends::WithReleases).map(gone).collect()
});

pub(super) static IS_EMPTY: LazyLock<String> = LazyLock::new(is_empty);

/// Those of this table.
pub(super) fn of(table: &Table) -> Option<&'static Statements> {
    let place = ALL.iter().position(|known| known.name == table.name)?;
    EACH.get(place)
}

/// Tables that the statements above write to; the others have one of their own.
pub(super) fn is_frequent(table: &Table) -> bool {
    const FREQUENT: [&Table; 5] =
        [AssignmentRow::TABLE, AuditRow::TABLE, StageResultRow::TABLE, DeploymentRow::TABLE, ChildRow::TABLE];
    FREQUENT.iter().any(|frequent| frequent.name == table.name)
}

fn ending(ends: Ends) -> impl Iterator<Item = &'static Table> {
    ALL.into_iter().filter(move |table| table.ends == ends)
}

fn of_table(table: &Table) -> Statements {
    let (name, list, conflict) = (table.name, table.list(), table.on_conflict());
    let arrays = Places::from(1).arrays(table);
    let Column { name: key, kind } = &table.columns[0];
    Statements {
        write: format!("INSERT INTO {name} ({list}) SELECT * FROM unnest({arrays}){conflict}"),
        delete: format!("DELETE FROM {name} WHERE {key} = ANY ($1::{}[])", type_of(*kind)),
    }
}

const fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "bigint",
        Kind::Small => "smallint",
        Kind::Boolean => "boolean",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
    }
}

/// Numbers the parameters of a statement.
struct Places(usize);

impl Places {
    const fn from(first: usize) -> Self {
        Self(first)
    }

    fn one(&mut self, kind: &str) -> String {
        self.0 += 1;
        format!("${}::{kind}", self.0 - 1)
    }

    /// An array for each column of a table.
    fn arrays(&mut self, table: &Table) -> String {
        let array = |column: &Column| self.one(&format!("{}[]", type_of(column.kind)));
        table.columns.iter().map(array).collect::<Vec<_>>().join(", ")
    }
}

/// Writes rows if the lease was stepped.
fn insert_stepped(places: &mut Places, table: &Table) -> String {
    let (name, list, conflict, arrays) =
        (table.name, table.list(), table.on_conflict(), places.arrays(table));
    format!("INSERT INTO {name} ({list}) SELECT new.* FROM step, unnest({arrays}) AS new{conflict}")
}

fn step_and_write(places: &mut Places) -> String {
    let table = AssignmentRow::TABLE;
    let (list, conflict, arrays) = (table.list(), table.on_conflict(), places.arrays(table));
    let (result_key, latest) = (places.one("bigint[]"), places.one("text[]"));
    let audit = insert_stepped(places, AuditRow::TABLE);
    format!(
        "WITH step AS (
            UPDATE lease SET seq = seq + 1, served_ms = $3, renewed_ms = {now}
            WHERE epoch = $1 AND seq = $2 RETURNING 1
        ), assignment AS (
            INSERT INTO {name} AS old ({list}, result_key, latest)
            SELECT new.* FROM step, unnest({arrays}, {result_key}, {latest}) AS new{conflict},
                past = CASE WHEN excluded.latest IS NULL OR old.latest IS NULL
                        OR old.result_key = excluded.result_key
                    THEN old.past ELSE concat(old.past, old.latest, E'\n') END,
                result_key = COALESCE(excluded.result_key, old.result_key),
                latest = COALESCE(excluded.latest, old.latest)
        ), audited AS ({audit})",
        name = table.name,
        now = now_ms!(),
    )
}

fn step_and_write_more() -> String {
    let mut places = Places::from(4);
    let step = step_and_write(&mut places);
    let table = StageResultRow::TABLE;
    let (name, list, conflict, arrays) =
        (table.name, table.list(), table.on_conflict(), places.arrays(table));
    let deployment = insert_stepped(&mut places, DeploymentRow::TABLE);
    let child = insert_stepped(&mut places, ChildRow::TABLE);
    let (seen_key, seen_ms) = (places.one("bigint[]"), places.one("bigint[]"));
    let commit = places.one("bigint");
    format!(
        "{step}, stage_result AS (
            INSERT INTO {name} ({list}, seq) SELECT new.*, {commit} FROM step, unnest({arrays}) AS new{conflict},
                seq = excluded.seq
        ), deployment AS ({deployment}), child AS ({child}), seen AS (
            UPDATE children SET seen_ms = new.seen_ms
            FROM step, unnest({seen_key}, {seen_ms}) AS new (child_key, seen_ms)
            WHERE children.child_key = new.child_key
        )
        SELECT 1 FROM step"
    )
}

/// Everything above, for the test that prepares each statement.
pub(super) fn all() -> Vec<&'static str> {
    let each = EACH.iter().flat_map(|table| [table.write.as_str(), table.delete.as_str()]);
    let gone = GONE_WITH_CHILDREN
        .iter()
        .chain(GONE_WITH_WORKFLOWS.iter())
        .chain(GONE_WITH_RELEASE.iter())
        .map(String::as_str);
    let others = [STEP_AND_WRITE.as_str(), STEP_AND_WRITE_MORE.as_str(), IS_EMPTY.as_str()];
    each.chain(gone).chain(others).collect()
}
