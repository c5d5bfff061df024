//! A line for a call: JSON, on standard output or in a file.
//!
//! No call waits for it: lines go through a bounded queue to a thread that writes, and what has no place in it is dropped and
//! counted. Nothing of a call's head is in a line but the id of its trace, neither its path nor its query, since these hold what
//! nobody wants in a log.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    num::NonZeroU32,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{sync::oneshot, time::Instant};

use call_metrics::{Key, Moment};

/// Lines that may wait to be written.
const QUEUE: usize = 8_192;
/// Lines that are written at once.
const BATCH: usize = 512;
/// How often it is looked whether the file was renamed.
const LOOK: Duration = Duration::from_secs(1);

/// Which calls have a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logged {
    #[default]
    Off,
    /// One call in so many, drawn at random.
    Sampled(NonZeroU32),
    All,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LogTarget {
    #[default]
    Stdout,
    /// Appended to; made with mode 0600 where there is none, and opened anew once it was renamed or removed.
    File(PathBuf),
}

/// The log as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessLog {
    pub logged: Logged,
    pub to: LogTarget,
}

impl std::fmt::Display for Logged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Sampled(one_in) => one_in.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// `off`, `all`, or a number: one call in so many.
impl std::str::FromStr for Logged {
    type Err = LoggedError;

    fn from_str(text: &str) -> Result<Self, LoggedError> {
        match text {
            "off" => Ok(Self::Off),
            "all" => Ok(Self::All),
            number => number.parse().map(Self::Sampled).map_err(|_| LoggedError(text.to_owned())),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not which calls are logged: write off, all, or N for one call in N")]
pub struct LoggedError(String);

/// A log that is being written. Threads that serve calls have a clone each.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    logged: Logged,
    queue: SyncSender<Queued>,
    /// Lines that are not in the log.
    dropped: Arc<AtomicU64>,
}

/// A call that will have a line when it has ended.
#[derive(Debug)]
pub(crate) struct Line {
    log: Log,
    trace: Option<[u8; 32]>,
    /// Epoch and generation.
    table: (u64, u64),
    /// Of what is no call of HTTP: to the version, and to the caller.
    pub bytes: Option<(u64, u64)>,
}

/// What is known of a call that has ended.
#[derive(Debug)]
pub(crate) struct Entry {
    pub key: Arc<Key>,
    pub at: Instant,
    pub took: Duration,
    /// What the caller got; none if it got no answer, or not a whole one.
    pub status: Option<u16>,
    pub class: &'static str,
    pub repeated: bool,
    pub passed_over: bool,
}

/// What a line was begun with.
struct Trailing {
    trace: Option<[u8; 32]>,
    table: (u64, u64),
    bytes: Option<(u64, u64)>,
}

enum Queued {
    Line(Entry, Trailing),
    /// Answered once everything before was written.
    Flush(oneshot::Sender<()>),
}

impl Log {
    /// Starts the thread that writes, if anything is to be logged.
    pub(crate) fn start(asked: &AccessLog) -> io::Result<Option<Self>> {
        if asked.logged == Logged::Off {
            return Ok(None);
        }
        let dropped = Arc::new(AtomicU64::default());
        let writer = Writer::open(&asked.to, Arc::clone(&dropped))?;
        let (queue, lines) = sync_channel(QUEUE);
        std::thread::Builder::new().name("proxy-log".to_owned()).spawn(move || writer.run(&lines))?;
        Ok(Some(Self { logged: asked.logged, queue, dropped }))
    }

    /// Whether the next call is to have a line.
    pub(crate) fn wants(&self) -> bool {
        match self.logged {
            Logged::Off => false,
            Logged::All => true,
            Logged::Sampled(one_in) => fastrand::u32(..one_in.get()) == 0,
        }
    }

    /// `traceparent`: the call's field of that name. `table`: epoch and generation of the one by which it was given.
    pub(crate) fn line(&self, traceparent: Option<&[u8]>, table: (u64, u64)) -> Line {
        Line { log: self.clone(), trace: traceparent.and_then(trace_id), table, bytes: None }
    }

    /// Lines that are not in the log.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything so far was written.
    pub(crate) async fn flush(&self) {
        let (mut done, written) = oneshot::channel();
        while let Err(error) = self.queue.try_send(Queued::Flush(done)) {
            match error {
                std::sync::mpsc::TrySendError::Full(Queued::Flush(again)) => done = again,
                _ => return,
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = written.await;
    }
}

impl Line {
    pub(crate) fn write(self, entry: Entry) {
        let Self { log, trace, table, bytes } = self;
        if log.queue.try_send(Queued::Line(entry, Trailing { trace, table, bytes })).is_err() {
            log.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The id of a trace: 32 hexadecimal digits behind the version, not all of them 0 (W3C Trace Context).
fn trace_id(traceparent: &[u8]) -> Option<[u8; 32]> {
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let (version, rest) = traceparent.split_at_checked(2)?;
    let id: [u8; 32] = rest.get(1..33)?.try_into().ok()?;
    let dashes = rest.first() == Some(&b'-') && rest.get(33) == Some(&b'-');
    let is_one = dashes && version != b"ff" && version.iter().chain(&id).all(is_hex);
    (is_one && id.iter().any(|byte| *byte != b'0')).then_some(id)
}

struct Writer {
    to: LogTarget,
    file: Option<File>,
    looked: Instant,
    dropped: Arc<AtomicU64>,
    is_troubled: bool,
}

/// The form of a line.
#[derive(Serialize)]
struct LineForm<'l> {
    time: String,
    route: &'l str,
    variation: &'l str,
    version: &'l str,
    table: String,
    status: Option<u16>,
    class: &'l str,
    ms: f64,
    repeated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    passed_over: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_header: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_up: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_down: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'l str>,
}

impl Writer {
    fn open(to: &LogTarget, dropped: Arc<AtomicU64>) -> io::Result<Self> {
        let file = open(to)?;
        Ok(Self { to: to.clone(), file, looked: Instant::now(), dropped, is_troubled: false })
    }

    /// Writes until nobody is left who logs.
    fn run(mut self, queue: &Receiver<Queued>) {
        let mut text = Vec::new();
        while let Ok(first) = queue.recv() {
            let mut flushed = Vec::new();
            let mut lines = 0;
            let moment = Moment::now();
            for queued in std::iter::once(first).chain(queue.try_iter().take(BATCH - 1)) {
                match queued {
                    Queued::Line(entry, trailing) => {
                        append(&mut text, &entry, &trailing, moment);
                        lines += 1;
                    }
                    Queued::Flush(done) => flushed.push(done),
                }
            }
            match self.write(&text) {
                Ok(()) => self.is_troubled = false,
                Err(error) => self.give_up(lines, &error),
            }
            text.clear();
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let LogTarget::File(path) = &self.to else {
            let mut out = io::stdout().lock();
            return out.write_all(text).and_then(|()| out.flush());
        };
        if self.file.is_none() || self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let is_there = self.file.as_ref().is_some_and(|file| {
                let place = |of: std::fs::Metadata| (of.dev(), of.ino());
                let (open, named) = (file.metadata().map(place), std::fs::metadata(path).map(place));
                matches!((open, named), (Ok(open), Ok(named)) if open == named)
            });
            if !is_there {
                self.file = open(&self.to)?;
            }
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(text))
    }

    /// Says once that lines are missing, until it goes on.
    fn give_up(&mut self, lines: u64, error: &io::Error) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
        self.file = None;
        if !std::mem::replace(&mut self.is_troubled, true) {
            tracing::error!(%error, "the access log can't be written; lines are left out until it can");
        }
    }
}

fn open(to: &LogTarget) -> io::Result<Option<File>> {
    match to {
        LogTarget::Stdout => Ok(None),
        LogTarget::File(path) => {
            OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(Some)
        }
    }
}

fn append(text: &mut Vec<u8>, entry: &Entry, trailing: &Trailing, moment: Moment) {
    let Trailing { trace, table, bytes } = trailing;
    let key = &entry.key;
    let at = jiff::Timestamp::from_millisecond(moment.wall_ms_at(entry.at));
    let line = LineForm {
        time: format!("{:.3}", at.unwrap_or(jiff::Timestamp::UNIX_EPOCH)),
        route: &key.service,
        variation: &key.variation,
        version: &key.version,
        table: format!("{}.{}", table.0, table.1),
        status: entry.status,
        class: entry.class,
        ms: entry.took.as_micros() as f64 / 1_000.0,
        repeated: entry.repeated,
        passed_over: entry.passed_over,
        by_header: key.by_header,
        bytes_up: bytes.map(|(up, _)| up),
        bytes_down: bytes.map(|(_, down)| down),
        trace: trace.as_ref().and_then(|trace| std::str::from_utf8(trace).ok()),
    };
    // Strings and numbers can always be written.
    if serde_json::to_writer(&mut *text, &line).is_ok() {
        text.push(b'\n');
    }
}
