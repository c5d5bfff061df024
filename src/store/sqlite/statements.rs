//! The statements that follow from the declaration of each table, built once.

use std::sync::LazyLock;

use crate::tables::{ALL, Column, Ends, Table, is_empty};

/// Those of one table.
pub(super) struct Statements {
    /// Writes rows: those in the JSON text `?1`; of a table with binary columns the one whose columns are bound.
    pub write: String,
    /// Removes the rows whose keys are in the JSON text `?1`. Only of tables with a key of one column.
    pub delete: String,
}

/// Those of each table, in the order of [`ALL`].
static EACH: LazyLock<Vec<Statements>> = LazyLock::new(|| ALL.iter().map(|table| of_table(table)).collect());

/// Removes what goes with the children whose keys are in the JSON text `?1`.
pub(super) static GONE_WITH_CHILDREN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| {
        format!("DELETE FROM {} WHERE child_key IN (SELECT value FROM jsonb_each(?1))", table.name)
    };
    ending(Ends::WithChildren).map(gone).collect()
});

/// Removes what goes with the workflows whose keys are in the JSON text `?1`.
pub(super) static GONE_WITH_WORKFLOWS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| {
        format!("DELETE FROM {} WHERE workflow_key IN (SELECT value FROM jsonb_each(?1))", table.name)
    };
    ending(Ends::WithWorkflows).map(gone).collect()
});

/// Removes rows that go with one release: key, limit, epoch.
pub(super) static GONE_WITH_RELEASE: LazyLock<Vec<String>> = LazyLock::new(|| {
    let gone = |table: &Table| {
        let (name, key) = (table.name, table.key_list());
        format!(
            "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE release_key = ?1 LIMIT ?2)
            AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)"
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

fn ending(ends: Ends) -> impl Iterator<Item = &'static Table> {
    ALL.into_iter().filter(move |table| table.ends == ends)
}

fn of_table(table: &Table) -> Statements {
    let (name, list, conflict) = (table.name, table.list(), table.on_conflict());
    let rows = if table.is_binary() {
        let places: Vec<String> = (1..=table.columns.len()).map(|place| format!("?{place}")).collect();
        format!("VALUES ({})", places.join(", "))
    } else {
        let value = |column: &Column| format!("value->>'{}'", column.name);
        let values: Vec<String> = table.columns.iter().map(value).collect();
        // Without a condition the parser would take ON for a part of the FROM.
        format!("SELECT {} FROM jsonb_each(?1) WHERE true", values.join(", "))
    };
    Statements {
        write: format!("INSERT INTO {name} ({list}) {rows}{conflict}"),
        delete: format!(
            "DELETE FROM {name} WHERE ({}) IN (SELECT value FROM jsonb_each(?1))",
            table.columns[0].name
        ),
    }
}

/// Everything above, for the test that prepares each statement.
pub(super) fn all() -> Vec<&'static str> {
    let each = EACH.iter().flat_map(|table| [table.write.as_str(), table.delete.as_str()]);
    let gone = GONE_WITH_CHILDREN
        .iter()
        .chain(GONE_WITH_WORKFLOWS.iter())
        .chain(GONE_WITH_RELEASE.iter())
        .map(String::as_str);
    each.chain(gone).chain([IS_EMPTY.as_str()]).collect()
}
