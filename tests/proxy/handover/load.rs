//! Callers that go on over the same connections as long as they may, and a version that counts.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::processes::wait_until;
use crate::world::read_head;

/// A version that counts the calls that it carried out.
pub struct Counting {
    pub at: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Counting {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let answered = Arc::<AtomicU64>::default();
        let count = Arc::clone(&answered);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    while read_head(&mut stream).await.is_some() {
                        count.fetch_add(1, Ordering::Relaxed);
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { at, answered }
    }

    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// What became of the calls.
#[derive(Debug, Default, Clone, Copy)]
pub struct Made {
    pub answered: u64,
    pub lost: u64,
    /// Connections that could not be made.
    pub refused: u64,
    /// Connections that were closed while they stood idle.
    pub closed_idle: u64,
    pub told_to_close: u64,
}

#[derive(Debug, Default)]
struct Shared {
    answered: AtomicU64,
    is_over: AtomicBool,
}

pub struct Callers {
    shared: Arc<Shared>,
    tasks: JoinSet<Made>,
}

impl Callers {
    /// Half of them call without a rest, the others think for 20 ms; every third call is a POST.
    pub fn start(at: SocketAddr, count: u64) -> Self {
        let shared = Arc::<Shared>::default();
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let think = Duration::from_millis(20 * (number % 2));
            tasks.spawn(go_on(at, think, Arc::clone(&shared)));
        }
        Self { shared, tasks }
    }

    /// Waits until so many further calls were answered.
    pub async fn make(&self, calls: u64) {
        let until = self.shared.answered.load(Ordering::Relaxed) + calls;
        wait_until(async || self.shared.answered.load(Ordering::Relaxed) >= until).await;
    }

    pub async fn end(self) -> Made {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut all = Made::default();
        for made in self.tasks.join_all().await {
            all.answered += made.answered;
            all.lost += made.lost;
            all.refused += made.refused;
            all.closed_idle += made.closed_idle;
            all.told_to_close += made.told_to_close;
        }
        all
    }
}

async fn go_on(at: SocketAddr, think: Duration, shared: Arc<Shared>) -> Made {
    let mut made = Made::default();
    let mut open: Option<TcpStream> = None;
    let mut turn = 0_u64;
    while !shared.is_over.load(Ordering::Relaxed) {
        if !think.is_zero() {
            tokio::time::sleep(think).await;
        }
        if let Some(stream) = &open
            && stream
                .try_read(&mut [0])
                .map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |_| true)
        {
            made.closed_idle += 1;
            open = None;
        }
        if open.is_none() {
            open = TcpStream::connect(at).await.ok();
        }
        let Some(mut stream) = open.take() else {
            made.refused += 1;
            continue;
        };
        turn += 1;
        match call(&mut stream, if turn.is_multiple_of(3) { "POST" } else { "GET" }).await {
            Ok(head) if head.contains("Connection: close\r\n") => {
                made.answered += 1;
                made.told_to_close += 1;
            }
            Ok(_) => {
                made.answered += 1;
                open = Some(stream);
            }
            Err(_) => made.lost += 1,
        }
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
    made
}

/// A call and its whole answer, of which the head is given.
pub async fn call(stream: &mut TcpStream, method: &str) -> io::Result<String> {
    let call = format!("{method} /a/x HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(call.as_bytes()).await?;
    let head = read_head(stream).await.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut body = [0; 4];
    stream.read_exact(&mut body).await?;
    if !head.starts_with("HTTP/1.1 200 ") || &body != b"done" {
        return Err(io::Error::other(head));
    }
    Ok(head)
}
