//! The load generator: closed loops, and paced ones, over keep-alive HTTP/1.1 connections.
//!
//! Requests are prebuilt bytes; of an answer only the status and the length of its body are read. The same
//! generator drives our server and the bare handlers, so what it costs cancels out of every ratio. Each of its
//! threads has a runtime of its own and an equal share of the connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep_until},
};

use crate::shared::threads::spread;

/// Latencies beyond this are recorded as this, in microseconds.
pub const MAX_LATENCY_US: u64 = 60_000_000;

/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Prebuilt requests, one after the other in one piece of memory.
#[derive(Debug, Default)]
pub struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    pub fn push(&mut self, request: &str) {
        self.bytes.extend_from_slice(request.as_bytes());
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Empty if there is none.
    pub fn first(&self) -> &[u8] {
        if self.ends.is_empty() { &[] } else { self.get(0) }
    }

    fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[from..self.ends[at]]
    }
}

impl FromIterator<String> for Requests {
    fn from_iter<I: IntoIterator<Item = String>>(all: I) -> Self {
        let mut requests = Self::default();
        for request in all {
            requests.push(&request);
        }
        requests
    }
}

/// Which request is next, shared by all connections and kept from round to round.
#[derive(Debug)]
pub struct Cursor {
    next: AtomicUsize,
    len: usize,
    /// Begins anew after the last one; otherwise the load ends there.
    wraps: bool,
}

impl Cursor {
    pub fn once(len: usize) -> Arc<Self> {
        Arc::new(Self { next: AtomicUsize::new(0), len, wraps: false })
    }

    pub fn wrapping(len: usize) -> Arc<Self> {
        Arc::new(Self { next: AtomicUsize::new(0), len, wraps: true })
    }

    /// Whether every request was taken.
    pub fn is_spent(&self) -> bool {
        !self.wraps && self.next.load(Ordering::Relaxed) >= self.len
    }

    fn take(&self) -> Option<usize> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        if self.wraps { Some(at % self.len) } else { (at < self.len).then_some(at) }
    }
}

/// What the connections do.
#[derive(Debug, Clone)]
pub enum Work {
    /// One request after the other; each must be answered 200.
    Each { requests: Arc<Requests>, cursor: Arc<Cursor> },
    /// The same at a pace: each connection calls once in `every`. A call that was due while the one before was still open counts
    /// from when it was due, so whoever answers late doesn't hide how late.
    Paced { requests: Arc<Requests>, cursor: Arc<Cursor>, every: Duration },
    /// Polls without an id; the ids that the answers give are kept.
    Register { requests: Arc<Requests>, cursor: Arc<Cursor> },
    /// Children poll in turn, and fetch what they are offered, until each has fetched once.
    HandOut(Arc<HandOut>),
}

#[derive(Debug)]
pub struct HandOut {
    pub polls: Arc<Requests>,
    pub fetches: Requests,
    fetched: Vec<AtomicBool>,
    /// Children of whom no connection has begun a download.
    left: AtomicUsize,
    next: AtomicUsize,
}

impl HandOut {
    pub fn new(polls: Arc<Requests>, fetches: Requests) -> Arc<Self> {
        let left = AtomicUsize::new(fetches.len());
        let fetched = (0..fetches.len()).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { polls, fetches, fetched, left, next: AtomicUsize::new(0) })
    }

    /// The next child that has not begun to fetch.
    fn take(&self) -> Option<usize> {
        while self.left.load(Ordering::Relaxed) > 0 {
            let at = self.next.fetch_add(1, Ordering::Relaxed) % self.fetched.len();
            if !self.fetched[at].load(Ordering::Relaxed) {
                return Some(at);
            }
        }
        None
    }
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    pub address: SocketAddr,
    pub connections: usize,
    pub threads: usize,
    pub work: Work,
    /// Ends then even if there is work left.
    pub limit: Duration,
}

/// What a load came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Microseconds.
    pub latency: Histogram<u64>,
    /// Of the downloads of a hand-out, in microseconds.
    pub fetch_latency: Histogram<u64>,
    pub took: Duration,
    /// Body ids of registrations, by request.
    pub ids: Vec<(usize, String)>,
}

impl Outcome {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            latency: Histogram::new_with_max(MAX_LATENCY_US, 3)?,
            fetch_latency: Histogram::new_with_max(MAX_LATENCY_US, 3)?,
            took: Duration::ZERO,
            ids: Vec::new(),
        })
    }

    fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.latency.add(&other.latency)?;
        self.fetch_latency.add(&other.fetch_latency)?;
        self.took = self.took.max(other.took);
        self.ids.extend(other.ids);
        Ok(())
    }

    pub fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64()
    }
}

/// Runs a load on threads of its own and waits for its end.
pub fn run(load: &Load) -> anyhow::Result<Outcome> {
    let of_threads = load.clone();
    let part = move |connections| {
        let load = of_threads.clone();
        async move { share(&load, connections).await }
    };
    let mut outcome = Outcome::new()?;
    for part in spread(load.connections, load.threads, part)? {
        outcome.add(part)?;
    }
    Ok(outcome)
}

/// The connections of one thread.
async fn share(load: &Load, connections: usize) -> anyhow::Result<Outcome> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        streams.push(Connection::open(load.address).await?);
    }
    let began = Instant::now();
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| tokio::spawn(drive(stream, load.work.clone(), began + load.limit)))
        .collect();
    let mut outcome = Outcome::new()?;
    for task in tasks {
        outcome.add(task.await??)?;
    }
    outcome.took = began.elapsed();
    Ok(outcome)
}

async fn drive(mut connection: Connection, work: Work, until: Instant) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new()?;
    match work {
        Work::Each { requests, cursor } => {
            let mut last = Instant::now();
            while last < until {
                let Some(at) = cursor.take() else { break };
                connection.call(requests.get(at)).await?;
                last = record(&mut outcome.latency, last);
            }
        }
        Work::Paced { requests, cursor, every } => {
            // Connections don't call all at once.
            let mut due = Instant::now() + every.mul_f64(rand::random());
            while due < until {
                let Some(at) = cursor.take() else { break };
                let mut began = due;
                if Instant::now() < due {
                    sleep_until(due).await;
                    // A clock that wakes late is no latency of the server.
                    began = Instant::now();
                }
                connection.call(requests.get(at)).await?;
                record(&mut outcome.latency, began);
                due += every;
            }
        }
        Work::Register { requests, cursor } => {
            let mut last = Instant::now();
            while let Some(at) = cursor.take() {
                let body = connection.call(requests.get(at)).await?;
                outcome.ids.push((at, given_id(body)?));
                last = record(&mut outcome.latency, last);
            }
        }
        Work::HandOut(work) => hand_out(&mut connection, &work, until, &mut outcome).await?,
    }
    Ok(outcome)
}

async fn hand_out(
    connection: &mut Connection,
    work: &HandOut,
    until: Instant,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut last = Instant::now();
    while last < until {
        let Some(at) = work.take() else { break };
        let body = connection.call(work.polls.get(at)).await?;
        let offered = !body.trim_ascii_end().ends_with(b"\"new_release\":\"\"}");
        last = record(&mut outcome.latency, last);
        if offered && !work.fetched[at].swap(true, Ordering::Relaxed) {
            work.left.fetch_sub(1, Ordering::Relaxed);
            connection.call(work.fetches.get(at)).await?;
            last = record(&mut outcome.fetch_latency, last);
        }
    }
    Ok(())
}

/// Records the time since `last` and answers the present one.
fn record(histogram: &mut Histogram<u64>, last: Instant) -> Instant {
    let now = Instant::now();
    histogram.saturating_record((now - last).as_micros() as u64);
    now
}

/// The id in the answer to a poll.
fn given_id(body: &[u8]) -> anyhow::Result<String> {
    let text = std::str::from_utf8(body)?;
    let id = text.strip_prefix("{\"id\":\"").and_then(|rest| rest.split('"').next());
    Ok(id.with_context(|| format!("no id in {text:?}"))?.to_owned())
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: vec![0; 4096] })
    }

    /// Sends a request and answers the body of the answer, which must be a 200.
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        let (status, head, end) = self.exchange(request).await?;
        let body = &self.answer[head..end];
        ensure!(status == 200, "answer {status}: {}", String::from_utf8_lossy(body));
        Ok(body)
    }

    /// Sends a request; answers the status and where in the buffer the body lies.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, usize, usize)> {
        self.stream.write_all(request).await?;
        let mut got = 0;
        let mut head = None;
        loop {
            if got == self.answer.len() {
                ensure!(got < MAX_ANSWER_BYTES, "the answer is too long");
                self.answer.resize(got * 2, 0);
            }
            let more = self.stream.read(&mut self.answer[got..]).await?;
            if more == 0 {
                bail!("the connection was closed");
            }
            got += more;
            if head.is_none() {
                head = read_head(&self.answer[..got])?;
            }
            if let Some(Head { status, body_at, length }) = head
                && got >= body_at + length
            {
                return Ok((status, body_at, body_at + length));
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    body_at: usize,
    length: usize,
}

/// `None` while it is not complete.
fn read_head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end])?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.get(9..12)).context("no status line")?.parse()?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse())?;
    Ok(Some(Head { status, body_at: end + 4, length }))
}
