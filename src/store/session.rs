//! The seam between reading in general and one database: run a statement, hand over its rows.
//!
//! Everything that is read is read by the modules `history` and `dump`, once for all databases, with SQL both
//! understand; an adapter only has to run a statement and to take columns out of a row.

use futures_util::future::BoxFuture;

use super::{DiskSpace, StoreError, StoreKind};

/// A parameter of a statement, `$1` the first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    Int(i64),
    Text(&'a str),
    OptText(Option<&'a str>),
    Bytes(&'a [u8]),
}

/// The columns of one row, by position. `Ok(None)` is NULL; an error is a text that says what was found instead.
pub(crate) trait Columns {
    fn int(&self, index: usize) -> Result<Option<i64>, String>;
    fn small(&self, index: usize) -> Result<Option<i16>, String>;
    fn boolean(&self, index: usize) -> Result<Option<bool>, String>;
    fn text(&self, index: usize) -> Result<Option<String>, String>;
    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>, String>;
}

/// What is called with each row.
pub(crate) type EachRow<'a> = dyn FnMut(&dyn Columns) -> Result<(), StoreError> + Send + 'a;

/// A connection to read from.
pub(crate) trait Session: Send {
    /// Runs `sql` and hands each row to `each`, in order, without collecting them; stops at its first error.
    fn rows<'a>(
        &'a mut self,
        sql: &'static str,
        args: &'a [Arg<'a>],
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Where sessions come from.
pub(crate) trait Sessions: Send + Sync + std::fmt::Debug {
    /// For one statement.
    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>>;

    /// All statements see the store as it is at the first of them.
    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>>;

    /// The one statement that isn't the same everywhere: releases, newest first, by `$1` key below, `$2` limit,
    /// `$3` state or NULL, `$4` function or NULL, `$5` with what the id begins or NULL.
    fn releases_sql(&self) -> &'static str;

    /// One row: the schema's version.
    fn version_sql(&self) -> &'static str;

    fn kind(&self) -> StoreKind;

    /// The space on its disk; `None`: that is another machine's.
    fn disk(&self) -> BoxFuture<'_, Result<Option<DiskSpace>, StoreError>>;
}
