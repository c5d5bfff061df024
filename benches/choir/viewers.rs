//! Polls while others look at pages: each viewer follows what happens, as the scripts of the page do, and has its page brought up to date
//! once a second. They look from elsewhere: what a browser takes of a machine is no part of this.
//!
//! All the time children fetch a release, so that pages have something to say.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, sleep_until},
};

use crate::{
    bodies::{self, Caller},
    fill,
    load::{self, Connection, Cursor, Load, Work},
    rows::{Bench, ready, say},
    server::Server,
    table::{Side, Target},
};

/// Pages that are open.
const VIEWERS: usize = 20;

/// A page that has something new is brought up to date this often.
const EVERY: Duration = Duration::from_secs(1);

/// Children that fetch the release in a second.
const FETCHES: u64 = 200;

/// Polls in a second of 100,000 agents that call every ten.
const PACE: u32 = 10_000;

/// What they look at, in turn.
const PAGES: [&str; 4] = ["/ui/releases", "/ui/releases/gradual", "/ui/releases/gradual/map", "/ui/tree"];

/// What a page listens to, and what a map does besides.
const EVENTS: &str = "/ui/api/events?beat=true&news=true";
const CHANGES: &str = "/ui/api/v1/releases/gradual/map/changes";

impl Bench {
    /// At the pace of a fleet, and as fast as polls are answered.
    pub async fn viewers(&mut self) -> anyhow::Result<()> {
        say("polls while pages are open");
        let url = self.sqlite("viewers.db");
        let callers = fill::children(&url, self.sizes.children).await?;
        let mut server = ready(Server::ours(&url, None)?)?;
        server.submit()?;
        // Who fetches does not poll: each part keeps to what it does.
        let (polling, fetching) = callers.split_at(callers.len() / 4);
        let fetching = Beside::fetches(server.address, fetching);
        let requests = Arc::new(bodies::polls(polling));
        let cursor = Cursor::wrapping(requests.len());
        let every = Duration::from_secs(1).mul_f64(self.sizes.connections as f64 / f64::from(PACE));
        let paced = Work::Paced { requests: Arc::clone(&requests), cursor: Arc::clone(&cursor), every };
        let beside = format!("with {VIEWERS} pages open, {FETCHES} children a second fetch a release");
        for (pace, work) in [
            (format!("{PACE} polls a second"), paced),
            ("as many polls as it answers".to_owned(), Work::Each { requests, cursor }),
        ] {
            let load = self.load(&server, work, self.sizes.round);
            let [alone, watched] = self.watched(&load)?;
            let what = format!("`POST /poll` {beside}, {pace}");
            self.table.compare(&what, &watched, "no page is open", &alone, Target::P99(1.1));
        }
        fetching.end()?;
        server.stop()
    }

    /// Rounds of a load without and with viewers, which alternate.
    fn watched(&self, load: &Load) -> anyhow::Result<[Side; 2]> {
        let [mut alone, mut watched] = [Side::default(), Side::default()];
        load::run(&Load { limit: self.sizes.round / 3, ..load.clone() })?;
        for _ in 0..self.sizes.rounds {
            let outcome = load::run(load)?;
            alone.add(outcome.per_second(), &outcome.latency);
            let viewers = Beside::viewers(load.address);
            let outcome = load::run(load)?;
            watched.add(outcome.per_second(), &outcome.latency);
            let pages = viewers.end()?;
            anyhow::ensure!(pages >= VIEWERS, "{VIEWERS} viewers got {pages} pages");
        }
        Ok([alone, watched])
    }
}

/// Something that goes on beside the load, in a thread of its own.
pub(crate) struct Beside {
    ended: Arc<AtomicBool>,
    thread: thread::JoinHandle<anyhow::Result<usize>>,
}

impl Beside {
    pub(crate) fn start<F>(work: impl FnOnce(Arc<AtomicBool>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<usize>>,
    {
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(work(is_ended))
        };
        Self { ended, thread: thread::spawn(run) }
    }

    fn fetches(address: SocketAddr, callers: &[Caller]) -> Self {
        let paths: Vec<_> = callers
            .iter()
            .map(|caller| format!("/release?childID={}&releaseID={}", caller.id, bodies::OFFER))
            .collect();
        Self::start(async move |ended: Arc<AtomicBool>| {
            let mut connection = Connection::open(address).await?;
            let mut ticks = interval(Duration::from_millis(1_000 / FETCHES));
            let mut done = 0;
            for path in paths {
                if ended.load(Ordering::Relaxed) {
                    return Ok(done);
                }
                ticks.tick().await;
                connection.call(bodies::get(&path).as_bytes()).await?;
                done += 1;
            }
            anyhow::bail!("all {done} children had fetched the release before the load was at its end")
        })
    }

    fn viewers(address: SocketAddr) -> Self {
        Self::start(async move |ended: Arc<AtomicBool>| {
            let seen = Arc::new(AtomicUsize::new(0));
            let mut viewing = Vec::new();
            for viewer in 0..VIEWERS {
                let path = PAGES[viewer % PAGES.len()];
                let streams = [Some(EVENTS), path.ends_with("/map").then_some(CHANGES)];
                for stream in streams.into_iter().flatten() {
                    viewing.push(tokio::spawn(follow(address, stream)));
                }
                viewing.push(tokio::spawn(look(address, path, Arc::clone(&seen))));
            }
            while !ended.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if let Some(at) = viewing.iter().position(tokio::task::JoinHandle::is_finished) {
                    viewing.swap_remove(at).await??;
                    anyhow::bail!("a viewer was cut off");
                }
            }
            Ok(seen.load(Ordering::Relaxed))
        })
    }

    /// Answers how much came of it.
    pub(crate) fn end(self) -> anyhow::Result<usize> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("what went on beside the load panicked"))?
    }
}

/// Reads a stream.
async fn follow(address: SocketAddr, path: &'static str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bodies::get(path).as_bytes()).await?;
    let mut read = [0; 16 * 1024];
    while stream.read(&mut read).await? > 0 {}
    Ok(())
}

/// Has a page brought up to date again and again.
async fn look(address: SocketAddr, path: &'static str, seen: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    let asked = bodies::get(path).replacen("\r\n\r\n", "\r\nX-Choirmaster-Middle: 1\r\n\r\n", 1);
    let mut next = tokio::time::Instant::now();
    loop {
        connection.call(asked.as_bytes()).await?;
        seen.fetch_add(1, Ordering::Relaxed);
        next += EVERY;
        sleep_until(next).await;
    }
}
