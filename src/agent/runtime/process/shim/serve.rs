use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
};

use super::protocol::{Ask, ShimResponse};

/// Connections at once. Further ones wait.
const CONNECTIONS: usize = 16;
/// Bytes of a line.
const LINE: u64 = 4096;
/// How long a connection may say nothing.
const IDLE: Duration = Duration::from_mins(1);

/// Something asked, and where its answer goes.
pub(super) type PendingRequest = (Ask, oneshot::Sender<PendingResponse>);

/// An answer, and who wants to know when it was written.
#[derive(Debug)]
pub(super) struct PendingResponse {
    pub said: ShimResponse,
    pub receipt: Option<oneshot::Sender<()>>,
}

/// Passes on what is asked, until the other side of the channel is gone.
pub(super) async fn serve(listener: UnixListener, asks: mpsc::Sender<PendingRequest>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let asks = asks.clone();
                tokio::spawn(async move {
                    answer(stream, asks).await;
                    drop(place);
                });
            }
            // Too many open files, for example.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(mut stream: UnixStream, asks: mpsc::Sender<PendingRequest>) {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut whole = (&mut read).take(LINE);
        match tokio::time::timeout(IDLE, whole.read_until(b'\n', &mut line)).await {
            Ok(Ok(1..)) => {}
            Ok(_) | Err(_) => return,
        }
        let PendingResponse { said, receipt } = match serde_json::from_slice(&line) {
            Ok(ask) => {
                let (to, said) = oneshot::channel();
                if asks.send((ask, to)).await.is_err() {
                    return;
                }
                let Ok(answered) = said.await else { return };
                answered
            }
            Err(error) => {
                PendingResponse { said: ShimResponse::Refused { why: error.to_string() }, receipt: None }
            }
        };
        let Ok(mut text) = serde_json::to_vec(&said) else { return };
        text.push(b'\n');
        if write.write_all(&text).await.is_err() {
            return;
        }
        if let Some(receipt) = receipt {
            let _ = receipt.send(());
        }
    }
}
