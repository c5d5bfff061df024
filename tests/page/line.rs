//! The line between a browser and a manager, which the test can cut, freeze and make slow.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

/// How the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Open,
    /// Nothing comes through, and nobody is told: as where a machine between lost its power.
    Frozen,
    /// Connections are ended, and new ones at once.
    Cut,
    /// What the manager says comes byte by byte.
    Trickling,
}

/// Passes on what comes to its address, until it is dropped.
pub struct Line {
    pub address: SocketAddr,
    state: watch::Sender<State>,
    listening: JoinHandle<()>,
}

impl Line {
    pub async fn to(manager: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, seen) = watch::channel(State::Open);
        let listening = tokio::spawn(async move {
            while let Ok((browser, _)) = listener.accept().await {
                tokio::spawn(connect(browser, manager, seen.clone()));
            }
        });
        Self { address, state, listening }
    }

    pub fn set(&self, state: State) {
        self.state.send_replace(state);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Until either end is over, or the line is cut.
async fn connect(browser: TcpStream, manager: SocketAddr, mut seen: watch::Receiver<State>) {
    if *seen.borrow() == State::Cut {
        return;
    }
    let Ok(manager) = TcpStream::connect(manager).await else { return };
    let ((from_browser, to_browser), (from_manager, to_manager)) =
        (browser.into_split(), manager.into_split());
    let (one, other) = (seen.clone(), seen.clone());
    tokio::select! {
        () = pass(from_browser, to_manager, one, false) => (),
        () = pass(from_manager, to_browser, other, true) => (),
        _ = seen.wait_for(|state| *state == State::Cut) => (),
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut seen: watch::Receiver<State>,
    trickles: bool,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut bytes).await {
        if read == 0 || seen.wait_for(|state| *state != State::Frozen).await.is_err() {
            return;
        }
        let mut rest = &bytes[..read];
        while !rest.is_empty() {
            let slow = trickles && *seen.borrow() == State::Trickling;
            let (part, after) = rest.split_at(if slow { DROP.min(rest.len()) } else { rest.len() });
            if to.write_all(part).await.is_err() {
                return;
            }
            rest = after;
            if slow {
                // A line that is slow: nothing is waited for.
                sleep(EACH).await;
            }
        }
    }
}

/// How many bytes come at once over a line that trickles, and how long the next ones take: some 6 KB/s, of which a beat of the stream
/// is a few packets.
const DROP: usize = 7;
const EACH: Duration = Duration::from_millis(1);
