use std::{net::SocketAddr, path::PathBuf};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, UnixListener},
    task::{JoinHandle, JoinSet},
};

use crate::loss::wait::wait_until;

/// Where a router answers the questions of whoever leads it.
#[derive(Debug, Clone)]
pub enum Door {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What stands there in the router's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Takes what is said and never answers.
    Silence,
    /// Closes at once.
    Hangs,
    /// Sends bytes that mean nothing, without an end.
    Flood,
    /// Begins a good answer whose end never comes.
    Trickle,
    /// An answer of somebody else's, and well-formed.
    Stranger,
}

impl Lie {
    pub const ALL: [Self; 5] = [Self::Silence, Self::Hangs, Self::Flood, Self::Trickle, Self::Stranger];
}

/// Answers so until it is ended.
#[derive(Debug)]
pub struct Liar(JoinHandle<()>);

impl Liar {
    pub async fn start(door: &Door, lie: Lie) -> Self {
        match door {
            Door::Tcp(at) => {
                // Somebody's connection may have the port for a moment.
                let mut listener = None;
                wait_until("the port is free", async || {
                    listener = TcpListener::bind(at).await.ok();
                    listener.is_some()
                })
                .await;
                let listener = listener.unwrap();
                Self(tokio::spawn(async move {
                    let mut answering = JoinSet::new();
                    while let Ok((stream, _)) = listener.accept().await {
                        answering.spawn(answer(stream, lie));
                    }
                }))
            }
            Door::Unix(path) => {
                let _ = std::fs::remove_file(path);
                let listener = UnixListener::bind(path).unwrap();
                Self(tokio::spawn(async move {
                    let mut answering = JoinSet::new();
                    while let Ok((stream, _)) = listener.accept().await {
                        answering.spawn(answer(stream, lie));
                    }
                }))
            }
        }
    }
}

impl Liar {
    /// Nobody listens or answers there any more once this returns.
    pub async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, lie: Lie) {
    let mut asked = [0; 4096];
    match lie {
        Lie::Silence => while stream.read(&mut asked).await.is_ok_and(|came| came > 0) {},
        Lie::Hangs => {}
        Lie::Flood => {
            let _ = stream.read(&mut asked).await;
            let nonsense: Vec<u8> = (0..=255_u8).cycle().take(64 * 1024).collect();
            while stream.write_all(&nonsense).await.is_ok() {}
        }
        Lie::Trickle => {
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n# id").await;
            while stream.read(&mut asked).await.is_ok_and(|came| came > 0) {}
        }
        Lie::Stranger => {
            while stream.read(&mut asked).await.is_ok_and(|came| came > 0) {
                let body = "<html>It works!</html>\n";
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}
