//! Moving a whole store: a backup, and the way from one kind of database to the other.
//!
//! The file is lines of JSON: first what it is, then one row a line, last how many rows there were and the SHA-256
//! of every line before. A file that was cut or changed is refused, and since an import is one transaction, nothing
//! of it stays. An export is one read transaction and needs no lease: it can be taken while a manager works.

use std::{
    collections::BTreeMap,
    fmt,
    io::{BufRead, Write},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use model::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    StoreError,
    dump::{self, AnyRow},
    rows::{LeaseRow, Writes},
    session::{Columns, Session, Sessions},
    tables::{COUNTS, FromRow},
};

/// What the first line calls the file.
const FORMAT: &str = "choirmaster-store";

/// The version of the file's form; raised when an older program couldn't read it.
const VERSION: u32 = 6;

/// Longest line accepted, in bytes. An archive is one line.
pub const MAX_LINE_BYTES: u64 = 512 * 1024 * 1024;

/// Most rows an import writes at once.
pub const MAX_SLICE_ROWS: usize = 4096;

/// An import writes what it has when it has read this many bytes.
pub const MAX_SLICE_BYTES: usize = 16 * 1024 * 1024;

/// How far a store has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub seq: u64,
    pub served_ms: u64,
}

/// A part of an import.
#[derive(Debug, Default)]
pub struct Slice {
    pub writes: Writes,
    /// The last slice tells it.
    pub progress: Option<Progress>,
}

/// Gives the next slice; an error undoes everything.
pub type Slices<'a> = dyn FnMut() -> Result<Option<Slice>, StoreError> + Send + 'a;

/// A store that can be filled, with its lease taken.
pub trait Target: Send + fmt::Debug {
    /// Writes all slices in one transaction. Refused, with nothing changed, if there is anything in the store.
    fn fill<'a>(&'a mut self, slices: &'a mut Slices<'_>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Gives the lease back.
    fn finish(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// A store that is read as a whole.
#[derive(Debug, Clone)]
pub struct Source {
    sessions: Arc<dyn Sessions>,
}

/// What `store info` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Info {
    pub schema_version: i64,
    pub lease: LeaseRow,
    /// Rows by table.
    pub rows: BTreeMap<&'static str, u64>,
}

impl Source {
    pub(crate) fn new(sessions: Arc<dyn Sessions>) -> Self {
        Self { sessions }
    }

    /// Version, lease and number of rows.
    pub async fn info(&self) -> Result<Info, StoreError> {
        let mut session = self.sessions.snapshot().await?;
        let schema_version = number(&mut *session, self.sessions.version_sql()).await?;
        let mut lease = None;
        let mut take = |columns: &dyn Columns| {
            lease = Some(LeaseRow::read(columns)?);
            Ok(())
        };
        session.rows(dump::LEASE, &[], &mut take).await?;
        let mut rows = BTreeMap::new();
        for (table, sql) in COUNTS {
            rows.insert(table, number(&mut *session, sql).await?.cast_unsigned());
        }
        let lease = lease.ok_or_else(|| StoreError::Refused("the store has no lease row".to_owned()))?;
        Ok(Info { schema_version, lease, rows })
    }
}

/// The one number that a statement answers.
async fn number(session: &mut dyn Session, sql: &'static str) -> Result<i64, StoreError> {
    let mut found = Ok(None);
    let mut take = |columns: &dyn Columns| {
        found = columns.int(0);
        Ok(())
    };
    session.rows(sql, &[], &mut take).await?;
    let uncounted = |why: &str| StoreError::Refused(format!("{sql:?} counts nothing: {why}"));
    found.map_err(|why| uncounted(&why))?.ok_or_else(|| uncounted("there is no number"))
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Tail {
    rows: u64,
    sha256: String,
}

/// A line after the first.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    End { end: Tail },
    Row(AnyRow),
}

/// Writes everything in `source` to `out`; tells `progress` the number of rows so far. Answers how many there were.
pub async fn export(
    source: &Source,
    out: &mut (dyn Write + Send),
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, StoreError> {
    let mut session = source.sessions.snapshot().await?;
    let mut digest = Sha256::new();
    let mut rows = 0;
    let mut put = |out: &mut (dyn Write + Send), line: Vec<u8>| {
        digest.update(&line);
        out.write_all(&line).map_err(|error| cannot_write(&error))
    };
    put(out, line_of(&Head { format: FORMAT.to_owned(), version: VERSION })?)?;
    dump::dump(&mut *session, &mut |row| {
        put(out, line_of(&row)?)?;
        rows += 1;
        progress(rows);
        Ok(())
    })
    .await?;
    let end = Tail { rows, sha256: hex::encode(&digest.finalize()) };
    out.write_all(&line_of(&Line::End { end })?)
        .and_then(|()| out.flush())
        .map_err(|error| cannot_write(&error))?;
    Ok(rows)
}

fn line_of(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut line = serde_json::to_vec(value).map_err(|error| StoreError::Refused(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

fn cannot_write(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the export can't be written: {error}"))
}

/// What every adapter says of a store that has something in it.
pub(crate) fn not_empty() -> StoreError {
    StoreError::Refused("the store is not empty: import into a new one; nothing was changed".to_owned())
}

/// Fills the empty `target` with what `input` holds; tells `progress` the number of rows so far. Answers how many
/// there were.
pub async fn import(
    target: &mut dyn Target,
    input: &mut (dyn BufRead + Send),
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, StoreError> {
    let mut file = ImportFile::open(input)?;
    let mut told = 0;
    target
        .fill(&mut || {
            let slice = file.slice()?;
            if file.rows != told {
                told = file.rows;
                progress(told);
            }
            Ok(slice)
        })
        .await?;
    Ok(file.rows)
}

/// An export that is being read.
struct ImportFile<'a> {
    input: &'a mut (dyn BufRead + Send),
    digest: Sha256,
    line: Vec<u8>,
    number: u64,
    rows: u64,
    progress: Option<Progress>,
    ended: bool,
}

impl fmt::Debug for ImportFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportFile").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<'a> ImportFile<'a> {
    fn open(input: &'a mut (dyn BufRead + Send)) -> Result<Self, StoreError> {
        let (digest, line) = (Sha256::new(), Vec::new());
        let mut file = Self { input, digest, line, number: 0, rows: 0, progress: None, ended: false };
        file.next_line()?;
        match serde_json::from_slice::<Head>(&file.line) {
            Ok(head) if head.format == FORMAT && head.version == VERSION => {}
            Ok(head) if head.format == FORMAT => {
                let found = head.version;
                let whose = if found > VERSION {
                    "use a newer choirmaster"
                } else {
                    "it is from before the first release"
                };
                return Err(file.bad(&format!("has form {found}, this program reads {VERSION}: {whose}")));
            }
            _ => return Err(file.bad("is not the first line of an export")),
        }
        file.digest.update(&file.line);
        Ok(file)
    }

    fn bad(&self, why: &str) -> StoreError {
        StoreError::Refused(format!("line {} of the file {why}; nothing was imported", self.number))
    }

    fn next_line(&mut self) -> Result<(), StoreError> {
        self.line.clear();
        self.number += 1;
        let mut limited = std::io::Read::take(&mut *self.input, MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.line);
        if let Err(error) = read {
            return Err(self.bad(&format!("can't be read: {error}")));
        }
        if self.line.last() == Some(&b'\n') {
            Ok(())
        } else if self.line.len() as u64 == MAX_LINE_BYTES {
            Err(self.bad(&format!("is longer than {MAX_LINE_BYTES} bytes")))
        } else {
            Err(self.bad("is cut: the file has no end"))
        }
    }

    /// The next rows; `None` after the last line, which is where the file proves to be whole.
    fn slice(&mut self) -> Result<Option<Slice>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let mut slice = Slice::default();
        let (mut rows, mut bytes) = (0, 0);
        while rows < MAX_SLICE_ROWS && bytes < MAX_SLICE_BYTES {
            self.next_line()?;
            match serde_json::from_slice(&self.line) {
                Ok(Line::Row(row)) => self.add(&mut slice.writes, row),
                Ok(Line::End { end }) => {
                    self.check_end(&end)?;
                    slice.progress = self.progress;
                    self.ended = true;
                    return Ok(Some(slice));
                }
                Err(error) => return Err(self.bad(&format!("is not a row: {error}"))),
            }
            self.digest.update(&self.line);
            self.rows += 1;
            rows += 1;
            bytes += self.line.len();
        }
        Ok(Some(slice))
    }

    fn add(&mut self, writes: &mut Writes, row: AnyRow) {
        if let Some(LeaseRow { seq, served_ms, .. }) = row.add_to(writes) {
            self.progress = Some(Progress { seq, served_ms });
        }
    }

    fn check_end(&mut self, end: &Tail) -> Result<(), StoreError> {
        let found = hex::encode(&std::mem::take(&mut self.digest).finalize());
        if end.rows != self.rows || end.sha256 != found {
            return Err(self.bad(&format!(
                "tells of {} rows with SHA-256 {}, but there were {} with {found}: the file is damaged",
                end.rows, end.sha256, self.rows
            )));
        }
        match self.progress {
            Some(Progress { seq, served_ms }) if i64::try_from(seq.max(served_ms)).is_ok() => Ok(()),
            _ => Err(self.bad("ends an export without a usable lease row")),
        }
    }
}
