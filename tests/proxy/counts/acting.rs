//! Versions that do what the path of a call says, and callers who note what they saw.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

use crate::world::read_head;

/// What a version does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    Ok,
    NotFound,
    Broken,
    /// It closes the connection without a word.
    Die,
    Nonsense,
    /// It ends in the midst of the answer.
    BreakOff,
}

impl Act {
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::NotFound, Self::Broken, Self::Die, Self::Nonsense, Self::BreakOff];

    pub fn path(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not-found",
            Self::Broken => "broken",
            Self::Die => "die",
            Self::Nonsense => "nonsense",
            Self::BreakOff => "break-off",
        }
    }

    fn answer(self) -> &'static str {
        match self {
            Self::Ok => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            Self::NotFound => "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
            Self::Broken => "HTTP/1.1 500 Broken\r\nContent-Length: 3\r\n\r\nbad",
            Self::Die => "",
            Self::Nonsense => "nonsense\r\n\r\n",
            Self::BreakOff => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        }
    }

    fn keeps_connection(self) -> bool {
        matches!(self, Self::Ok | Self::NotFound | Self::Broken)
    }
}

/// How often a version carried out what.
pub type Executed = Arc<Mutex<BTreeMap<Act, u64>>>;

/// A version that does what the last part of the path says; `gate`: it waits before each answer until this is true.
pub async fn acting(gate: Option<watch::Receiver<bool>>) -> (SocketAddr, Executed) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let executed = Executed::default();
    let noted = Arc::clone(&executed);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(act(stream, Arc::clone(&noted), gate.clone()));
        }
    });
    (at, executed)
}

async fn act(mut stream: TcpStream, executed: Executed, mut gate: Option<watch::Receiver<bool>>) {
    while let Some(head) = read_head(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap().rsplit('/').next().unwrap();
        let act = Act::ALL.into_iter().find(|act| act.path() == path).unwrap();
        *executed.lock().unwrap().entry(act).or_default() += 1;
        if let Some(gate) = &mut gate {
            gate.wait_for(|is_open| *is_open).await.unwrap();
        }
        if stream.write_all(act.answer().as_bytes()).await.is_err() || !act.keeps_connection() {
            return;
        }
    }
}

pub fn sum(executed: &Executed) -> u64 {
    executed.lock().unwrap().values().sum()
}

/// What a caller saw of a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Saw {
    /// An answer of a version, whole.
    Answer { status: u16, by: String },
    /// Half an answer.
    Half { by: String },
    /// An answer of the proxy's own.
    Own { status: u16 },
}

/// A caller who keeps a connection as long as it lives.
pub struct Caller {
    at: SocketAddr,
    stream: Option<TcpStream>,
}

impl Caller {
    pub fn new(at: SocketAddr) -> Self {
        Self { at, stream: None }
    }

    /// Makes a call of service `a`. `fields`: whole lines.
    pub async fn call(&mut self, method: &str, act: Act, fields: &str) -> Saw {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.at).await.unwrap(),
        };
        let path = act.path();
        let head = format!("{method} /a/{path} HTTP/1.1\r\nHost: here\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await.unwrap().to_ascii_lowercase();
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.clone().find(|(here, _)| *here == name).map(|(_, value)| value.to_owned())
        };
        let status = head[9..12].parse().unwrap();
        let mut body = vec![0; field("content-length").unwrap().parse().unwrap()];
        let is_whole = stream.read_exact(&mut body).await.is_ok();
        if is_whole && field("connection").is_none_or(|connection| connection != "close") {
            self.stream = Some(stream);
        }
        match field("x-choirmaster-version") {
            Some(by) if is_whole => Saw::Answer { status, by },
            Some(by) => Saw::Half { by },
            None => Saw::Own { status },
        }
    }
}
