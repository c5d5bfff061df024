//! What was counted, over upgrades and kills.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use call_metrics::{Cursor, Reading};
use proxy::control::{
    client::{Client, ClientError},
    form::Status,
};
use tokio::{net::TcpStream, task::JoinHandle};

use super::{
    load::{self, Callers, Counting},
    processes::{Held, kill, wait_until},
};

/// Somebody who adds up what is closed, reading on with the cursor of the answer before.
#[derive(Debug, Default)]
struct Reader {
    cursor: Option<Cursor>,
    calls: u64,
    gone: u64,
    cut_short: u64,
    lives: Vec<u64>,
    /// The first and the last interval of each reading follow each other.
    last_to: u64,
}

impl Reader {
    /// Asks again where whoever was asked is killed meanwhile: with the same cursor, since it has no other.
    async fn read(&mut self, client: &Client) -> Reading {
        let target = match self.cursor {
            Some(Cursor { life, interval }) => format!("/counts?life={life}&interval={interval}"),
            None => "/counts".to_owned(),
        };
        let reading: Reading = loop {
            match client.get(&target).await {
                Ok(reading) => break reading,
                Err(ClientError::Broken(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        if self.lives.last() != Some(&reading.next.life) {
            self.lives.push(reading.next.life);
            self.last_to = 0;
        }
        for interval in &reading.closed {
            assert!(interval.from >= self.last_to, "{interval:?} comes again");
            self.last_to = interval.to;
            self.calls += interval.rows.iter().map(|row| row.tally.calls).sum::<u64>();
        }
        (self.gone, self.cut_short) = (reading.gone, reading.cut_short);
        self.cursor = Some(reading.next);
        reading
    }

    /// Reads all the time, on a task of its own.
    fn start(client: Client) -> (Arc<AtomicBool>, JoinHandle<Self>) {
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let task = tokio::spawn(async move {
            let mut reader = Self::default();
            while !ends.load(Ordering::Relaxed) {
                reader.read(&client).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            reader
        });
        (is_over, task)
    }

    /// Reads until so many calls were counted, and sees that no more are.
    async fn read_to(&mut self, held: &Held, calls: u64) {
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while self.calls < calls {
            self.read(&held.client).await;
            assert!(tokio::time::Instant::now() < until, "not {calls}: {self:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // What goes on is closed an interval later, and nothing of these calls is in it.
        let open = self.read(&held.client).await.open;
        assert!(open.iter().all(|interval| interval.rows.is_empty()), "{open:?}");
        assert_eq!(self.calls, calls);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_reader_sees_each_call_once_across_twenty_upgrades() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 6);
    let (is_over, reading) = Reader::start(held.client.clone());
    for upgrade in 0..20 {
        callers.make(40).await;
        held.upgrade().await;
        held.put(upgrade + 2, version.at).await;
    }
    callers.make(40).await;
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused), (0, 0), "{made:?}");
    is_over.store(true, Ordering::Relaxed);
    let mut reader = reading.await.unwrap();
    assert!(reader.calls > 0, "it read nothing meanwhile");
    wait_until(async || held.status().await.finishing.is_empty()).await;
    reader.read_to(&held, made.answered).await;
    assert_eq!((reader.lives.len(), reader.gone, reader.cut_short), (1, 0, 0), "{reader:?}");

    // One that comes now is given what is kept still, and never more than there was.
    let mut late = Reader::default();
    late.read(&held.client).await;
    assert!(late.calls <= made.answered, "{late:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_for_the_first_time_after_upgrades_is_given_all_and_metrics_go_on() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    // One call in each process, and two that end in the process that handed over.
    let mut idle = TcpStream::connect(held.at).await.unwrap();
    let mut calls = 0;
    for upgrade in 0..5 {
        load::call(&mut idle, "GET").await.unwrap();
        load::call(&mut TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
        calls += 2;
        held.upgrade().await;
        held.put(upgrade + 2, version.at).await;
        let head = load::call(&mut idle, "POST").await.unwrap();
        assert!(head.contains("Connection: close\r\n"), "{head}");
        calls += 1;
        idle = TcpStream::connect(held.at).await.unwrap();
    }
    drop(idle);
    wait_until(async || held.status().await.finishing.is_empty()).await;
    let mut reader = Reader::default();
    reader.read_to(&held, calls).await;
    let status = held.status().await;
    let metrics = super::secured::ask(&status.metrics[0], "GET /metrics HTTP/1.0\r\n\r\n").await;
    let total = format!("calls_total{{service=\"a\",variation=\"base\",class=\"success\"}} {calls}\n");
    assert!(metrics.contains(&total), "{metrics}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_begins_a_new_life_and_nothing_is_counted_twice() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 4);
    let (is_over, reading) = Reader::start(held.client.clone());
    for turn in 0..4 {
        callers.make(60).await;
        let pid = held.upgrade().await;
        callers.make(60).await;
        if turn % 2 == 1 {
            kill(pid);
            let serves =
                async || held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid);
            wait_until(serves).await;
        }
    }
    callers.make(40).await;
    let made = callers.end().await;
    is_over.store(true, Ordering::Relaxed);
    let mut reader = reading.await.unwrap();
    wait_until(async || held.status().await.finishing.is_empty()).await;
    let open = async |reader: &mut Reader| {
        reader.read(&held.client).await.open.iter().any(|open| !open.rows.is_empty())
    };
    while open(&mut reader).await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(reader.calls <= made.answered + made.lost, "{} of {made:?}", reader.calls);
    assert_eq!((reader.lives.len(), reader.gone), (3, 0), "{reader:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_while_it_finishes_is_said_to_be_cut_short() {
    let held = Held::start().await;
    held.put(1, Counting::start().await.at).await;
    let (slow, version) = held.call_without_answer(2).await;
    let before = held.status().await.pid;
    held.upgrade().await;
    let mut reader = Reader::default();
    reader.read(&held.client).await;
    let life = reader.lives.clone();
    kill(before);
    wait_until(async || {
        let reading: Reading = held.client.get("/counts").await.unwrap();
        reading.cut_short == 1
    })
    .await;
    reader.read(&held.client).await;
    assert_eq!((&reader.lives, reader.cut_short), (&life, 1));
    // An upgrade passes on that it is so.
    held.upgrade().await;
    reader.read(&held.client).await;
    assert_eq!((&reader.lives, reader.cut_short), (&life, 1));
    drop((slow, version));
    held.stop().await;
}

/// What the one in between is asked for names the process that finishes still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_reads_on_over_upgrades_that_follow_each_other_while_a_process_finishes() {
    let held = Held::start().await;
    let version = Counting::start().await;
    let (mut slow, mut called) = held.call_without_answer(1).await;
    let mut reader = Reader::default();
    reader.read(&held.client).await;
    for upgrade in 0..3 {
        held.upgrade().await;
        held.put(upgrade + 2, version.at).await;
        load::call(&mut TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
    }
    answer(&mut called).await;
    assert!(crate::world::read_head(&mut slow).await.is_some());
    drop((slow, called));
    wait_until(async || held.status().await.finishing.is_empty()).await;
    reader.read_to(&held, 4).await;
    assert_eq!((reader.lives.len(), reader.gone, reader.cut_short), (1, 0, 0), "{reader:?}");
    held.stop().await;
}

async fn answer(called: &mut TcpStream) {
    let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(called, empty).await.unwrap();
}

/// Keys of rows that are the same are one, whatever process counted them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_counts_while_it_finishes_is_under_the_keys_of_its_calls() {
    let held = Held::start().await;
    let version = Counting::start().await;
    let (mut slow, mut called) = held.call_without_answer(1).await;
    held.upgrade().await;
    held.put(2, version.at).await;
    load::call(&mut TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
    answer(&mut called).await;
    assert!(crate::world::read_head(&mut slow).await.is_some());
    drop((slow, called));
    wait_until(async || held.status().await.finishing.is_empty()).await;
    let reading: Reading = held.client.get("/counts").await.unwrap();
    let mut counted = BTreeMap::<String, u64>::new();
    let closed = reading.closed.iter().flat_map(|interval| &interval.rows);
    for row in closed.chain(reading.open.iter().flat_map(|interval| &interval.rows)) {
        *counted.entry(row.key.variation.clone()).or_default() += row.tally.calls;
    }
    assert_eq!(counted, BTreeMap::from([("base".to_owned(), 1), ("slow".to_owned(), 1)]));
    held.stop().await;
}
