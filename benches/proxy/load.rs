//! The load generator: closed loops over keep-alive connections.
//!
//! Requests are prebuilt bytes, and how long the answer's body is is known; so of an answer only its first line and the end of
//! its head are looked for. Each thread has a runtime of its own and an equal share of the connections.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::client::TlsStream;

use crate::{secured::Trust, shared::threads::spread};

/// Latencies beyond this are recorded as this, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;
/// What is read at once.
const ROOM: usize = 128 * 1024;
/// The longest head of an answer.
const HEAD: usize = 4 * 1024;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Load {
    pub at: SocketAddr,
    pub connections: usize,
    pub threads: usize,
    pub time: Duration,
    /// Sent in turn.
    pub paths: Vec<String>,
    /// Bytes of the answer's body.
    pub body: usize,
    /// Calls are made over TLS.
    pub tls: Option<Trust>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Nanoseconds.
    pub latency: Histogram<u64>,
    pub took: Duration,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64()
    }

    /// Microseconds.
    pub fn quantile(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST, 3)?)
}

/// Makes calls for the time of the load.
pub fn run(load: &Load) -> anyhow::Result<Outcome> {
    let requests: Arc<[Vec<u8>]> = load.paths.iter().map(|path| request(path)).collect();
    let of_threads = load.clone();
    let part = move |connections| {
        let (load, requests) = (of_threads.clone(), Arc::clone(&requests));
        async move { run_thread(&load, &requests, connections).await }
    };
    let mut all = Outcome { latency: histogram()?, took: Duration::ZERO };
    for outcome in spread(load.connections, load.threads, part)? {
        all.latency.add(&outcome.latency)?;
        all.took = all.took.max(outcome.took);
    }
    Ok(all)
}

async fn run_thread(load: &Load, requests: &Arc<[Vec<u8>]>, connections: usize) -> anyhow::Result<Outcome> {
    let mut opened = Vec::with_capacity(connections);
    for _ in 0..connections {
        opened.push(Connection::open(load.at, load.tls.as_ref()).await?);
    }
    let began = Instant::now();
    let until = began + load.time;
    let mut tasks = JoinSet::new();
    for (index, mut connection) in opened.into_iter().enumerate() {
        let (body, requests) = (load.body, Arc::clone(requests));
        tasks.spawn(async move {
            let mut latency = histogram()?;
            for request in requests.iter().cycle().skip(index * 7 % requests.len()) {
                let began = Instant::now();
                if began >= until {
                    break;
                }
                connection.call(request, body).await?;
                latency.saturating_record(began.elapsed().as_nanos() as u64);
            }
            anyhow::Ok(latency)
        });
    }
    let mut latency = histogram()?;
    while let Some(of_one) = tasks.join_next().await {
        latency.add(&of_one??)?;
    }
    Ok(Outcome { latency, took: began.elapsed() })
}

pub fn request(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: choirmaster-bench\r\nAccept: */*\r\n\r\n")
        .into_bytes()
}

/// One keep-alive connection.
pub struct Connection {
    wire: Wire,
    answer: Vec<u8>,
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub async fn open(at: SocketAddr, tls: Option<&Trust>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(at).await.with_context(|| format!("connecting to {at}"))?;
        stream.set_nodelay(true)?;
        let wire = match tls {
            None => Wire::Plain(stream),
            Some(trust) => Wire::Tls(Box::new(trust.connect(stream).await?)),
        };
        Ok(Self { wire, answer: vec![0; ROOM] })
    }

    /// Gives up the room for answers: for connections that are to be idle.
    pub fn into_idle(mut self) -> Self {
        self.answer = Vec::new();
        self
    }

    /// Makes a call, and gives the head of the answer, which must be a 200 with a body of this length.
    pub async fn call(&mut self, request: &[u8], body: usize) -> anyhow::Result<&[u8]> {
        match &mut self.wire {
            Wire::Plain(stream) => stream.write_all(request).await?,
            Wire::Tls(stream) => stream.write_all(request).await?,
        }
        let mut got = 0;
        let head = loop {
            got += self.read(got).await?;
            if let Some(at) = memmem::find(&self.answer[..got.min(HEAD)], b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(got < HEAD, "the head of an answer has no end");
        };
        ensure!(
            self.answer.starts_with(b"HTTP/1.1 200"),
            "the answer is {}",
            String::from_utf8_lossy(&self.answer[..head])
        );
        let mut left = (head + body).checked_sub(got).context("an answer longer than it should be")?;
        while left > 0 {
            // What comes is read over what came: the head stays.
            let read = self.read(head).await?;
            left = left.checked_sub(read).context("an answer longer than it should be")?;
        }
        Ok(&self.answer[..head])
    }

    async fn read(&mut self, behind: usize) -> anyhow::Result<usize> {
        let room = &mut self.answer[behind..];
        let read = match &mut self.wire {
            Wire::Plain(stream) => stream.read(room).await?,
            Wire::Tls(stream) => stream.read(room).await?,
        };
        if read == 0 {
            bail!("the connection was closed");
        }
        Ok(read)
    }
}
