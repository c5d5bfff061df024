//! What Redis has done although its answer was lost: that is asked for again, and happens once.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redis::{aio::MultiplexedConnection, cmd};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::{measured::Measuring, mirrored, node, server::Redis, settings};
use crate::deadline::until;

/// A line to a server. When it is told to, it lets the next call through that has a mark in it, and keeps back all that the server says
/// on that connection from then on, until it is told to break it.
struct Line {
    address: SocketAddr,
    keeps_back: Arc<AtomicBool>,
    breaks: Arc<Notify>,
}

impl Line {
    async fn start(server: SocketAddr, mark: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (keeps_back, breaks) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (keep, cut) = (Arc::clone(&keeps_back), Arc::clone(&breaks));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let Ok(server) = TcpStream::connect(server).await else { continue };
                tokio::spawn(pass(client, server, mark, Arc::clone(&keep), Arc::clone(&cut)));
            }
        });
        Self { address, keeps_back, breaks }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    fn keep_back(&self) {
        self.keeps_back.store(true, Ordering::Relaxed);
    }

    /// The answer that was kept back is lost.
    fn lose(&self) {
        assert!(!self.keeps_back.load(Ordering::Relaxed), "no call had the mark in it");
        self.breaks.notify_one();
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    mark: &'static str,
    keeps_back: Arc<AtomicBool>,
    breaks: Arc<Notify>,
) {
    let (mut call, mut answer) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut is_kept_back = false;
    loop {
        tokio::select! {
            read = client.read(&mut call) => {
                let Ok(length @ 1..) = read else { return };
                let is_marked = call[..length].windows(mark.len()).any(|at| at == mark.as_bytes());
                if is_marked && keeps_back.swap(false, Ordering::Relaxed) {
                    is_kept_back = true;
                }
                if server.write_all(&call[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Ok(length @ 1..) = read else { return };
                if !is_kept_back && client.write_all(&answer[..length]).await.is_err() {
                    return;
                }
            }
            () = breaks.notified(), if is_kept_back => return,
        }
    }
}

/// Puts an intent there.
async fn want(client: &mut MultiplexedConnection, key: &str, value: &str) {
    cmd("SET").arg(key).arg(value).query_async::<()>(client).await.unwrap();
    cmd("RPUSH").arg("intents").arg(key).query_async::<()>(client).await.unwrap();
}

async fn length(client: &MultiplexedConnection, list: &str) -> u64 {
    cmd("LLEN").arg(list).query_async(&mut client.clone()).await.unwrap()
}

/// Intents that wait, and those that the manager has in hand, at one moment.
pub async fn open(client: &MultiplexedConnection) -> u64 {
    let mut both = redis::pipe();
    both.atomic().cmd("LLEN").arg("intents").cmd("LLEN").arg("choirmaster:intents");
    let (waiting, in_hand): (u64, u64) = both.query_async(&mut client.clone()).await.unwrap();
    waiting + in_hand
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_leaves_the_hand_with_its_answer_and_is_answered_once() {
    let redis = Redis::start().await;
    let line = Line::start(redis.address, "intent:answer:").await;
    let world = mirrored(settings(line.url())).await;
    let node = node(&world).await;
    let mut client = redis.client().await;
    let answers = format!("intent:answer:cordon:{node}");
    line.keep_back();
    want(&mut client, &format!("intent:cordon:{node}"), "yes").await;
    until("it is out of hand", async || open(&client).await, |open| *open == 0).await;
    assert_eq!(length(&client, &answers).await, 1, "it left the hand without an answer");
    line.lose();
    // The next one is taken by a manager that has put the answer there once more.
    want(&mut client, "intent:migrate:nobody", "x").await;
    let next = async || length(&client, "intent:answer:migrate:nobody").await;
    until("the next one is answered", next, |count| *count == 1).await;
    assert_eq!(length(&client, &answers).await, 1, "it is answered twice");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_stands_there_once_although_that_it_was_written_was_not_heard() {
    let redis = Redis::start().await;
    let line = Line::start(redis.address, "workflow:wf_chain:samples").await;
    let measuring = Measuring::start(Some(settings(line.url()))).await;
    let client = redis.client().await;
    let samples = async || -> Vec<String> {
        let key = "workflow:wf_chain:samples";
        cmd("LRANGE").arg(key).arg(0).arg(-1).query_async(&mut client.clone()).await.unwrap()
    };
    line.keep_back();
    measuring.tell(7, 0, vec![measuring.of_workflow(1, 1_718_287_852_000)]).await;
    until("the first is there", samples, |all| *all == ["1,1718287852.000"]).await;
    line.lose();
    measuring.tell(7, 1, vec![measuring.of_workflow(2, 1_718_287_853_000)]).await;
    let is_there = |all: &Vec<String>| all.first().is_some_and(|newest| newest.starts_with("2,"));
    let all = until("the second is there", samples, is_there).await;
    assert_eq!(all, ["2,1718287853.000", "1,1718287852.000"]);
    measuring.world.stop().await;
}
