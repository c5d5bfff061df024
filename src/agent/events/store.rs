//! Events on disk: those that wait to be handed over, and which ones were taken.
//!
//! One thread writes. What is asked for while it writes is committed together the next time, and answered once it is on disk.

use std::{
    collections::HashMap,
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, mpsc},
    thread,
    time::Duration,
};

use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableDefinition, WriteTransaction,
};
use tokio::sync::oneshot;

/// Most events that wait between an instance and a target, and most bytes of these. What comes beyond is refused. Each has its own, so
/// that what waits for one never keeps another one from going on.
const MAX_EVENTS: u64 = 10_000;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of all, beyond which functions that begin by themselves put out nothing more.
const MAX_BYTES_IN_ALL: u64 = 1024 * 1024 * 1024;

/// Before the file is opened again once it could not be written.
const REST: Duration = Duration::from_millis(500);

/// Senders of which it is remembered what was taken; those that were heard of longest ago are forgotten first.
const MAX_SENDERS: u64 = 10_000;

/// Writes that are committed together, at most.
const MAX_TOGETHER: usize = 256;

type Row<'r> = (&'r str, &'r str, i64, &'r [u8]);

/// By instance, target and number: the output, the logical id of the instance, when that was in milliseconds since 1970, and what was put
/// out.
const WAITING: TableDefinition<'_, (&str, &str, u64), Row<'_>> = TableDefinition::new("waiting");

/// By instance: the number of the last event that it put out.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// By instance and output: what the function called the last event there, and its number. A function that heard nothing of an event says
/// it again.
const KEYS: TableDefinition<'_, (&str, &str), (&str, u64)> = TableDefinition::new("keys");

/// In place of an instance, which has a name: how many events were taken.
const ORDER: &str = "";

/// By part and the instance that sent it: the number of the last event that was taken, and a place in the order of all.
const TAKEN: TableDefinition<'_, (&str, &str), (u64, u64)> = TableDefinition::new("taken");

/// By the name of a file: how long it was with the last event that was taken.
const FILES: TableDefinition<'_, &str, u64> = TableDefinition::new("files");

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    #[error("too many events wait to be handed over")]
    Full,
    #[error("{0}")]
    Failed(String),
}

impl StoreError {
    fn of(error: impl Into<redb::Error>) -> Self {
        Self::Failed(error.into().to_string())
    }
}

/// An event that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub number: u64,
    pub output: String,
    /// The logical id of the instance that has put it out.
    pub logical: String,
    /// When that was, in milliseconds since 1970.
    pub at_ms: i64,
    pub body: Vec<u8>,
}

/// What is written.
#[derive(Debug)]
pub(super) enum Write {
    Put {
        from: String,
        logical: String,
        to: String,
        output: String,
        at_ms: i64,
        body: Vec<u8>,
        /// What the function calls it.
        key: Option<String>,
        /// The function begins by itself.
        is_source: bool,
    },
    /// Its target has taken it, or nobody ever will.
    Sent { from: String, to: String, number: u64, bytes: u64 },
    /// `file`: one that has grown with it, and how long it is now.
    Taken { part: String, from: String, number: u64, file: Option<(String, u64)> },
    /// How long a file is that something is about to be written to.
    Length { file: String, length: u64 },
    /// The instance is gone, and nothing of it waits.
    Forget { from: String },
}

struct Job {
    write: Write,
    done: oneshot::Sender<Result<u64, StoreError>>,
}

/// How many events wait, and how many bytes these have: by instance and target.
#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<(String, String), (u64, u64)>>);

/// None while it can't be opened again.
type Shared = Arc<RwLock<Option<Database>>>;

#[derive(Debug, Clone)]
pub(super) struct Store {
    db: Shared,
    jobs: mpsc::Sender<Job>,
    counts: Arc<Counts>,
}

impl Store {
    /// # Errors
    ///
    /// The file can't be opened, or isn't one of these.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = open(path)?;
        let write = db.begin_write().map_err(StoreError::of)?;
        let counts = Arc::new(Counts::default());
        {
            let waiting = write.open_table(WAITING).map_err(StoreError::of)?;
            for row in waiting.iter().map_err(StoreError::of)? {
                let (key, value) = row.map_err(StoreError::of)?;
                let (from, to, _) = key.value();
                counts.add(from, to, value.value().3.len() as u64);
            }
            write.open_table(NUMBERS).map_err(StoreError::of)?;
            write.open_table(KEYS).map_err(StoreError::of)?;
            write.open_table(TAKEN).map_err(StoreError::of)?;
            write.open_table(FILES).map_err(StoreError::of)?;
        }
        write.commit().map_err(StoreError::of)?;
        let db = Arc::new(RwLock::new(Some(db)));
        let (jobs, asked) = mpsc::channel();
        let (writing, counted, path) = (Arc::clone(&db), Arc::clone(&counts), path.to_owned());
        thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || run(&path, &writing, &asked, &counted))
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self { db, jobs, counts })
    }

    /// Has something written; when this returns, it is on disk. Of an event that is put out it is the number.
    pub async fn write(&self, write: Write) -> Result<u64, StoreError> {
        if let Write::Put { from, to, body, is_source, .. } = &write
            && !self.counts.has_room(from, to, body.len() as u64, *is_source)
        {
            return Err(StoreError::Full);
        }
        let ended = || StoreError::Failed("nothing is written any more".to_owned());
        let (done, is_done) = oneshot::channel();
        self.jobs.send(Job { write, done }).map_err(|_| ended())?;
        is_done.await.map_err(|_| ended())?
    }

    /// The first event that waits from one instance for one target.
    pub fn first(&self, from: &str, to: &str) -> Result<Option<Waiting>, StoreError> {
        let read = self.read()?;
        let waiting = read.open_table(WAITING).map_err(StoreError::of)?;
        let mut all = waiting.range((from, to, 0)..=(from, to, u64::MAX)).map_err(StoreError::of)?;
        let Some(row) = all.next() else { return Ok(None) };
        let (key, value) = row.map_err(StoreError::of)?;
        let (output, logical, at_ms, body) = value.value();
        let (output, logical) = (output.to_owned(), logical.to_owned());
        Ok(Some(Waiting { number: key.value().2, output, logical, at_ms, body: body.to_vec() }))
    }

    fn read(&self) -> Result<ReadTransaction, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let db =
            db.as_ref().ok_or_else(|| StoreError::Failed("the file can't be opened again".to_owned()))?;
        db.begin_read().map_err(StoreError::of)
    }

    /// Whether something of an instance waits.
    pub fn waits(&self, from: &str) -> Result<bool, StoreError> {
        let waiting = self.read()?.open_table(WAITING).map_err(StoreError::of)?;
        let mut first = waiting.range((from, "", 0)..).map_err(StoreError::of)?;
        let Some(row) = first.next() else { return Ok(false) };
        Ok(row.map_err(StoreError::of)?.0.value().0 == from)
    }

    /// Instances and targets between which something waits.
    pub fn queues(&self) -> Result<Vec<(String, String)>, StoreError> {
        let read = self.read()?;
        let waiting = read.open_table(WAITING).map_err(StoreError::of)?;
        let mut queues: Vec<(String, String)> = Vec::new();
        loop {
            // The first row behind the last queue.
            let next = match queues.last() {
                None => waiting.range(("", "", 0)..),
                Some((from, to)) => {
                    let last = (from.as_str(), to.as_str(), u64::MAX);
                    waiting.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                }
            };
            let Some(row) = next.map_err(StoreError::of)?.next() else { return Ok(queues) };
            let (key, _) = row.map_err(StoreError::of)?;
            let (from, to, _) = key.value();
            queues.push((from.to_owned(), to.to_owned()));
        }
    }

    /// Instances of which a number is remembered.
    pub fn numbered(&self) -> Result<Vec<String>, StoreError> {
        let read = self.read()?;
        let numbers = read.open_table(NUMBERS).map_err(StoreError::of)?;
        let all = numbers.iter().map_err(StoreError::of)?;
        let all = all.map(|row| Ok(row.map_err(StoreError::of)?.0.value().to_owned()));
        all.filter(|of| of.as_ref().map_or(true, |of| of != ORDER)).collect()
    }

    /// The number of the last event that a part has taken from an instance.
    pub fn taken(&self, part: &str, from: &str) -> Result<u64, StoreError> {
        let read = self.read()?;
        let taken = read.open_table(TAKEN).map_err(StoreError::of)?;
        let number = taken.get((part, from)).map_err(StoreError::of)?;
        Ok(number.map_or(0, |row| row.value().0))
    }

    /// How long a file was with the last event that was taken.
    pub fn length(&self, file: &str) -> Result<Option<u64>, StoreError> {
        let read = self.read()?;
        let files = read.open_table(FILES).map_err(StoreError::of)?;
        Ok(files.get(file).map_err(StoreError::of)?.map(|row| row.value()))
    }
}

impl Counts {
    fn add(&self, from: &str, to: &str, bytes: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (events, sum) = all.entry((from.to_owned(), to.to_owned())).or_default();
        (*events, *sum) = (*events + 1, *sum + bytes);
    }

    fn take(&self, from: &str, to: &str, bytes: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = (from.to_owned(), to.to_owned());
        let Some((events, sum)) = all.get_mut(&of) else { return };
        (*events, *sum) = (events.saturating_sub(1), sum.saturating_sub(bytes));
        if *events == 0 {
            all.remove(&of);
        }
    }

    /// Whether one more of so many bytes has room.
    fn has_room(&self, from: &str, to: &str, bytes: u64, is_source: bool) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (events, sum) = all.get(&(from.to_owned(), to.to_owned())).copied().unwrap_or_default();
        let in_all = || all.values().map(|(_, bytes)| bytes).sum::<u64>();
        events < MAX_EVENTS
            && sum + bytes <= MAX_BYTES
            && (!is_source || in_all() + bytes <= MAX_BYTES_IN_ALL)
    }
}

/// A file that is whole, or none.
fn open(path: &Path) -> Result<Database, StoreError> {
    if !path.exists() {
        let failed = |error: io::Error| StoreError::Failed(error.to_string());
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        drop(Database::create(&new).map_err(StoreError::of)?);
        fs::rename(&new, path).map_err(failed)?;
    }
    Database::create(path).map_err(StoreError::of)
}

/// Writes what is asked for. A file that could not be written takes nothing more until it is opened again.
fn run(path: &Path, db: &Shared, jobs: &mpsc::Receiver<Job>, counts: &Counts) {
    let mut last_failed = false;
    while let Ok(first) = jobs.recv() {
        let all: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(MAX_TOGETHER - 1)).collect();
        if last_failed {
            thread::sleep(REST);
            let mut db = db.write().unwrap_or_else(PoisonError::into_inner);
            // Two of them can't have the file.
            drop(db.take());
            match open(path) {
                Ok(opened) => *db = Some(opened),
                Err(error) => tracing::warn!(%error, "the file of events can't be opened again"),
            }
        }
        let written = {
            let db = db.read().unwrap_or_else(PoisonError::into_inner);
            let unopened = || StoreError::Failed("the file can't be opened again".to_owned());
            db.as_ref().ok_or_else(unopened).and_then(|db| write(db, &all))
        };
        last_failed = written.is_err();
        match written {
            Ok(numbers) => {
                for (job, (number, is_new)) in all.into_iter().zip(numbers) {
                    match &job.write {
                        Write::Put { from, to, body, .. } if is_new => {
                            counts.add(from, to, body.len() as u64);
                        }
                        Write::Sent { from, to, bytes, .. } => counts.take(from, to, *bytes),
                        Write::Put { .. }
                        | Write::Taken { .. }
                        | Write::Length { .. }
                        | Write::Forget { .. } => {}
                    }
                    let _ = job.done.send(Ok(number));
                }
            }
            Err(error) => {
                for job in all {
                    let _ = job.done.send(Err(error.clone()));
                }
            }
        }
    }
}

fn write(db: &Database, jobs: &[Job]) -> Result<Vec<(u64, bool)>, StoreError> {
    let write = db.begin_write().map_err(StoreError::of)?;
    let numbers = jobs.iter().map(|job| one(&write, &job.write)).collect::<Result<Vec<_>, StoreError>>()?;
    write.commit().map_err(StoreError::of)?;
    Ok(numbers)
}

/// The number of an event that is put out, and whether something came of it.
fn one(to_disk: &WriteTransaction, write: &Write) -> Result<(u64, bool), StoreError> {
    match write {
        Write::Put { from, logical, to, output, at_ms, body, key, is_source: _ } => {
            let mut keys = to_disk.open_table(KEYS).map_err(StoreError::of)?;
            let of = (from.as_str(), output.as_str());
            let last = keys.get(of).map_err(StoreError::of)?.map(|row| {
                let (key, number) = row.value();
                (key.to_owned(), number)
            });
            if let (Some(key), Some((last, number))) = (key, last)
                && *key == last
            {
                return Ok((number, false));
            }
            let number = next(to_disk, from)?;
            let mut waiting = to_disk.open_table(WAITING).map_err(StoreError::of)?;
            let row = (output.as_str(), logical.as_str(), *at_ms, body.as_slice());
            waiting.insert((from.as_str(), to.as_str(), number), row).map_err(StoreError::of)?;
            if let Some(key) = key {
                keys.insert(of, (key.as_str(), number)).map_err(StoreError::of)?;
            }
            return Ok((number, true));
        }
        Write::Sent { from, to, number, .. } => {
            let mut waiting = to_disk.open_table(WAITING).map_err(StoreError::of)?;
            waiting.remove((from.as_str(), to.as_str(), *number)).map_err(StoreError::of)?;
        }
        Write::Taken { part, from, number, file } => {
            let mut taken = to_disk.open_table(TAKEN).map_err(StoreError::of)?;
            if taken.len().map_err(StoreError::of)? >= MAX_SENDERS {
                forget_oldest(&mut taken)?;
            }
            let order = next(to_disk, ORDER)?;
            taken.insert((part.as_str(), from.as_str()), (*number, order)).map_err(StoreError::of)?;
            if let Some((name, length)) = file {
                let mut files = to_disk.open_table(FILES).map_err(StoreError::of)?;
                files.insert(name.as_str(), *length).map_err(StoreError::of)?;
            }
        }
        Write::Length { file, length } => {
            let mut files = to_disk.open_table(FILES).map_err(StoreError::of)?;
            files.insert(file.as_str(), *length).map_err(StoreError::of)?;
        }
        Write::Forget { from } => {
            let mut numbers = to_disk.open_table(NUMBERS).map_err(StoreError::of)?;
            numbers.remove(from.as_str()).map_err(StoreError::of)?;
            let mut keys = to_disk.open_table(KEYS).map_err(StoreError::of)?;
            keys.retain(|(of, _), _| of != from.as_str()).map_err(StoreError::of)?;
        }
    }
    Ok((0, true))
}

/// The next number of an instance.
fn next(to_disk: &WriteTransaction, of: &str) -> Result<u64, StoreError> {
    let mut numbers = to_disk.open_table(NUMBERS).map_err(StoreError::of)?;
    let last = numbers.get(of).map_err(StoreError::of)?.map(|row| row.value());
    // Targets know which number they took last: where a disk was lost it doesn't begin anew below that.
    let last = last.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond().unsigned_abs() * 1_000);
    numbers.insert(of, last + 1).map_err(StoreError::of)?;
    Ok(last + 1)
}

/// The older half.
fn forget_oldest(taken: &mut redb::Table<'_, (&str, &str), (u64, u64)>) -> Result<(), StoreError> {
    let rows = taken.iter().map_err(StoreError::of)?;
    let orders = rows.map(|row| Ok(row.map_err(StoreError::of)?.1.value().1));
    let mut orders = orders.collect::<Result<Vec<u64>, StoreError>>()?;
    orders.sort_unstable();
    let middle = orders.get(orders.len() / 2).copied().unwrap_or(0);
    taken.retain(|_, (_, order)| order >= middle).map_err(StoreError::of)
}
