//! Versions: servers that write down the number of each call that they carry out, before they answer it.
//!
//! One runs as a task of this process or as a process of its own, which can be killed at any instant. That process is this
//! program again, told by its environment to be a version; it ends when its input does, so when this process ends.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener as StdListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::{AbortHandle, JoinSet},
};

use super::{message::Wire, wait::wait_until};

/// Where a process of its own finds what it is to be.
const ENVIRONMENT: &str = "CHOIRMASTER_TEST_VERSION";

/// The host of versions in processes of their own: nobody's connections begin there, so that one that was killed finds its port
/// free again.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);

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
    /// Carries each call out twice, which a comparison of what was written down has to see.
    Doubling,
}

impl Behaviour {
    /// Whether it can take over everything.
    pub fn is_well(self) -> bool {
        match self {
            Self::Good | Self::Slow | Self::Closing => true,
            Self::Failing | Self::Crashing | Self::Doubling => false,
        }
    }
}

/// Where a version runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    ApartOnTcp,
    ApartOnSocket,
}

/// What a process of its own is told.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    behaviour: Behaviour,
    log: PathBuf,
    listen: Listen,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A version that runs. It is stopped when it is dropped.
#[derive(Debug)]
pub struct Version {
    pub name: String,
    told: Arc<Told>,
    runs: Runs,
}

#[derive(Debug)]
enum Runs {
    Here(AbortHandle),
    Apart(Child),
}

impl Version {
    /// Starts one and waits until it listens.
    pub async fn start(name: String, behaviour: Behaviour, place: Place, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let (listen, runs) = match place {
            Place::Here => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let at = listener.local_addr().unwrap();
                let task = tokio::spawn(serve_tcp(listener, behaviour, open(&log)));
                (Listen::Tcp(at), Some(task.abort_handle()))
            }
            Place::ApartOnTcp => (Listen::Tcp(free_address()), None),
            Place::ApartOnSocket => (Listen::Unix(folder.join(format!("{name}.sock"))), None),
        };
        let told = Arc::new(Told { behaviour, log, listen });
        let runs = runs.map_or_else(|| Runs::Apart(launch(&told)), Runs::Here);
        let version = Self { name, told, runs };
        version.until_it_listens().await;
        version
    }

    /// Its target in a table.
    pub fn target(&self) -> String {
        match &self.told.listen {
            Listen::Tcp(at) => at.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Whether it has a process of its own.
    pub fn is_apart(&self) -> bool {
        matches!(self.runs, Runs::Apart(_))
    }

    /// Kills its process as SIGKILL does, and starts it again.
    pub async fn kill_and_restart(&mut self) {
        self.stop();
        self.runs = Runs::Apart(launch(&self.told));
        self.until_it_listens().await;
    }

    /// Ends it at once, whatever it is doing.
    pub fn stop(&mut self) {
        match &mut self.runs {
            Runs::Here(task) => task.abort(),
            Runs::Apart(process) => {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }

    async fn until_it_listens(&self) {
        wait_until("a version listens", async || match &self.told.listen {
            Listen::Tcp(at) => TcpStream::connect(at).await.is_ok(),
            Listen::Unix(path) => UnixStream::connect(path).await.is_ok(),
        })
        .await;
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A free address at which nobody's connections begin.
pub fn free_address() -> SocketAddr {
    let listener = StdListener::bind(SocketAddrV4::new(HOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

fn open(log: &Path) -> Arc<File> {
    Arc::new(OpenOptions::new().create(true).append(true).open(log).unwrap())
}

fn launch(told: &Told) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["loss::version::what_a_process_of_its_own_runs", "--exact", "--ignored", "--nocapture"]);
    command.env(ENVIRONMENT, serde_json::to_string(told).unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Not a test by itself: the tests start it as a process of its own.
#[test]
#[ignore = "the tests start it"]
fn what_a_process_of_its_own_runs() {
    let told = env::var(ENVIRONMENT).expect("only the tests of losses start this");
    let told: Told = serde_json::from_str(&told).unwrap();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&told.log);
        match told.listen {
            Listen::Tcp(at) => {
                serve_tcp(TcpListener::bind(at).await.unwrap(), told.behaviour, log).await;
            }
            Listen::Unix(path) => {
                let _ = std::fs::remove_file(&path);
                serve_unix(&UnixListener::bind(&path).unwrap(), told.behaviour, log).await;
            }
        }
    });
}

async fn serve_tcp(listener: TcpListener, behaviour: Behaviour, log: Arc<File>) {
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
            Behaviour::Good | Behaviour::Failing | Behaviour::Closing => {}
            Behaviour::Slow => pause(2, 10).await,
            Behaviour::Crashing => pause(0, 3).await,
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
    let status = if behaviour == Behaviour::Failing { "500 Broken" } else { "200 OK" };
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
