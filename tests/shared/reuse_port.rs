//! Programs at a port that others have as well: by a socket beside theirs (`SO_REUSEPORT`), or by one that they have, too.

use std::{io::ErrorKind, net::SocketAddr};

use proxy::shared::{
    listening::{beginning, text},
    socket::refuse_new,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::{JoinHandle, JoinSet, yield_now},
};

/// Somebody who accepts, until this is dropped or lets go.
pub struct Program {
    stays: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Program {
    /// By a socket of its own beside others of this user. `answer`: what becomes of each connection.
    pub fn beside<F: Future<Output = ()> + Send + 'static>(
        at: SocketAddr,
        answer: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(at).unwrap();
        Self::start(socket.listen(4_096).unwrap(), true, answer)
    }

    /// By a socket that others have, too.
    pub fn having<F: Future<Output = ()> + Send + 'static>(
        socket: &std::net::TcpListener,
        answer: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::from_std(socket.try_clone().unwrap()).unwrap();
        Self::start(listener, false, answer)
    }

    fn start<F: Future<Output = ()> + Send + 'static>(
        listener: TcpListener,
        is_own: bool,
        answer: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let (stays, mut left) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = &mut left => break,
                };
                connections.spawn(answer(accepted.unwrap().0));
            }
            // What waits at a socket of others is theirs.
            if is_own {
                let listener = listener.into_std().unwrap();
                refuse_new(&listener).unwrap();
                loop {
                    // Looked at before what waits: who comes in meanwhile is there then.
                    let is_last = !is_anybody_on_the_way(listener.local_addr().unwrap());
                    for stream in waiting(&listener) {
                        connections.spawn(answer(stream));
                    }
                    if is_last {
                        break;
                    }
                    yield_now().await;
                }
            }
            connections.detach_all();
        });
        Self { stays: Some(stays), task }
    }

    /// Accepts nothing more, and lets go of the port. What came goes on.
    pub async fn lets_go(mut self) {
        drop(self.stays.take());
        (&mut self.task).await.unwrap();
    }
}

/// Whether anybody's connection to a port has begun, and can't be accepted yet.
fn is_anybody_on_the_way(at: SocketAddr) -> bool {
    beginning(&text(false).unwrap()).any(|(to, _)| to.port() == at.port())
}

/// The connections that wait at a socket.
fn waiting(listener: &std::net::TcpListener) -> Vec<TcpStream> {
    let mut all = Vec::new();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true).unwrap();
                all.push(TcpStream::from_std(stream).unwrap());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.task.abort();
    }
}
