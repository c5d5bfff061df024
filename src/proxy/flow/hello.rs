//! Connections of TLS that pass unopened: the first message is looked at, and passes with everything behind it as it came.
//!
//! The message is read by rustls, in however many records and pieces it comes. What it refuses is no beginning of TLS 1.2 or 1.3 with one
//! meaning: no hello at all, extensions that come twice, names that aren't any, and callers of before TLS 1.2 that name no
//! signature algorithms.

use std::{future::poll_fn, io::Cursor, rc::Rc, task::Poll};

use bytes::BytesMut;
use rustls::server::Acceptor;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::tcp;
use crate::{
    caller::Caller, connection_timeout::ConnectionTimeout, count::Unserved, live::Transport,
    stream::poll_fill, worker::Worker,
};

/// The most bytes up to the end of the first message. Those of today have at most a few thousand.
const MOST: usize = 64 * 1024;
/// How much is read at once.
const ROOM: usize = 4 * 1024;

/// A fatal alert that says that nobody of that name is here (RFC 6066, 3), as a record.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];
/// That what came is no hello.
const UNEXPECTED_MESSAGE: &[u8] = &[21, 3, 3, 0, 2, 2, 10];

/// Why a connection goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// It ended, or took too long: nobody waits for an answer.
    Gone,
    /// No hello, with the alert that says so.
    NoHello(Vec<u8>),
}

/// Serves a connection that goes to the service that its caller names.
pub(crate) async fn serve(mut stream: TcpStream, caller: Caller, worker: Rc<Worker>) {
    let mut came = worker.buffers().take();
    let name = read(&mut stream, &mut came, &worker).await;
    let service = match &name {
        Ok(name) => find(name.as_deref(), caller.port, &worker),
        Err(_) => None,
    };
    if let Some(service) = service {
        return tcp::carry((stream, came), caller, service, &worker).await;
    }
    let (why, alert) = match name {
        Ok(_) => (Unserved::NoService, UNRECOGNIZED_NAME.to_vec()),
        Err(Fault::NoHello(alert)) => (Unserved::Refused, alert),
        Err(Fault::Gone) => (Unserved::Refused, Vec::new()),
    };
    worker.counts().note_unserved(why);
    worker.buffers().give_back(came);
    if !alert.is_empty() {
        let told = async {
            stream.write_all(&alert).await?;
            stream.shutdown().await
        };
        let _ = tokio::time::timeout(worker.limits().handshake, told).await;
    }
}

/// The service of a name; without one, or for one that nobody has, the service of the port.
fn find(name: Option<&str>, port: u16, worker: &Worker) -> Option<usize> {
    let local = worker.local();
    let named = name.and_then(|name| local.table().of_name(&name.to_ascii_lowercase()));
    named.or_else(|| local.table().of_port(Transport::Tls, port))
}

/// Reads until the first message is whole, and gives the name in it. What came stays as it is.
async fn read(stream: &mut TcpStream, came: &mut BytesMut, worker: &Worker) -> Result<Option<String>, Fault> {
    let mut time_limit = ConnectionTimeout::new(worker.limits().handshake);
    let mut acceptor = Acceptor::default();
    loop {
        let looked = came.len();
        let read = poll_fn(|cx| match poll_fill(stream, came, ROOM, cx) {
            Poll::Ready(read) => Poll::Ready(read.ok()),
            // From the first moment on, however little comes at a time.
            Poll::Pending => time_limit.poll_over(cx).map(|()| None),
        });
        if !matches!(read.await, Some(1..)) {
            return Err(Fault::Gone);
        }
        let mut new = Cursor::new(&came[looked..]);
        while (new.position() as usize) < new.get_ref().len() {
            if acceptor.read_tls(&mut new).is_err() {
                return Err(Fault::NoHello(UNEXPECTED_MESSAGE.to_vec()));
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    tracing::debug!(%error, "a connection of TLS begins with no hello");
                    let mut record = Vec::new();
                    // Writing into a vector can't fail.
                    let _ = alert.write_all(&mut record);
                    return Err(Fault::NoHello(record));
                }
            }
        }
        if came.len() > MOST {
            return Err(Fault::NoHello(UNEXPECTED_MESSAGE.to_vec()));
        }
    }
}
