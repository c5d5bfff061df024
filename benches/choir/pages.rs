//! Commits while somebody watches: a page that reads the children of a release once a second, all of them, does not make
//! whoever calls wait.
//!
//! Each poll of the load says another area than the one before, so that each waits for a commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use crate::{
    bodies::{self, Caller},
    fill,
    load::{self, Connection, Cursor, Load, MAX_LATENCY_US, Requests, Work},
    rows::{Bench, ready, say},
    server::Server,
    table::{Side, Target},
};

/// Children that are watched.
const WATCHED: usize = 10_000;

/// Children on a page, as many as there may be.
const ON_A_PAGE: usize = 1_000;

/// The page is read anew this often.
const EVERY: Duration = Duration::from_secs(1);

/// So many call at once: what is measured is how long one waits for a commit, not how much the machine can do.
const CALLERS: usize = 4;

impl Bench {
    /// Rounds without and with the page alternate.
    pub async fn watched_commits(&mut self) -> anyhow::Result<()> {
        say("commits while a page is read");
        let url = self.sqlite("watched.db");
        let callers = fill::children(&url, WATCHED.min(self.sizes.children)).await?;
        let mut server = ready(Server::ours(&url, None)?)?;
        server.submit()?;
        let moves = Arc::new(moves(&callers));
        let moving = Work::Each { cursor: Cursor::wrapping(moves.len()), requests: moves };
        let [mut alone, mut watched, mut pages] = [Side::default(), Side::default(), Side::default()];
        let load = Load { connections: CALLERS, ..self.load(&server, moving, self.sizes.round) };
        load::run(&Load { limit: self.sizes.round / 3, ..load.clone() })?;
        for _ in 0..self.sizes.rounds {
            let outcome = load::run(&load)?;
            alone.add(outcome.per_second(), &outcome.latency);
            let page = Page::open(&server);
            let outcome = load::run(&load)?;
            watched.add(outcome.per_second(), &outcome.latency);
            let read = page.close()?;
            pages.add(read.len() as f64 / outcome.took.as_secs_f64(), &read);
        }
        let what = format!(
            "commits of {CALLERS} callers while the {} children of a release are read each second",
            callers.len()
        );
        let target = Target::Rate { at_least: 0.9, p99_at_most: Some(1.5) };
        self.table.compare(&what, &watched, "nobody reads", &alone, target);
        let what = format!("one of these pages of {ON_A_PAGE}");
        self.table.compare(&what, &pages, "the commits beside it", &watched, Target::None);
        server.stop()
    }
}

/// Everybody moves, and then back.
fn moves(callers: &[Caller]) -> Requests {
    let there =
        |by: usize| callers.iter().map(move |caller| bodies::poll_at("/poll", &caller.id, caller.index + by));
    (0..2).rev().flat_map(there).collect()
}

/// Somebody reads all children of the release each second, page by page.
struct Page {
    closed: Arc<AtomicBool>,
    reader: thread::JoinHandle<anyhow::Result<Histogram<u64>>>,
}

impl Page {
    fn open(server: &Server) -> Self {
        let (address, closed) = (server.address, Arc::new(AtomicBool::new(false)));
        let is_closed = Arc::clone(&closed);
        let read = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut times = Histogram::new_with_max(MAX_LATENCY_US, 3)?;
                let mut connection = Connection::open(address).await?;
                let mut next = Instant::now();
                while !is_closed.load(Ordering::Relaxed) {
                    read_all(&mut connection, &mut times).await?;
                    next += EVERY;
                    sleep_until(next).await;
                }
                Ok(times)
            })
        };
        Self { closed, reader: thread::spawn(read) }
    }

    /// Answers how long each page took, in microseconds.
    fn close(self) -> anyhow::Result<Histogram<u64>> {
        self.closed.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| anyhow::anyhow!("whoever reads the page panicked"))?
    }
}

/// What it takes to go on. Whoever looks at a page does so elsewhere, and takes nothing of this machine for it.
#[derive(Deserialize)]
struct Cut {
    next: Option<String>,
}

async fn read_all(connection: &mut Connection, times: &mut Histogram<u64>) -> anyhow::Result<()> {
    let mut after = String::new();
    loop {
        let path = format!("/api/v1/releases/{}/children?limit={ON_A_PAGE}{after}", bodies::OFFER);
        let began = Instant::now();
        let page = connection.call(bodies::get(&path).as_bytes()).await?;
        times.saturating_record(began.elapsed().as_micros() as u64);
        match serde_json::from_slice::<Cut>(page)?.next {
            None => return Ok(()),
            Some(next) => after = format!("&after={next}"),
        }
    }
}
