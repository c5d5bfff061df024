//! What follows from the declaration of a table: its columns with their types, how a row becomes a struct and a struct a row,
//! and the statements that all databases understand.

use bytes::Bytes;
use model::hex;
use serde::Serialize;

use super::{
    ReleaseHead, StoreError,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, LeaseRow,
        LedServiceRow, MembersRow, OutboxId, OutboxRow, OverRow, PointerRow, PrecedentRow, RegisteredRow,
        ReleaseRow, RouterOrderRow, RouterRow, ServiceReleaseRow, SettingRow, StageResultRow, TenantRow,
        TrafficHistoryRow, UserRow, WorkflowPartRow, WorkflowRow, Writes,
    },
    schema::{every_part, every_table},
    session::Columns,
};

/// A table, or what is read of it.
#[derive(Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    /// In the order of every statement; those of the key first.
    pub columns: &'static [Column],
    /// How many of the first columns are the key.
    pub key: usize,
    pub writing: Writing,
    pub ends: Ends,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Small,
    Boolean,
    Text,
    Bytes,
}

/// What happens to a row whose key is there. See [`super::schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    Upsert,
    Keep,
    Insert,
}

/// With what rows go. See [`super::schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Alone,
    WithChildren,
    WithReleases,
    WithWorkflows,
}

impl Table {
    /// The names of the columns, as SELECT and INSERT take them.
    pub fn list(&self) -> String {
        names(self.columns)
    }

    /// The names of those of the key.
    pub fn key_list(&self) -> String {
        names(&self.columns[..self.key])
    }

    /// What an INSERT says of rows whose key is there.
    pub fn on_conflict(&self) -> String {
        let key = self.key_list();
        match self.writing {
            Writing::Insert => String::new(),
            Writing::Keep => format!(" ON CONFLICT ({key}) DO NOTHING"),
            Writing::Upsert => {
                let set = |column: &Column| format!("{0} = excluded.{0}", column.name);
                let set: Vec<String> = self.columns[self.key..].iter().map(set).collect();
                format!(" ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
            }
        }
    }

    /// Whether a column holds bytes, which have no JSON form.
    pub fn is_binary(&self) -> bool {
        self.columns.iter().any(|column| column.kind == Kind::Bytes)
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

/// A statement that finds out whether there is nothing in any table.
pub(crate) fn is_empty() -> String {
    let nothing = |table: &&Table| format!(" AND NOT EXISTS (SELECT 1 FROM {})", table.name);
    format!("SELECT seq = 0{} FROM lease", ALL.iter().map(nothing).collect::<String>())
}

/// A row of a table that is being read.
pub(crate) struct Row<'a> {
    table: &'static Table,
    columns: &'a dyn Columns,
}

impl Row<'_> {
    /// The key as far as it can be read, for the text of an error.
    fn key(&self) -> String {
        let part = |index| {
            let columns = self.columns;
            match (columns.int(index), columns.small(index), columns.text(index), columns.bytes(index)) {
                (Ok(Some(int)), ..) => int.to_string(),
                (_, Ok(Some(small)), ..) => small.to_string(),
                (_, _, Ok(Some(text)), _) => text,
                (_, _, _, Ok(Some(bytes))) => hex::encode(&bytes),
                _ => "?".to_owned(),
            }
        };
        (0..self.table.key).map(part).collect::<Vec<_>>().join("/")
    }

    fn take<V: Value>(&self, index: usize) -> Result<V, StoreError> {
        let why = match V::read(self.columns, index) {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => "is NULL".to_owned(),
            Err(why) => why,
        };
        let column = self.table.columns[index].name;
        Err(StoreError::BadRow { table: self.table.name, key: self.key(), column, why })
    }
}

/// A type of the rows' fields: how it lies in a column. What it is not, it has no value as.
pub(crate) trait Value: Sized + Send + Sync {
    const KIND: Kind;

    /// `None`: there is NULL, which it can't be.
    fn read(columns: &dyn Columns, index: usize) -> Result<Option<Self>, String>;

    fn int(&self) -> Option<i64> {
        None
    }
    fn small(&self) -> Option<i16> {
        None
    }
    fn boolean(&self) -> Option<bool> {
        None
    }
    fn text(&self) -> Option<&str> {
        None
    }
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// The number, if it is one that no database of ours can keep.
    fn too_large(&self) -> Option<u64> {
        None
    }
}

fn fit<T: TryFrom<i64>>(wide: i64) -> Result<T, String> {
    T::try_from(wide).map_err(|_| format!("{wide} is out of range"))
}

/// A number in a column of the type `Int`: how it is widened, and which one is too large for that.
macro_rules! int {
    ($type:ty, $widen:expr, $too_large:expr) => {
        impl Value for $type {
            const KIND: Kind = Kind::Int;
            fn read(columns: &dyn Columns, index: usize) -> Result<Option<Self>, String> {
                columns.int(index)?.map(fit).transpose()
            }
            fn int(&self) -> Option<i64> {
                let widen: fn(Self) -> i64 = $widen;
                Some(widen(*self))
            }
            fn too_large(&self) -> Option<u64> {
                let too_large: fn(Self) -> Option<u64> = $too_large;
                too_large(*self)
            }
        }
    };
}
int!(i64, |int| int, |_| None);
int!(u32, i64::from, |_| None);
int!(u64, u64::cast_signed, |int| i64::try_from(int).is_err().then_some(int));

/// What lies in a column as it is.
macro_rules! plain {
    ($type:ty, $kind:ident, $column:ident -> $shown:ty, $show:expr) => {
        impl Value for $type {
            const KIND: Kind = Kind::$kind;
            fn read(columns: &dyn Columns, index: usize) -> Result<Option<Self>, String> {
                Ok(columns.$column(index)?.map(Self::from))
            }
            fn $column(&self) -> Option<$shown> {
                let show: fn(&Self) -> $shown = $show;
                Some(show(self))
            }
        }
    };
}
plain!(i16, Small, small -> i16, |small| *small);
plain!(bool, Boolean, boolean -> bool, |boolean| *boolean);
plain!(String, Text, text -> &str, String::as_str);
plain!(Vec<u8>, Bytes, bytes -> &[u8], Vec::as_slice);
plain!(Bytes, Bytes, bytes -> &[u8], |bytes| bytes);

/// NULL is a value of it.
impl<V: Value> Value for Option<V> {
    const KIND: Kind = V::KIND;

    fn read(columns: &dyn Columns, index: usize) -> Result<Option<Self>, String> {
        V::read(columns, index).map(Some)
    }
    fn int(&self) -> Option<i64> {
        self.as_ref().and_then(V::int)
    }
    fn small(&self) -> Option<i16> {
        self.as_ref().and_then(V::small)
    }
    fn boolean(&self) -> Option<bool> {
        self.as_ref().and_then(V::boolean)
    }
    fn text(&self) -> Option<&str> {
        self.as_ref().and_then(V::text)
    }
    fn bytes(&self) -> Option<&[u8]> {
        self.as_ref().and_then(V::bytes)
    }
    fn too_large(&self) -> Option<u64> {
        self.as_ref().and_then(V::too_large)
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

/// A row of a table.
pub(crate) trait Stored: FromRow + Serialize + Send + Sync {
    /// Reads the whole table, in the order of its key.
    const SELECT: &'static str;

    /// Shows the values of each column of these rows, column by column.
    fn show<'r, S: See>(rows: impl Iterator<Item = &'r Self> + Clone, to: S) -> S
    where
        Self: 'r;
}

/// Sees the columns of rows.
pub(crate) trait See: Sized {
    #[must_use]
    fn see<'r, V: Value + 'r>(self, column: &'static str, values: impl Iterator<Item = &'r V>) -> Self;
}

/// Sees what a batch writes to each table.
pub(crate) trait SeeTables {
    fn table<T: Stored>(&mut self, rows: &[T]) -> Result<(), StoreError>;
}

/// Sees what a batch writes to each table, and may wait in between.
pub(crate) trait WriteTables {
    fn table<T: Stored>(&mut self, rows: &[T]) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Names with commas in between, as a literal.
macro_rules! list {
    ($first:ident $(, $more:ident)*) => {
        concat!(stringify!($first) $(, ", ", stringify!($more))*)
    };
}

const fn count(names: &[&str]) -> usize {
    names.len()
}

/// The type of the field that the function shows.
const fn kind_of<R, V: Value>(_: fn(&R) -> &V) -> Kind {
    V::KIND
}

macro_rules! writing {
    (upsert) => {
        Writing::Upsert
    };
    (keep) => {
        Writing::Keep
    };
    (insert) => {
        Writing::Insert
    };
}

macro_rules! ends {
    (alone) => {
        Ends::Alone
    };
    (children) => {
        Ends::WithChildren
    };
    (releases) => {
        Ends::WithReleases
    };
    (workflows) => {
        Ends::WithWorkflows
    };
}

/// How a struct is read whose fields are these columns.
macro_rules! from_row {
    ($row:ident, $table:ident, $writing:expr, $ends:expr, [$($key:ident),*] [$($column:ident),*]) => {
        impl FromRow for $row {
            const TABLE: &'static Table = &Table {
                name: stringify!($table),
                columns: &[
                    $(Column { name: stringify!($key), kind: kind_of(|row: &$row| &row.$key) },)*
                    $(Column { name: stringify!($column), kind: kind_of(|row: &$row| &row.$column) },)*
                ],
                key: count(&[$(stringify!($key)),*]),
                writing: $writing,
                ends: $ends,
            };

            fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
                let mut taken = 0;
                let mut next = || {
                    taken += 1;
                    taken - 1
                };
                Ok(Self { $($key: row.take(next())?,)* $($column: row.take(next())?),* })
            }
        }
    };
}

macro_rules! declare {
    ($($table:ident $variant:ident($row:ident) $writing:ident $ends:ident [$($key:ident),*] from $source:ident
        [$($column:ident),*];)*) => {
        $(
            from_row!($row, $table, writing!($writing), ends!($ends), [$($key),*] [$($column),*]);

            impl Stored for $row {
                const SELECT: &'static str = concat!(
                    "SELECT ", list!($($key,)* $($column),*), " FROM ", stringify!($source), " ORDER BY ", list!($($key),*)
                );

                fn show<'r, S: See>(rows: impl Iterator<Item = &'r Self> + Clone, to: S) -> S {
                    $(let to = to.see(stringify!($key), rows.clone().map(|row| &row.$key));)*
                    $(let to = to.see(stringify!($column), rows.clone().map(|row| &row.$column));)*
                    to
                }
            }
        )*

        /// Every table, in the order in which they are written.
        pub(crate) const ALL: [&Table; [$(stringify!($table)),*].len()] = [$($row::TABLE),*];

        /// The names of the tables with many rows.
        pub const TABLES: [&str; ALL.len()] = [$(stringify!($table)),*];

        /// The tables in the order in which they are told, each with the statement that counts it.
        pub(crate) const COUNTS: [(&str, &str); ALL.len()] = [
            $((stringify!($table), concat!("SELECT count(*) FROM ", stringify!($source)))),*
        ];

        impl Writes {
            /// Shows the rows of each table.
            pub(crate) fn show(&self, to: &mut impl SeeTables) -> Result<(), StoreError> {
                $(to.table(&self.$table)?;)*
                Ok(())
            }

            /// Hands over the rows of each table, in their order.
            pub(crate) async fn write(&self, to: &mut impl WriteTables) -> Result<(), StoreError> {
                $(to.table(&self.$table).await?;)*
                Ok(())
            }
        }

        /// The columns of a row as a literal, for statements that are written by hand.
        macro_rules! columns {
            $(($row) => { $crate::tables::list!($($key,)* $($column),*) };)*
        }
        pub(crate) use columns;
    };
}
every_table!(declare);

macro_rules! declare_parts {
    ($($row:ident $table:ident [$($key:ident),*] [$($column:ident),*];)*) => {
        $(from_row!($row, $table, Writing::Insert, Ends::Alone, [$($key),*] [$($column),*]);)*

        /// The columns of a part as a literal, for statements that are written by hand.
        macro_rules! part {
            $(($row) => { $crate::tables::list!($($key,)* $($column),*) };)*
        }
        pub(crate) use part;
    };
}
every_part!(declare_parts);

pub(crate) use list;
