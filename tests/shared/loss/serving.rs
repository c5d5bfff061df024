//! What versions do: they write down the number of each call that they carry out, before they answer it.
//!
//! One may be a process of its own, which can be killed at any instant: this program again, told by its environment to be a version.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
};

use super::message::Wire;

/// Where a process of its own finds what it is to be.
pub const ENVIRONMENT: &str = "CHOIRMASTER_TEST_VERSION";

/// How many bytes a long answer has.
const LONG: usize = 200 * 1024;

/// What a version does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behaviour {
    /// Answers at once; some answers are long, some come in chunks.
    Good,
    /// The same after some milliseconds.
    Slow,
    /// Answers each call with 500.
    Failing,
    /// Works on each call for a moment, so that a kill meets calls. Its answers are short, since nobody could save one that was half
    /// passed on.
    Crashing,
    /// Closes each connection after some answers without saying so in one.
    Closing,
    /// Ends its process at one call of some, in the middle of it, by itself.
    Dying,
    /// Answers with 500 for as long as there is a file beside its log that [`bad_file`] names.
    Turning,
    /// Carries each call out twice, which a comparison of what was written down has to see.
    Doubling,
}

impl Behaviour {
    /// Whether it can take over everything.
    pub fn is_well(self) -> bool {
        match self {
            Self::Good | Self::Slow | Self::Closing | Self::Turning => true,
            Self::Failing | Self::Crashing | Self::Dying | Self::Doubling => false,
        }
    }
}

/// What a process of its own is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    pub behaviour: Behaviour,
    pub log: PathBuf,
    pub listen: Listen,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Where `$HOST` and `$PORT` say, as programs that an agent runs have to.
    Port,
}

/// Of this process, if it behaves so that this matters.
static IS_BAD: AtomicBool = AtomicBool::new(false);

/// While this file is there, a version that turns is bad.
pub fn bad_file(log: &Path) -> PathBuf {
    log.with_extension("bad")
}

fn watch(bad: &Path) {
    loop {
        IS_BAD.store(bad.exists(), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What this program is called with to become a version.
pub fn arguments() -> [String; 4] {
    let (_, module) = module_path!().split_once("::").unwrap_or_default();
    let test = format!("{module}::what_a_process_of_its_own_runs");
    [test, "--exact".to_owned(), "--ignored".to_owned(), "--nocapture".to_owned()]
}

pub fn open(log: &Path) -> Arc<File> {
    Arc::new(OpenOptions::new().create(true).append(true).open(log).unwrap())
}

/// Not a test by itself: the tests start it as a process of its own.
#[test]
#[ignore = "the tests start it"]
fn what_a_process_of_its_own_runs() {
    let told = env::var(ENVIRONMENT).expect("only the tests of losses start this");
    let told: Told = serde_json::from_str(&told).unwrap();
    if !matches!(told.listen, Listen::Port) {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
    }
    if told.behaviour == Behaviour::Turning {
        let bad = bad_file(&told.log);
        IS_BAD.store(bad.exists(), Ordering::Relaxed);
        std::thread::spawn(move || watch(&bad));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&told.log);
        match told.listen {
            Listen::Tcp(at) => {
                serve_tcp(TcpListener::bind(at).await.unwrap(), told.behaviour, log).await;
            }
            Listen::Port => {
                let [host, port] = ["HOST", "PORT"].map(|name| env::var(name).unwrap());
                let listener = TcpListener::bind(format!("{host}:{port}")).await.unwrap();
                serve_tcp(listener, told.behaviour, log).await;
            }
            Listen::Unix(path) => {
                let _ = std::fs::remove_file(&path);
                serve_unix(&UnixListener::bind(&path).unwrap(), told.behaviour, log).await;
            }
        }
    });
}

pub async fn serve_tcp(listener: TcpListener, behaviour: Behaviour, log: Arc<File>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        connections.spawn(converse(stream, behaviour, Arc::clone(&log)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_unix(listener: &UnixListener, behaviour: Behaviour, log: Arc<File>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(converse(stream, behaviour, Arc::clone(&log)));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, behaviour: Behaviour, log: Arc<File>) {
    let mut wire = Wire::new(stream);
    for answered in 1_u32.. {
        let Ok(call) = wire.read().await else { return };
        let Some(number) = call.number() else { return };
        (&*log).write_all(&number.to_le_bytes()).unwrap();
        match behaviour {
            Behaviour::Good | Behaviour::Failing | Behaviour::Closing | Behaviour::Turning => {}
            Behaviour::Slow => pause(2, 10).await,
            Behaviour::Crashing => pause(0, 3).await,
            Behaviour::Dying => {
                pause(0, 3).await;
                if fastrand::u8(..20) == 0 {
                    std::process::abort();
                }
            }
            Behaviour::Doubling => (&*log).write_all(&number.to_le_bytes()).unwrap(),
        }
        let answer = answer(number, call.body.len(), behaviour);
        if wire.write(&answer).await.is_err() {
            return;
        }
        if behaviour == Behaviour::Closing && answered == 10 {
            return;
        }
    }
}

async fn pause(from: u64, to: u64) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(from..=to))).await;
}

/// The number of the call and how long its body was, and then as much as the kind of answer has.
fn answer(number: u32, came: usize, behaviour: Behaviour) -> Vec<u8> {
    let has_turned = behaviour == Behaviour::Turning && IS_BAD.load(Ordering::Relaxed);
    let fails = behaviour == Behaviour::Failing || has_turned;
    let status = if fails { "500 Broken" } else { "200 OK" };
    let mut body = format!("{number} {came}\n").into_bytes();
    let may_be_long = matches!(behaviour, Behaviour::Good | Behaviour::Slow);
    if may_be_long && number.is_multiple_of(97) {
        body.resize(LONG, b'.');
    }
    let mut all = format!("HTTP/1.1 {status}\r\n").into_bytes();
    if may_be_long && number.is_multiple_of(7) {
        let (begin, end) = body.split_at(body.len() / 2);
        all.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in [begin, end] {
            all.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            all.extend_from_slice(chunk);
            all.extend_from_slice(b"\r\n");
        }
        all.extend_from_slice(b"0\r\n\r\n");
    } else {
        all.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        all.extend_from_slice(&body);
    }
    all
}

/// Whether a body is the whole answer to a call whose own body was so long.
pub fn is_answer_to(number: u32, sent: usize, body: &[u8]) -> bool {
    let begin = format!("{number} {sent}\n").into_bytes();
    let is_long = body.len() == LONG && number.is_multiple_of(97);
    body.starts_with(&begin) && (is_long || body.len() == begin.len())
}
