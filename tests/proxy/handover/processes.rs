//! A proxy of real processes. This test program plays both parts; see [`a_process_of_a_proxy`].

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::MetadataExt, net::UnixStream as StdUnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use proxy::{
    Kind, Limits, Listen, Measuring, TlsFiles,
    control::{
        client::Client,
        form::{Applied, Status, Upgrading},
    },
    run::{self, Settings},
    supervisor::{self, Plan},
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::world::{self, NEVER, read_head};

const PART: &str = "CHOIRMASTER_TEST_PART";
const FOLDER: &str = "CHOIRMASTER_TEST_FOLDER";

/// The supervisor and the serving processes that the other tests start.
#[test]
#[ignore = "is no test: the others start it"]
fn a_process_of_a_proxy() {
    let (Ok(part), Ok(folder)) = (std::env::var(PART), std::env::var(FOLDER)) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let code = match part.as_str() {
        "holder" => runtime.block_on(hold(folder.into())),
        _ => runtime.block_on(serve(folder.into())),
    };
    std::process::exit(code);
}

fn part(part: &str, folder: &Path) -> Command {
    // Some have the program in their folder, so that it can be exchanged there.
    let own = folder.join("program");
    let program = if own.exists() { own } else { std::env::current_exe().unwrap() };
    let mut command = Command::new(program);
    command.args(["handover::processes::a_process_of_a_proxy", "--exact", "--ignored", "--nocapture"]);
    command.env(PART, part).env(FOLDER, folder);
    command
}

async fn hold(folder: PathBuf) -> i32 {
    let (inherited, again) = (supervisor::inherited().unwrap(), folder.clone());
    let free = |kind| Listen { kind, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
    let mut listen = vec![free(Kind::Plain)];
    let shares = folder.join(SHARES).exists();
    if !inherited.is_empty() && !shares {
        // As far as it is told, the first of those that are given is for TLS.
        let address = inherited[0].local_addr().unwrap();
        listen = if tls(&folder).is_some() { vec![Listen { kind: Kind::Tls, address }] } else { Vec::new() };
    } else if tls(&folder).is_some() {
        listen.push(free(Kind::Tls));
    }
    if folder.join("tls.flows").exists() {
        listen.extend([Kind::Tcp, Kind::PassThrough, Kind::Udp].map(free));
    }
    listen.push(free(Kind::Metrics));
    let plan = Plan {
        listen,
        inherited,
        shares,
        control: folder.join("control.sock"),
        state: folder.join("state"),
        nft: None,
        command: Box::new(move || {
            let mut command = part("serving", &folder);
            command.stdout(Stdio::null());
            command
        }),
        again: Box::new(move || part("holder", &again)),
        serving: Box::new(|listens| println!("\nlistening on {}", listens[0].address)),
    };
    match supervisor::hold(plan).await {
        Ok(supervisor::SupervisorExit::Stopped) => 0,
        Ok(ended) => {
            println!("\n{ended:?}");
            2
        }
        Err(error) => {
            println!("\nfailed: {error}");
            1
        }
    }
}

async fn serve(folder: PathBuf) -> i32 {
    match std::fs::read_to_string(folder.join("broken")).as_deref() {
        Err(_) => {}
        Ok(AT_ONCE) => return 3,
        Ok(_) => die_at_the_door(&folder),
    }
    let settings = Settings {
        control: folder.join("control.sock"),
        state: folder.join("state"),
        threads: 2,
        limits: Limits { udp_idle: udp_idle(&folder), ..Limits::default() },
        measuring: Measuring { interval_seconds: 1, ..Measuring::default() },
        shares: folder.join(SHARES).exists(),
        tls: tls(&folder),
        headers_from: Vec::new(),
        stop_within: Duration::from_mins(1),
        finish_within: Duration::from_mins(1),
        program: "0.0.0-test",
    };
    let link = StdUnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    match run::serve(settings, link).await {
        Ok(run::ServeExit::Finished) => 0,
        Ok(_) => 2,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// Where this is, a flow ends only when its variation gets none any more.
pub const FLOWS_LAST: &str = "flows.last";

/// Where this is, sockets that are given are lent, and others may be joined.
pub const SHARES: &str = "shares";

/// Short, lest a proxy that ends waits for long.
fn udp_idle(folder: &Path) -> Duration {
    if folder.join(FLOWS_LAST).exists() { NEVER } else { Duration::from_secs(2) }
}

/// How a serving process fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It ends at its start, with code 3.
    AtOnce,
    /// SIGKILL, when its door is made and has not yet its place.
    KilledAtItsDoor,
}

const AT_ONCE: &str = "at once";

/// As far as it comes who is killed then.
fn die_at_the_door(folder: &Path) -> ! {
    let closed = folder.join(format!(".{}-0", std::process::id()));
    std::fs::create_dir(&closed).unwrap();
    let _door = std::os::unix::net::UnixListener::bind(closed.join("s")).unwrap();
    kill(std::process::id());
    unreachable!("this process was killed")
}

/// Where the files for TLS are, if there are any.
fn tls(folder: &Path) -> Option<TlsFiles> {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    certificate.exists().then_some(TlsFiles { certificate, key, client_ca: None })
}

/// What a service manager gives.
pub struct Given {
    pub socket: std::net::TcpListener,
    pub notify: PathBuf,
}

/// A proxy that a supervisor holds.
pub struct Held {
    folder: TempDir,
    supervisor: Child,
    pub at: SocketAddr,
    pub client: Client,
}

impl Held {
    pub async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    /// In a folder in which there is something already.
    pub async fn start_in(folder: TempDir) -> Self {
        let supervisor = part("holder", folder.path());
        Self::of(folder, supervisor).await
    }

    /// Started as a service manager starts one that is to take its sockets.
    pub async fn start_with(folder: TempDir, given: Given) -> Self {
        let supervisor = given_to_holder(folder.path(), given);
        Self::of(folder, supervisor).await
    }

    /// The same, once the one before is gone.
    pub async fn start_holder_again_with(&mut self, given: Given) {
        let (supervisor, line) = started(&mut given_to_holder(self.folder.path(), given)).await;
        self.at = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        self.supervisor = supervisor;
    }

    async fn of(folder: TempDir, mut supervisor: Command) -> Self {
        let (supervisor, line) = started(&mut supervisor).await;
        let at = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        let client = Client::new(folder.path().join("control.sock"));
        Self { folder, supervisor, at, client }
    }

    /// Asks for an upgrade that is not to come about, and gives why.
    pub async fn fail_to_upgrade(&self) -> String {
        let before = self.status().await.pid;
        self.client.post::<Upgrading>("/upgrade").await.unwrap();
        wait_until(async || self.status().await.upgrade_failed.is_some()).await;
        let status = self.status().await;
        assert_eq!(status.pid, before);
        status.upgrade_failed.unwrap()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// In a folder that has a program of its own.
    pub async fn start_with_own_program() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_program(folder.path());
        Self::start_in(folder).await
    }

    /// Puts another file there as the program.
    pub fn exchange_program(&self) {
        copy_program(self.folder.path());
    }

    /// Whether the supervisor, and the process that serves, are of the program that is there now.
    pub async fn are_of_the_program_there(&self) -> (bool, bool) {
        let file = |path: PathBuf| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.dev(), about.ino()))
        };
        let there = file(self.folder.path().join("program"));
        let is_of_it = |pid: u32| file(format!("/proc/{pid}/exe").into()) == there;
        (is_of_it(self.supervisor.id()), is_of_it(self.status().await.pid))
    }

    pub fn supervisor(&self) -> u32 {
        self.supervisor.id()
    }

    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    pub async fn status(&self) -> Status {
        self.client.get("/status").await.unwrap()
    }

    /// A table with the one version at `at`.
    pub async fn put(&self, generation: u64, at: SocketAddr) {
        let form = world::table(generation, at, at, 0);
        let applied: Applied =
            self.client.put("/table", serde_json::to_vec(&form).unwrap().into()).await.unwrap();
        assert_eq!((applied.table.generation, applied.not_told), (generation, Vec::new()));
    }

    /// A call at a version `slow` that was not answered, with both ends of it.
    pub async fn call_without_answer(&self, generation: u64) -> (TcpStream, TcpStream) {
        let version = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = version.local_addr().unwrap();
        let mut form = world::table(generation, at, at, 0);
        "slow".clone_into(&mut form.services[0].variations[0].name);
        let _: Applied = self.client.put("/table", serde_json::to_vec(&form).unwrap().into()).await.unwrap();
        let mut caller = TcpStream::connect(self.at).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut caller, b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
            .await
            .unwrap();
        let (mut called, _) = version.accept().await.unwrap();
        read_head(&mut called).await.unwrap();
        (caller, called)
    }

    /// Asks for an upgrade, and waits until another process serves, whose pid is given.
    pub async fn upgrade(&self) -> u32 {
        let Upgrading { pid } = self.client.post("/upgrade").await.unwrap();
        wait_until(async || self.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
            .await;
        self.status().await.pid
    }

    /// The pids of serving processes that can be spoken to.
    pub fn doors(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let pid = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().to_str()?.strip_prefix("control.sock.")?.parse().ok()
        };
        entries.filter_map(pid).collect()
    }

    /// From now on a serving process fails so.
    pub fn break_program(&self, how: Option<Broken>) {
        let mark = self.folder.path().join("broken");
        match how {
            Some(Broken::AtOnce) => std::fs::write(mark, AT_ONCE).unwrap(),
            Some(Broken::KilledAtItsDoor) => std::fs::write(mark, "").unwrap(),
            None => std::fs::remove_file(mark).unwrap(),
        }
    }

    /// What lies there of sockets that were not finished.
    pub fn unfinished(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }

    pub fn kill_holder(&mut self) {
        self.supervisor.kill().unwrap();
        self.supervisor.wait().unwrap();
    }

    pub async fn start_holder_again(&mut self) {
        let (supervisor, line) = start_holder(self.folder.path()).await;
        assert_eq!(line, format!("listening on {}", self.at));
        self.supervisor = supervisor;
    }

    /// Starts a supervisor for the process that serves, which goes on since no other one can be started.
    pub async fn start_holder_in_vain(&mut self) {
        self.break_program(Some(Broken::AtOnce));
        let mut supervisor = part("holder", self.folder.path());
        self.supervisor = supervisor.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        wait_until(async || self.status().await.upgrade_failed.is_some()).await;
    }

    /// Kills all processes, does something while there are none, and starts anew: on another port, where that is the system's choice.
    pub async fn kill_all_and_start_again(&mut self, meanwhile: impl AsyncFnOnce()) {
        let serving = self.status().await.pid;
        self.kill_holder();
        kill(serving);
        wait_until(async || !lives(serving)).await;
        meanwhile().await;
        let (supervisor, line) = start_holder(self.folder.path()).await;
        self.at = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        self.supervisor = supervisor;
    }

    /// The signal with which service managers ask for a reload.
    pub fn hang_up(&self) {
        kill_process(of(self.supervisor.id()), Signal::HUP).unwrap();
    }

    /// What a second supervisor says.
    pub async fn second_holder(&self) -> String {
        let (mut second, line) = start_holder(self.folder.path()).await;
        assert_eq!(second.wait().unwrap().code(), Some(1));
        line
    }

    /// Stops as a service manager does, and sees that nothing is left.
    pub async fn stop(mut self) {
        let serving = self.status().await.pid;
        listens_to_signals(self.supervisor.id()).await;
        terminate(self.supervisor.id());
        let ended = timeout(Duration::from_mins(2), async {
            loop {
                if let Some(status) = self.supervisor.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert_eq!(ended.await.unwrap().code(), Some(0));
        assert!(!lives(serving));
        let mut left: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let prepared = ["program", FLOWS_LAST, SHARES];
        left.retain(|name| !name.starts_with("tls.") && !prepared.contains(&name.as_str()));
        left.sort();
        assert_eq!(left, ["control.sock.lock", "state"]);
    }
}

/// By a process of its own: a child that another test starts meanwhile would hold the file open for writing until it is a program, and
/// what is open for writing can't be started.
fn copy_program(folder: &Path) {
    let new = folder.join("program.new");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&new).status();
    assert!(copied.unwrap().success());
    std::fs::rename(new, folder.join("program")).unwrap();
}

/// A supervisor as a service manager starts one that is to take its sockets.
fn given_to_holder(folder: &Path, Given { socket, notify }: Given) -> Command {
    let program = part("holder", folder);
    let mut supervisor = Command::new("sh");
    // The pid stays, and the socket becomes descriptor 3.
    supervisor.args(["-c", "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh"]);
    supervisor.arg(program.get_program()).args(program.get_args()).stdin(OwnedFd::from(socket));
    let variables = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    supervisor.envs(variables).env("NOTIFY_SOCKET", notify);
    supervisor
}

async fn start_holder(folder: &Path) -> (Child, String) {
    started(part("holder", folder).stdin(Stdio::null())).await
}

/// A test that fails leaves no process behind.
impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(None) = self.supervisor.try_wait() {
            let _ = self.supervisor.kill();
            let _ = self.supervisor.wait();
            self.doors().into_iter().for_each(kill);
        }
    }
}

/// Starts a supervisor and gives its first line.
async fn started(supervisor: &mut Command) -> (Child, String) {
    let mut supervisor = supervisor.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(supervisor.stdout.take().unwrap());
    tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.starts_with("listening on ") && !line.starts_with("failed") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended and said nothing");
        }
        // What it prints later is read by nobody.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        (supervisor, line.trim_end().to_owned())
    })
    .await
    .unwrap()
}

pub fn kill(pid: u32) {
    let killed = kill_process(of(pid), Signal::KILL);
    assert!(matches!(killed, Ok(()) | Err(rustix::io::Errno::SRCH)), "{killed:?}");
}

pub fn terminate(pid: u32) {
    kill_process(of(pid), Signal::TERM).unwrap();
}

/// One that was just renewed doesn't at once.
async fn listens_to_signals(pid: u32) {
    const TERM: u64 = 1 << (15 - 1);
    let path = format!("/proc/{pid}/status");
    let listens = || {
        let status = std::fs::read_to_string(&path).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & TERM != 0
    };
    while !listens() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub fn lives(pid: u32) -> bool {
    // One that nobody has waited for yet is dead all the same, once its last thread has ended: until then its sockets are open.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    test_kill_process(of(pid)).is_ok() && !(is_zombie && threads <= 1)
}

fn of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Waits until it is so.
pub async fn wait_until(is_so: impl AsyncFn() -> bool) {
    let waited = timeout(Duration::from_mins(1), async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("it never came to be so");
}
