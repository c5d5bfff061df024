//! Versions that answer, a proxy before them, and callers.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use call_metrics::Tally;
use proxy::{Limits, Proxy, form::TableForm};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::deadline::{self, DEADLINE};

/// A limit that is to be met soon, by whoever is late for ever. Nothing that is to go well has to be done before it is over.
pub const SOON: Duration = Duration::from_millis(150);
/// A limit that is to be met, and before which something else has to be done: longer than a machine with much other work keeps a test waiting.
pub const LATER: Duration = Duration::from_secs(4);
/// A limit that no test meets.
pub const NEVER: Duration = Duration::from_hours(1);

/// A proxy on a free port.
pub struct Running {
    pub proxy: Proxy,
    pub at: SocketAddr,
}

pub fn start(limits: Limits) -> Running {
    start_with(2, limits)
}

/// With so many threads. Limits of a thread are seen best with one.
pub fn start_with(threads: usize, limits: Limits) -> Running {
    let proxy = Proxy::start(threads, limits).unwrap();
    let at = proxy.listen(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    Running { proxy, at }
}

impl Running {
    pub async fn caller(&self) -> Peer {
        Peer::connect(self.at).await
    }

    /// A caller who has sent this before the proxy knows of it, so that no limit can be met before.
    pub async fn caller_who_sent(&self, bytes: impl AsRef<[u8]>) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut caller = Peer::connect(listener.local_addr().unwrap()).await;
        caller.send(bytes).await;
        self.proxy.listen(&listener).unwrap();
        caller
    }

    /// A caller whose connection holds no more than some kilobytes of an answer that it doesn't take.
    pub async fn narrow_caller(&self) -> Peer {
        let (socket, narrow) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
        socket.set_send_buffer_size(4096).unwrap();
        narrow.set_recv_buffer_size(4096).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = self.proxy.listen(&socket.listen(1).unwrap().into_std().unwrap()).unwrap();
        Peer { stream: narrow.connect(at).await.unwrap() }
    }

    /// Puts a table in force of one service `a`, which has these keys besides its name.
    pub async fn serve(&self, service: Value) {
        self.proxy.apply(&table_of(1, service)).await.unwrap();
    }

    /// Puts a table in force of one service `a` with one version.
    pub async fn serve_base(&self, base: &Scripted) {
        self.serve(json!({"variations": [{"name": "base", "targets": [base.target()]}]})).await;
    }

    /// Puts a table in force in which all calls go to the new version first.
    pub async fn serve_new(&self, base: &Scripted, new: &Scripted) {
        self.proxy.apply(&table(1, base.at, new.at, 10_000)).await.unwrap();
    }

    /// What was counted of a variation, of the calls that the split gave to it.
    pub async fn counted(&self, variation: &str) -> Tally {
        self.counted_of(variation, false).await
    }

    /// The same, of the calls that a header asked it for.
    pub async fn counted_by_header(&self, variation: &str) -> Tally {
        self.counted_of(variation, true).await
    }

    async fn counted_of(&self, variation: &str, by_header: bool) -> Tally {
        let mut sum = Tally::default();
        let rows = self.proxy.gather().await;
        let of_it =
            rows.iter().filter(|row| row.key.variation == variation && row.key.by_header == by_header);
        of_it.for_each(|row| sum.merge(&row.tally));
        sum
    }

    /// Waits until nobody is connected and no version has a call in flight.
    pub async fn settled(&self) {
        self.settled_with(0, 0).await;
    }

    /// Waits until so many are connected, and so many calls and connections have a place at a version.
    pub async fn settled_with(&self, connections: usize, places: u32) {
        until("connections and places are given back", || {
            let table = self.proxy.table();
            let versions = table.services().iter().flat_map(|service| service.versions());
            let in_flight: u32 = versions.map(|version| version.in_flight()).sum();
            (self.proxy.connections(), in_flight) == (connections, places)
        })
        .await;
    }
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(DEADLINE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// A table of one service `a` with a stable version, and a new one with so many hundredths of a percent.
pub fn table(generation: u64, base: SocketAddr, new: SocketAddr, share: u16) -> TableForm {
    let service = json!({
        "variations": [{"name": "base", "targets": [base.to_string()]}, {"name": "new", "targets": [new.to_string()]}],
        "shares": [10_000 - share, share],
    });
    table_of(generation, service)
}

/// A table of one service `a`, which has these keys besides its name.
pub fn table_of(generation: u64, mut service: Value) -> TableForm {
    service["name"] = json!("a");
    serde_json::from_value(json!({"generation": generation, "services": [service]})).unwrap()
}

/// A version that reads heads of calls without bodies and gives each this answer, whole and as it is.
pub async fn version(answer: &'static str) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while read_head(&mut stream).await.is_some() {
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

/// A version each of whose connections the test itself drives.
pub struct Scripted {
    listener: tokio::net::TcpListener,
    pub at: SocketAddr,
}

impl Scripted {
    pub async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        Self { listener, at }
    }

    pub fn target(&self) -> String {
        self.at.to_string()
    }

    /// The next connection that the proxy makes.
    pub async fn accept(&self) -> Peer {
        let accepted = timeout(DEADLINE, self.listener.accept()).await.expect("no connection came");
        let stream = accepted.unwrap().0;
        stream.set_nodelay(true).unwrap();
        Peer { stream }
    }

    /// Whether the proxy made no connection that wasn't accepted yet.
    pub async fn is_left_alone(&self) -> bool {
        let now =
            std::future::poll_fn(|cx| std::task::Poll::Ready(self.listener.poll_accept(cx).is_pending()));
        now.await
    }
}

/// One end of a connection.
pub struct Peer {
    pub stream: TcpStream,
}

impl Peer {
    pub async fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    /// The same end twice, so that it can send and read at once.
    pub fn twins(self) -> (Self, Self) {
        let one = self.stream.into_std().unwrap();
        let other = one.try_clone().unwrap();
        let peer = |stream| Self { stream: TcpStream::from_std(stream).unwrap() };
        (peer(one), peer(other))
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await;
        sent.expect("the other end reads nothing").unwrap();
    }

    /// The next head, up to and with its empty line.
    pub async fn head(&mut self) -> String {
        self.next_head().await.expect("the connection ended")
    }

    /// The next head; none where the connection ends.
    pub async fn next_head(&mut self) -> Option<String> {
        timeout(DEADLINE, read_head(&mut self.stream)).await.expect("no head came")
    }

    /// So many bytes, as text.
    pub async fn bytes(&mut self, len: usize) -> String {
        let mut bytes = vec![0; len];
        timeout(DEADLINE, self.stream.read_exact(&mut bytes)).await.expect("too little came").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Everything until the other end says that nothing more comes.
    pub async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = timeout(DEADLINE, self.stream.read_to_end(&mut bytes)).await;
        read.expect("the connection was left open").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Whether the connection ends in an error, which no whole message ends in.
    pub async fn is_reset(&mut self) -> bool {
        let mut bytes = Vec::new();
        let read = timeout(DEADLINE, self.stream.read_to_end(&mut bytes)).await;
        read.expect("the connection was left open").is_err()
    }

    /// Waits until the other end is gone, with whatever it still sends.
    pub async fn gone(&mut self) {
        let mut bytes = Vec::new();
        let _ = timeout(DEADLINE, self.stream.read_to_end(&mut bytes))
            .await
            .expect("the connection was left open");
    }

    /// Sends no more, and still reads.
    pub async fn end_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Ends the connection as a process does that is killed.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Makes a call without a body to service `a`, and gives head and body of the answer, which has a length.
    pub async fn call(&mut self, request: impl AsRef<[u8]>) -> (String, String) {
        self.send(request).await;
        self.answer().await
    }

    /// Head and body of an answer that has a length.
    pub async fn answer(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let body = self.bytes(length).await;
        (head, body)
    }
}

/// The value of a field of a head.
pub fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (named, value) = line.split_once(':')?;
        named.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// An answer 200 with this body.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub const GET: &str = "GET /a/b?c HTTP/1.1\r\nHost: here\r\n\r\n";

/// The next head, up to and with its empty line.
pub async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Waits until something is so.
pub async fn wait_until(what: &str, is_so: impl AsyncFnMut() -> bool) {
    deadline::until(what, is_so, |is_so| *is_so).await;
}
