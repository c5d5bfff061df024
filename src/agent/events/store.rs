//! Events on disk: those that wait to be handed over, and which ones were taken.
//!
//! One thread writes. What is asked for while it writes is committed together the next time, and answered once it is on disk.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition,
    WriteTransaction,
};
use tokio::sync::oneshot;

/// Most events that wait, and most bytes of these. What comes beyond is refused.
const MAX_EVENTS: u64 = 100_000;
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Senders of which it is remembered what was taken; those that were heard of longest ago are forgotten first.
const MAX_SENDERS: u64 = 10_000;

/// Writes that are committed together, at most.
const MAX_TOGETHER: usize = 256;

/// By instance, target and number: the output, and what was put out.
const WAITING: TableDefinition<'_, (&str, &str, u64), (&str, &[u8])> = TableDefinition::new("waiting");

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
    pub body: Vec<u8>,
}

/// What is written.
#[derive(Debug)]
pub(super) enum Write {
    Put {
        from: String,
        to: String,
        output: String,
        body: Vec<u8>,
        /// What the function calls it.
        key: Option<String>,
    },
    /// Its target has taken it, or nobody ever will.
    Sent { from: String, to: String, number: u64, bytes: u64 },
    /// `file`: one that has grown with it, and how long it is now.
    Taken { part: String, from: String, number: u64, file: Option<(String, u64)> },
    /// The instance is gone, and nothing of it waits.
    Forget { from: String },
}

struct Job {
    write: Write,
    done: oneshot::Sender<Result<u64, StoreError>>,
}

#[derive(Debug, Default)]
struct Counts {
    events: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Clone)]
pub(super) struct Store {
    db: Arc<Database>,
    jobs: mpsc::Sender<Job>,
    counts: Arc<Counts>,
}

impl Store {
    /// # Errors
    ///
    /// The file can't be opened, or isn't one of these.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = Arc::new(Database::create(path).map_err(StoreError::of)?);
        let write = db.begin_write().map_err(StoreError::of)?;
        let counts = Arc::new(Counts::default());
        {
            let waiting = write.open_table(WAITING).map_err(StoreError::of)?;
            for row in waiting.iter().map_err(StoreError::of)? {
                let (_, value) = row.map_err(StoreError::of)?;
                counts.add(value.value().1.len() as u64);
            }
            write.open_table(NUMBERS).map_err(StoreError::of)?;
            write.open_table(KEYS).map_err(StoreError::of)?;
            write.open_table(TAKEN).map_err(StoreError::of)?;
            write.open_table(FILES).map_err(StoreError::of)?;
        }
        write.commit().map_err(StoreError::of)?;
        let (jobs, asked) = mpsc::channel();
        let (writing, counted) = (Arc::clone(&db), Arc::clone(&counts));
        thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || run(&writing, &asked, &counted))
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self { db, jobs, counts })
    }

    /// Whether one more of so many bytes has room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.counts.events.load(Ordering::Relaxed) < MAX_EVENTS
            && self.counts.bytes.load(Ordering::Relaxed) + bytes <= MAX_BYTES
    }

    /// Has something written; when this returns, it is on disk. Of an event that is put out it is the number.
    pub async fn write(&self, write: Write) -> Result<u64, StoreError> {
        if let Write::Put { body, .. } = &write
            && !self.has_room(body.len() as u64)
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
        let read = self.db.begin_read().map_err(StoreError::of)?;
        let waiting = read.open_table(WAITING).map_err(StoreError::of)?;
        let mut all = waiting.range((from, to, 0)..=(from, to, u64::MAX)).map_err(StoreError::of)?;
        let Some(row) = all.next() else { return Ok(None) };
        let (key, value) = row.map_err(StoreError::of)?;
        let (output, body) = value.value();
        Ok(Some(Waiting { number: key.value().2, output: output.to_owned(), body: body.to_vec() }))
    }

    /// Targets for which something of an instance waits.
    pub fn targets(&self, from: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.queues()?.into_iter().filter(|(of, _)| of == from).map(|(_, to)| to).collect())
    }

    /// Instances and targets between which something waits.
    pub fn queues(&self) -> Result<Vec<(String, String)>, StoreError> {
        let read = self.db.begin_read().map_err(StoreError::of)?;
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
        let read = self.db.begin_read().map_err(StoreError::of)?;
        let numbers = read.open_table(NUMBERS).map_err(StoreError::of)?;
        let all = numbers.iter().map_err(StoreError::of)?;
        let all = all.map(|row| Ok(row.map_err(StoreError::of)?.0.value().to_owned()));
        all.filter(|of| of.as_ref().map_or(true, |of| of != ORDER)).collect()
    }

    /// The number of the last event that a part has taken from an instance.
    pub fn taken(&self, part: &str, from: &str) -> Result<u64, StoreError> {
        let read = self.db.begin_read().map_err(StoreError::of)?;
        let taken = read.open_table(TAKEN).map_err(StoreError::of)?;
        let number = taken.get((part, from)).map_err(StoreError::of)?;
        Ok(number.map_or(0, |row| row.value().0))
    }

    /// How long a file was with the last event that was taken.
    pub fn length(&self, file: &str) -> Result<Option<u64>, StoreError> {
        let read = self.db.begin_read().map_err(StoreError::of)?;
        let files = read.open_table(FILES).map_err(StoreError::of)?;
        Ok(files.get(file).map_err(StoreError::of)?.map(|row| row.value()))
    }
}

impl Counts {
    fn add(&self, bytes: u64) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) {
        self.events.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn run(db: &Database, jobs: &mpsc::Receiver<Job>, counts: &Counts) {
    while let Ok(first) = jobs.recv() {
        let all: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(MAX_TOGETHER - 1)).collect();
        match write(db, &all) {
            Ok(numbers) => {
                for (job, (number, is_new)) in all.into_iter().zip(numbers) {
                    match &job.write {
                        Write::Put { body, .. } if is_new => counts.add(body.len() as u64),
                        Write::Sent { bytes, .. } => counts.take(*bytes),
                        Write::Put { .. } | Write::Taken { .. } | Write::Forget { .. } => {}
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
        Write::Put { from, to, output, body, key } => {
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
            let row = (output.as_str(), body.as_slice());
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
