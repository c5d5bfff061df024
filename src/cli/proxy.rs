//! `choirmaster proxy`: the proxy itself, and what is asked of one that runs.

pub mod settings;
mod show;

use std::{
    io::{Read as _, Write},
    net::SocketAddr,
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::PathBuf,
    sync::Once,
    time::Duration,
};

use bytes::Bytes;
use clap::Subcommand;
use proxy::{
    Kind, Limits, Listen,
    control::{
        MAX_TABLE,
        client::{Client, ClientError},
        form::{Applied, Status, Upgrading},
    },
    form::TableForm,
    nftables, run,
    supervisor::{self, HoldError, Plan},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::settings::{DEFAULT_CONTROL, Settings};
use super::{
    failure::Failure,
    logging,
    settings::{Configured as _, Flag, assignment},
};

/// How long an upgrade may take until another process serves.
const UPGRADE: Duration = Duration::from_secs(70);
/// How often it is asked who serves.
const LOOK: Duration = Duration::from_millis(50);

/// Share calls among the versions of services, by a table, and lose none.
///
/// Prints one line on stdout once it takes calls: `listening on http://ADDRESS:PORT`, with https:// where callers speak
/// TLS, and tcp://, tls:// and udp:// where something else comes in. Logs go to stderr. SIGTERM and
/// SIGINT take nothing more, let what there is end, and end with 0; a second one ends at once. SIGHUP and SIGUSR2 do
/// what `choirmaster proxy upgrade` does.
///
/// Calls of /NAME and everything below it go to service NAME of the table, which is put in force with
/// `choirmaster proxy apply` and kept on disk. Two processes run: one takes calls, the other one holds the sockets on
/// which they come and starts the first one again, so that none is refused meanwhile.
///
/// Connections of TCP, those of TLS that pass unopened, and flows of UDP are shared by the same table: a service says
/// `protocol: tcp`, `tls` or `udp`, and names its ports or, of TLS, its host names.
///
/// Every key of config/proxy.yml can also be set by a variable (limits.idle is CHOIRMASTER_PROXY_LIMITS_IDLE,
/// proxy.listen is CHOIRMASTER_PROXY_LISTEN) or by --set; flags win over variables, variables over the file.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    choirmaster proxy --listen 127.0.0.1:8000 --control /run/choirmaster/proxy.sock --state /var/lib/choirmaster/proxy\n  \
    choirmaster proxy apply table.yml\n  \
    choirmaster proxy status --json\n  \
    choirmaster proxy upgrade\n\n\
A table, as YAML or JSON:\n  \
    generation: 1\n  \
    services:\n    \
    - name: hello\n      \
      variations:\n        \
      - {name: base, targets: [\"127.0.0.1:9001\"]}\n        \
      - {name: new, targets: [\"127.0.0.1:9002\"]}\n      \
      shares: [9000, 1000]    # in 0.01 %"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Configuration file [default: config/proxy.yml, where there is one]
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_PROXY_CONFIG")]
    config: Option<PathBuf>,
    /// Address to take calls on (repeatable); port 0 takes a free one [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Address on which callers speak TLS, with HTTP/2 where they can (repeatable); beside --listen
    #[arg(long, value_name = "ADDR")]
    tls_listen: Vec<String>,
    /// The certificate that they are shown, in PEM, with those between it and one that they know; {host} in it and in its key stands for
    /// the host that a caller names
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Serve only callers of TLS who show a certificate that one of these signed
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// Address whose connections all go to the service of TCP that has its port (repeatable)
    #[arg(long, value_name = "ADDR")]
    tcp_listen: Vec<String>,
    /// Address on which TLS passes unopened to the service that the caller names (repeatable)
    #[arg(long, value_name = "ADDR")]
    tls_pass_through: Vec<String>,
    /// Address whose datagrams go to the service of UDP that has its port (repeatable)
    #[arg(long, value_name = "ADDR")]
    udp_listen: Vec<String>,
    /// Networks whose connections begin with a PROXY header, which says who the caller is (repeatable)
    #[arg(long, value_name = "NETWORK")]
    headers_from: Vec<String>,
    /// Address on which /metrics and /healthz are read (repeatable) [default: none]
    #[arg(long, value_name = "ADDR")]
    metrics: Vec<String>,
    /// The unix socket on which tables are taken [default: data/proxy.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
    /// Folder in which the table is kept [default: data/proxy]
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// Threads that take calls [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// trace, debug, info, warn, error, or per module: info,proxy=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// human or json [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Set any key of the configuration (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Be the process that takes calls; its supervisor starts it so
    #[arg(long, hide = true)]
    serving: bool,
    /// Lead a session of its own, so that it outlives who started it; an agent starts it so
    #[arg(long, hide = true)]
    own_session: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what serves, which versions have calls in flight, and which ones leave
    Status(Common),
    /// Show the table in force
    Table(Common),
    /// Put a table in force, which is kept on disk first
    #[command(after_help = "Example: choirmaster proxy apply table.yml")]
    Apply {
        /// The table, as YAML or JSON; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Have a process of the program that is on disk now take over; no call is lost
    Upgrade(Common),
    /// Take nothing more, let what there is end, and end
    Drain(Common),
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The control socket of the proxy
    #[arg(long, value_name = "PATH", env = "CHOIRMASTER_PROXY_CONTROL", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn client(&self) -> Client {
        Client::new(&self.control)
    }
}

impl Serve {
    fn flags(&self) -> Vec<Flag> {
        let list = |values: &[String]| (!values.is_empty()).then(|| values.join(","));
        let named = [
            ("--listen", "proxy.listen", list(&self.listen)),
            ("--tls-listen", "tls.listen", list(&self.tls_listen)),
            ("--tls-pass-through", "tls.pass_through", list(&self.tls_pass_through)),
            ("--tcp-listen", "tcp.listen", list(&self.tcp_listen)),
            ("--udp-listen", "udp.listen", list(&self.udp_listen)),
            ("--headers-from", "proxy_protocol.from", list(&self.headers_from)),
            ("--tls-certificate", "tls.certificate", self.tls_certificate.clone()),
            ("--tls-key", "tls.key", self.tls_key.clone()),
            ("--tls-client-ca", "tls.client_ca", self.tls_client_ca.clone()),
            ("--metrics", "proxy.metrics", list(&self.metrics)),
            ("--control", "proxy.control", self.control.clone()),
            ("--state", "proxy.state", self.state.clone()),
            ("--threads", "proxy.threads", self.threads.clone()),
            ("--log-level", "log.level", self.log_level.clone()),
            ("--log-format", "log.format", self.log_format.clone()),
        ];
        Flag::all(&self.set, named)
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Some(command) => ask(command, out).await,
        None => serve(&args.serve).await,
    }
}

async fn serve(args: &Serve) -> Result<u8, Failure> {
    let settings = Settings::load(args.config.as_deref(), std::env::vars(), &args.flags())
        .map_err(|error| Failure::user(error.to_string()))?;
    logging::start(&settings.log_level, settings.log_json);
    if args.serving {
        return take_calls(settings).await;
    }
    if args.own_session {
        // Who leads one already has what is wanted.
        let _ = rustix::process::setsid();
    }
    hold(settings).await
}

/// The process that holds the sockets.
async fn hold(settings: Settings) -> Result<u8, Failure> {
    let no_sockets =
        |error| Failure::ours(format!("the sockets that this process was started with: {error}"));
    let inherited = supervisor::inherited().map_err(no_sockets)?;
    // Looked up now: after an upgrade the name leads to the new program, and this process's own file has none.
    let program = std::env::current_exe()?;
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let said = Once::new();
    if supervisor::is_renewed() {
        // It was said before.
        said.call_once(|| ());
    }
    let again = (program.clone(), args.clone());
    if let Some(files) = settings.tls() {
        files.check().map_err(|fault| Failure::user(fault.to_string()))?;
    }
    if settings.takes_over {
        nftables::check_mark().map_err(|error| {
            Failure::user(format!(
                "takeover.nftables: this proxy may not mark its connections: {error}; give it the right to (CAP_NET_ADMIN), or \
                 leave takeover.nftables out"
            ))
        })?;
    }
    let plan = Plan {
        nft: settings.takes_over.then(|| settings.nft.clone()),
        listen: listens(&settings, !inherited.is_empty()),
        inherited,
        shares: settings.shares,
        control: settings.control,
        state: settings.state,
        command: Box::new(move || {
            let mut command = std::process::Command::new(&program);
            command.args(&args).arg("--serving");
            command
        }),
        again: Box::new(move || {
            let (program, args) = &again;
            let mut command = std::process::Command::new(program);
            command.args(args);
            command
        }),
        serving: Box::new(move |listens: &[Listen]| {
            let of_calls = listens.iter().filter(|listen| listen.kind != Kind::Metrics);
            let urls: Vec<String> = of_calls.map(ToString::to_string).collect();
            // Nobody may be there to read it, which is no reason to end.
            said.call_once(|| drop(writeln!(std::io::stdout(), "listening on {}", urls.join(", "))));
        }),
    };
    match supervisor::hold(plan).await {
        Ok(supervisor::SupervisorExit::Stopped) => Ok(0),
        Ok(supervisor::SupervisorExit::AtOnce) => Err(Failure::ours("ended before everything was drained")),
        // It has said why.
        Ok(supervisor::SupervisorExit::NeverServed(Some(code))) => {
            Err(Failure { code: u8::try_from(code).unwrap_or(super::failure::OURS), text: String::new() })
        }
        Ok(supervisor::SupervisorExit::NeverServed(None)) => {
            Err(Failure::ours("the process that was to take calls was killed before it did"))
        }
        Err(error) => Err(match &error {
            HoldError::NoAddress
            | HoldError::TooMany
            | HoldError::LongPath { .. }
            | HoldError::Running(_)
            | HoldError::Listen { .. }
            | HoldError::Control { .. }
            | HoldError::State { .. } => Failure::user(error.to_string()),
            HoldError::Take { .. } | HoldError::Io(_) => Failure::ours(error.to_string()),
        }),
    }
}

/// Where it is to be listened.
fn listens(settings: &Settings, is_given_sockets: bool) -> Vec<Listen> {
    let of_kind = |kind, addresses: &[SocketAddr]| -> Vec<Listen> {
        addresses.iter().map(|&address| Listen { kind, address }).collect()
    };
    // Whoever gives sockets means these, unless addresses were named beside them; but those that may be lent are no one's by themselves.
    let is_named = !is_given_sockets || settings.shares || settings.listen != Settings::default().listen;
    let plain = if is_named { of_kind(Kind::Plain, &settings.listen) } else { Vec::new() };
    let others = [
        of_kind(Kind::Tls, &settings.tls_listen),
        of_kind(Kind::PassThrough, &settings.pass_through),
        of_kind(Kind::Tcp, &settings.tcp_listen),
        of_kind(Kind::Udp, &settings.udp_listen),
        of_kind(Kind::Metrics, &settings.metrics),
    ];
    [plain, others.concat()].concat()
}

/// The process that takes calls.
async fn take_calls(settings: Settings) -> Result<u8, Failure> {
    raise_open_files();
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let link = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let settings = run::Settings {
        tls: settings.tls(),
        headers_from: settings.headers_from,
        control: settings.control,
        state: settings.state,
        threads: if settings.threads == 0 { cores() } else { settings.threads },
        limits: Limits { mark: settings.takes_over.then_some(nftables::MARK), ..settings.limits },
        measuring: settings.measuring,
        shares: settings.shares,
        stop_within: settings.stop_within,
        finish_within: settings.upgrade_within,
        program: env!("CARGO_PKG_VERSION"),
    };
    match run::serve(settings, link).await {
        Ok(run::ServeExit::Finished) => Ok(0),
        Ok(run::ServeExit::LeftBehind(count)) => {
            tracing::warn!(count, "connections were left when the time to drain was over");
            Ok(0)
        }
        Ok(run::ServeExit::AtOnce) => {
            tracing::warn!("ended before everything was drained");
            Ok(super::failure::OURS)
        }
        Err(error) => Err(match &error {
            run::RunError::State { .. } | run::RunError::Tls(_) | run::RunError::NoCertificate { .. } => {
                Failure::user(error.to_string())
            }
            run::RunError::Link(_)
            | run::RunError::Before { .. }
            | run::RunError::Table(_)
            | run::RunError::Io(_) => Failure::ours(error.to_string()),
        }),
    }
}

/// Each connection is an open file, and most systems allow few unless one asks for more.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

async fn ask(command: Command, out: &mut impl Write) -> Result<u8, Failure> {
    match command {
        Command::Status(common) => {
            let status: Status = common.client().get("/status").await?;
            show::status(out, &status, common.json)?;
        }
        Command::Table(common) => {
            let table: TableForm = common.client().get("/table").await?;
            show::table(out, &table, common.json)?;
        }
        Command::Apply { file, common } => {
            let table = read_table(&file)?;
            let body = serde_json::to_vec(&table).map_err(|error| Failure::ours(error.to_string()))?;
            let applied: Applied = common.client().put("/table", Bytes::from(body)).await?;
            show::applied(out, &applied, common.json)?;
        }
        Command::Upgrade(common) => {
            let client = common.client();
            let Upgrading { pid } = client.post("/upgrade").await?;
            let status = taken_over(&client, pid).await?;
            show::upgraded(out, pid, &status, common.json)?;
        }
        Command::Drain(common) => {
            let status: Status = common.client().post("/drain").await?;
            show::draining(out, &status, common.json)?;
        }
    }
    Ok(0)
}

/// Waits until another process than this one serves.
async fn taken_over(client: &Client, before: u32) -> Result<Status, Failure> {
    let waited = tokio::time::timeout(UPGRADE, async {
        loop {
            // In between nobody may answer for a moment.
            if let Ok(status) = client.get::<Status>("/status").await {
                if status.pid != before {
                    return Ok(status);
                }
                if let Some(why) = status.upgrade_failed {
                    return Err(Failure::ours(format!("process {before} goes on: {why}")));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    let late = || format!("no other process took over within {} seconds", UPGRADE.as_secs());
    waited.await.unwrap_or_else(|_| Err(Failure::ours(late())))
}

fn read_table(file: &std::path::Path) -> Result<TableForm, Failure> {
    let name = file.display();
    let unreadable = |error: std::io::Error| Failure::user(format!("{name} can't be read: {error}"));
    let source: Box<dyn std::io::Read> = if file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(unreadable)?)
    };
    let mut text = String::new();
    source.take(MAX_TABLE as u64 + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() > MAX_TABLE {
        return Err(Failure::user(format!("{name} has more than {MAX_TABLE} bytes")));
    }
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| Failure::user(format!("{name} holds no table: {error}")))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = match &error {
            ClientError::Unreachable { .. } => {
                format!("{error}\nName its control socket with --control, or start one: choirmaster proxy")
            }
            ClientError::Refused { refusal, .. } => match refusal.in_force {
                Some(table) => format!("{error}\nIn force: {}.{}", table.epoch, table.generation),
                None => error.to_string(),
            },
            ClientError::Broken(_) | ClientError::Late(_) => error.to_string(),
        };
        if error.is_the_callers() { Self::user(text) } else { Self::ours(text) }
    }
}
