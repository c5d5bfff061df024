//! Takes connections from a socket of a port that another program has.

use std::{io, net::TcpListener, rc::Rc, time::Duration};

use tokio::{
    io::{Interest, unix::AsyncFd},
    net::TcpStream,
    task::coop::consume_budget,
    time::sleep,
};

use super::socket;
use crate::{sockets::BACKLOG, worker::Worker};

/// How long it rests when it can't go on: too many connections, or no file descriptor left.
const REST: Duration = Duration::from_millis(20);

/// How long it rests where the socket can't listen again.
const DEAF: Duration = Duration::from_secs(1);

/// What is done next.
enum Next {
    Again,
    /// The reactor takes the socket for closed, which it isn't.
    Register,
    Rest(Duration),
}

/// Takes connections as long as the table in force has a service for them, until the task is dropped.
pub(crate) async fn accept(worker: Rc<Worker>, socket: Rc<TcpListener>, take: impl Fn(TcpStream)) {
    // First, lest a table comes between the look and the wait.
    let mut tables = worker.tables();
    let mut registered = None;
    loop {
        // What was accepted gets its turn, however many wait.
        consume_budget().await;
        if !worker.is_wanted() {
            if tables.changed().await.is_err() {
                return;
            }
            continue;
        }
        worker.address().resumed().await;
        if worker.crew().connections() >= worker.limits().connections {
            sleep(REST).await;
            continue;
        }
        let next = match &registered {
            Some(registered) => next(&worker, registered, &take).await,
            None => match register(&socket) {
                Ok(new) => {
                    registered = Some(new);
                    if socket::is_listening(&socket) {
                        worker.address().note_begun();
                    }
                    Next::Again
                }
                Err(error) => {
                    tracing::warn!(%error, "a socket that others have as well can't be waited for");
                    Next::Rest(REST)
                }
            },
        };
        match next {
            Next::Again => {}
            Next::Register => registered = None,
            Next::Rest(rest) => {
                registered = None;
                sleep(rest).await;
            }
        }
    }
}

/// Has the runtime watch a socket.
#[allow(
    deprecated,
    reason = "it is unsound for what doesn't own its descriptor; this does, and what stands instead of it is unsafe"
)]
fn register(socket: &Rc<TcpListener>) -> io::Result<AsyncFd<Rc<TcpListener>>> {
    AsyncFd::with_interest(Rc::clone(socket), Interest::READABLE)
}

/// Waits for a connection, and takes it unless that isn't to be by then.
async fn next(worker: &Worker, registered: &AsyncFd<Rc<TcpListener>>, take: &impl Fn(TcpStream)) -> Next {
    let Ok(mut ready) = registered.readable().await else { return Next::Register };
    let address = worker.address();
    if address.is_paused() || !worker.is_wanted() {
        return Next::Again;
    }
    let socket = registered.get_ref();
    match socket::accept_now(socket) {
        Ok((stream, _)) => {
            if let Ok(stream) = usable(stream) {
                take(stream);
            }
            Next::Again
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            // Another thread has had it listen again.
            let was_over = ready.ready().is_read_closed();
            ready.clear_ready();
            if was_over { Next::Register } else { Next::Again }
        }
        Err(error) if is_of_one_connection(&error) => Next::Again,
        // It isn't listening: not yet, or somebody else has ended that.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let at = address.form.address;
            let listened = socket::listen(socket, at, BACKLOG);
            if address.note_deaf(listened.is_err()) {
                match &listened {
                    Ok(()) => tracing::info!(%at, "it is listened again"),
                    Err(error) => tracing::error!(%at, "it can't be listened any more: {error}"),
                }
            }
            if listened.is_ok() { Next::Register } else { Next::Rest(DEAF) }
        }
        Err(error) => {
            tracing::warn!(%error, "no connection can be accepted for now");
            Next::Rest(REST)
        }
    }
}

/// A connection, as it is served.
pub(crate) fn usable(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

/// Whether the trouble is the connection's alone, so that the next one can be accepted at once.
pub(crate) fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
