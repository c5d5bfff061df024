//! Servers in processes of their own: this binary again, with a hidden argument.
//!
//! The process writes its address as its first line and then takes one command a line from its standard input,
//! answering each with a line; it ends with its standard input. So a server never outlives the benchmark.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use choirmaster::{
    app,
    app::Options,
    config::{self, DEFAULT_MAX_CONNECTIONS},
};
use domain::release::lifecycle::Submission;
use engine::{By, audit::Actor, parent};
use language::{Strategy, functions, render};
use model::ReleaseId;
use tokio::{net::TcpListener, sync::mpsc};

use crate::{
    bare::{self, Answers},
    bodies, levels,
};

/// What the hidden argument names for the bare handlers; everything else is the URL of a store.
const BARE: &str = "bare";

/// A hand-out may take long on a slow disk; nobody is to be told to try again meanwhile.
const SUBMIT_PATIENCE: Duration = Duration::from_mins(2);

/// After so long a server that is patient takes a node for lost.
const PATIENT: Duration = Duration::from_hours(1);

/// Runs a server until the standard input ends.
pub async fn run(what: &str, above: &Above) -> anyhow::Result<()> {
    if what == BARE { run_bare().await } else { run_ours(what, above).await }
}

/// Where a server stands in a tree, and beside what.
#[derive(Debug, Clone)]
pub struct Above {
    pub parent: Option<SocketAddr>,
    /// Whether calls may wait for an answer.
    pub lets_wait: bool,
    /// The Redis in which its nodes and workflows are mirrored.
    pub mirror: Option<String>,
    /// Whether nodes that say nothing are taken for lost only after long.
    pub is_patient: bool,
}

impl Above {
    pub const ALONE: Self = Self { parent: None, lets_wait: true, mirror: None, is_patient: false };
}

fn strategy() -> anyhow::Result<Strategy> {
    language::check(bodies::STRATEGY).strategy.context("the sample does not pass the check")
}

fn archive(strategy: &Strategy) -> anyhow::Result<functions::Archive> {
    Ok(functions::from_folder(root(), strategy, &functions::Limits::default())?)
}

/// The folder that holds the sample functions.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

async fn run_bare() -> anyhow::Result<()> {
    let strategy = strategy()?;
    let offer = render::stage(&strategy, 0, bodies::OFFER).into();
    let answers = Answers { offer, archive: archive(&strategy)?.bytes };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tokio::select! {
        served = bare::serve(listener, answers) => served,
        () = ended() => Ok(()),
    }
}

/// The lines of the standard input.
fn commands() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

async fn ended() {
    let mut commands = commands();
    while commands.recv().await.is_some() {}
}

async fn run_ours(store: &str, above: &Above) -> anyhow::Result<()> {
    let downloads = tempfile::tempdir()?;
    let mut options = Options::local(store.to_owned(), root().to_owned());
    options.parent = above.parent.map(|parent| parent::Settings {
        public_url: None,
        url: format!("http://{parent}"),
        token: None,
        name: None,
        poll: levels::POLL,
        service_area: None,
        archive_limits: functions::Limits::default(),
        downloads: downloads.path().to_owned(),
    });
    // As a manager that is configured has.
    options.max_connections = DEFAULT_MAX_CONNECTIONS;
    if !above.lets_wait {
        options.max_wait = Duration::ZERO;
    }
    if let Some(url) = &above.mirror {
        let mirror = config::Mirror { url: url.clone(), ..config::Mirror::default() };
        options.mirror = mirror.settings().map_err(|fault| anyhow!(fault.message))?;
    }
    if above.is_patient {
        options.rules.placement.keep_alive = PATIENT;
    }
    let manager = app::start(options).await?;
    println!("{}", manager.address);
    let mut commands = commands();
    while let Some(command) = commands.recv().await {
        match command.as_str() {
            "submit" => submit(&manager).await?,
            other => bail!("unknown command {other:?}"),
        }
        println!("done");
    }
    manager.stop().await
}

async fn submit(manager: &app::Manager) -> anyhow::Result<()> {
    let strategy = strategy()?;
    let archive = archive(&strategy)?;
    let submitted = Submission {
        id: ReleaseId::parse(strategy.id.as_str())?,
        strategy: Arc::new(strategy),
        text: bodies::STRATEGY.into(),
        digest: [7; 32],
        archive: archive.digest,
        parent: None,
        deferred: false,
        adopts: None,
    };
    let by = By { actor: Actor::Operator("bench".to_owned()), note: None };
    manager.engine.submit(Box::new(submitted), archive.bytes, false, by, SUBMIT_PATIENCE).await?;
    Ok(())
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    pub fn ours(store: &str, cpus: Option<&str>) -> anyhow::Result<Self> {
        Self::start(store, cpus, None)
    }

    /// One of a tree.
    pub fn in_tree(store: &str, above: &Above) -> anyhow::Result<Self> {
        Self::with(store, None, above)
    }

    /// One with something above or beside it.
    pub fn with(store: &str, cpus: Option<&str>, above: &Above) -> anyhow::Result<Self> {
        Self::start(store, cpus, Some(above))
    }

    pub fn bare(cpus: Option<&str>) -> anyhow::Result<Self> {
        Self::start(BARE, cpus, None)
    }

    /// Starts a server, on the given processors alone if they are named.
    fn start(what: &str, cpus: Option<&str>, above: Option<&Above>) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = match cpus {
            None => Command::new(program),
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus]).arg(program);
                command
            }
        };
        if let Some(above) = above {
            command.args(above.parent.iter().flat_map(|parent| ["--parent".to_owned(), parent.to_string()]));
            command.args((!above.lets_wait).then_some("--lets-nobody-wait"));
            command.args(above.mirror.iter().flat_map(|url| ["--mirror", url.as_str()]));
            command.args(above.is_patient.then_some("--patient"));
        }
        command.args(["--serve", what]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("a server could not be started")?;
        let commands = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let address = line.trim().parse().context("the server ended before it listened")?;
        Ok(Self { address, child, commands, answers })
    }

    /// Submits the release, and returns when it is stored and shown.
    pub fn submit(&mut self) -> anyhow::Result<()> {
        let commands = self.commands.as_mut().context("the server was stopped")?;
        writeln!(commands, "submit")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.trim() != "done" {
            bail!("the server did not take the release");
        }
        Ok(())
    }

    /// Processor time used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_time(&PathBuf::from(format!("/proc/{}", self.child.id())))
    }

    /// Memory in use, in bytes.
    pub fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Ends the server in order and waits for it.
    pub fn stop(mut self) -> anyhow::Result<()> {
        drop(self.commands.take());
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a server ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.commands.take());
        // Ended already, unless something went wrong before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel counts in ticks of 10 ms.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of the process whose folder in /proc is given.
pub fn cpu_time(process: &Path) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(process.join("stat"))?;
    // The name may hold spaces; what follows it does not.
    let (_, fields) = stat.rsplit_once(") ").context("stat has another form")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next().context("stat is short")?.parse::<u32>().context("not a number");
    Ok(TICK * (ticks()? + ticks()?))
}
