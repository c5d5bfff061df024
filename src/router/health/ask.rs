use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use traffic::{desired::Host, health::Probe};

/// The most bytes of an answer that are read: its head must have ended by then.
pub const MAX_ANSWER: usize = 16 * 1024;

/// The most fields of the head of an answer.
const MAX_FIELDS: usize = 100;

/// So many heads that only announce another one are passed over.
const MAX_INTERIM: usize = 8;

/// Why a target isn't there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("can't be connected: {0}")]
    Connect(io::ErrorKind),
    #[error("breaks off before it has answered: {0}")]
    Broken(io::ErrorKind),
    #[error("doesn't answer in time")]
    Late,
    #[error("answers with status {0}")]
    Status(u16),
    #[error("answers with something that isn't HTTP/1")]
    NotHttp,
    #[error("answers with a head of more than {MAX_ANSWER} bytes or {MAX_FIELDS} fields")]
    TooLong,
    #[error("is a name, and was not resolved")]
    Unresolved,
    #[error("the check broke off")]
    BrokeOff,
}

/// Asks a target once, within its time-out.
///
/// # Errors
///
/// Why it doesn't count as good.
pub async fn ask(probe: &Probe) -> Result<(), Fault> {
    ask_marked(probe, None).await
}

/// The same over a connection that is marked so for the kernel.
///
/// # Errors
///
/// As [`ask`].
pub async fn ask_marked(probe: &Probe, mark: Option<u32>) -> Result<(), Fault> {
    let Host::Address(address) = probe.target.host else { return Err(Fault::Unresolved) };
    let address = SocketAddr::new(address, probe.target.port);
    let asked = async {
        let stream = connect(address, mark).await.map_err(|error| Fault::Connect(error.kind()))?;
        match &probe.how.path {
            Some(path) => get(stream, address, path).await,
            None => Ok(()),
        }
    };
    timeout(probe.how.timeout, asked).await.unwrap_or(Err(Fault::Late))
}

async fn connect(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Only Linux has marks, and nobody asks for any elsewhere.
    #[cfg(target_os = "linux")]
    if let Some(mark) = mark {
        socket2::SockRef::from(&socket).set_mark(mark)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = mark;
    socket.connect(address).await
}

async fn get(mut stream: TcpStream, address: SocketAddr, path: &str) -> Result<(), Fault> {
    let broken = |error: io::Error| Fault::Broken(error.kind());
    let asked = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: choirmaster-health\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await.map_err(broken)?;
    let mut answer = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut answer).await.map_err(broken)? == 0 {
            return Err(Fault::Broken(io::ErrorKind::UnexpectedEof));
        }
        match status(&answer)? {
            Some(200..=399) => return Ok(()),
            Some(status) => return Err(Fault::Status(status)),
            None if answer.len() >= MAX_ANSWER => return Err(Fault::TooLong),
            None => {}
        }
    }
}

/// The status of an answer, once its head is there; heads with a status below 200 only announce it.
fn status(mut answer: &[u8]) -> Result<Option<u16>, Fault> {
    for _ in 0..MAX_INTERIM {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let end = match head.parse(answer) {
            Ok(httparse::Status::Complete(end)) => end,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Fault::TooLong),
            Err(_) => return Err(Fault::NotHttp),
        };
        match head.code {
            Some(code) if code >= 200 => return Ok(Some(code)),
            Some(101) | None => return Err(Fault::NotHttp),
            Some(_) => answer = &answer[end..],
        }
    }
    Err(Fault::TooLong)
}
