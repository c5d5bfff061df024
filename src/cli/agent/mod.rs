//! `choirmaster agent`: the agent itself, and what is asked of one that runs.

mod ask;
mod place;
mod router;
mod runtimes;
pub mod settings;
pub mod show;
mod stop;

use std::{io::Write, path::PathBuf, time::Duration};

use agent::control::{client::Client, form::Status};
use clap::Subcommand;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::settings::Settings;
pub(super) use self::{ask::failed as failed_logs, settings::DEFAULT_CONTROL};
use super::{
    failure::Failure,
    logging,
    settings::{Configured as _, Flag, assignment},
    signals::Signals,
};

/// How often it is looked whether the agent answers already.
const LOOK: Duration = Duration::from_millis(20);

/// Run functions beside a node, take releases from a manager, and take back what is bad.
///
/// Prints one line on stdout once it answers: `agent on SOCKET, manager URL`. Logs go to stderr. SIGTERM and SIGINT end it
/// with 0; a second one ends it at once. Functions and proxy go on serving without it (unless agent.stop says otherwise), and
/// so does what it has in hand once it is started again.
///
/// It runs the versions of functions as processes, has the proxy beside it share the calls among them, judges the new one
/// by itself, and takes it back within a second, whether or not its manager can be reached. Where no proxy answers, it starts one
/// that stays.
///
/// Every key of config/agent.yml can also be set by a variable (limits.memory is CHOIRMASTER_AGENT_LIMITS_MEMORY,
/// agent.name is CHOIRMASTER_AGENT_NAME) or by --set; flags win over variables, variables over the file.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    choirmaster agent --manager https://choir.example.org --at 52.52,13.405\n  \
    choirmaster agent functions add sieve fns/sieve_base    # serves it, at /sieve of the proxy\n  \
    choirmaster agent status\n  \
    choirmaster agent rollback sieve --why 'customers complain'\n  \
    choirmaster agent logs sieve --new\n  \
    choirmaster agent stop --all                            # ends it, its proxy and its functions"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Configuration file [default: config/agent.yml, where there is one]
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// Address of the manager [default: http://127.0.0.1:9991]
    #[arg(long, value_name = "URL")]
    manager: Option<String>,
    /// What the manager shows it as
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where it is, as latitude and longitude in degrees; its area is a square of 0.01 degrees around that
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    at: Option<String>,
    /// Where it is, as GeoJSON
    #[arg(long, value_name = "FILE", conflicts_with = "at")]
    area: Option<String>,
    /// A label of it (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Folder in which it keeps what has to last [default: data/agent]
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// The unix socket on which it is asked [default: data/agent.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
    /// The control socket of the proxy beside it [default: data/proxy.sock]
    #[arg(long, value_name = "PATH")]
    proxy: Option<String>,
    /// Where a proxy that it has to start takes calls (repeatable) [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// File with what lets it in the first time
    #[arg(long, value_name = "FILE")]
    join_token: Option<String>,
    /// File with the token that it shows
    #[arg(long, value_name = "FILE")]
    token: Option<String>,
    /// PEM of the authorities of the manager's certificate [default: those that the public trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
    /// PEM of its own certificate
    #[arg(long, value_name = "FILE")]
    certificate: Option<String>,
    /// PEM of the certificate's key
    #[arg(long, value_name = "FILE")]
    key: Option<String>,
    /// Address of /metrics and /healthz, besides the control socket
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// trace, debug, info, warn, error, or per module: info,agent=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// human or json [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Set any key of the configuration (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(ask::Common),
    #[command(visible_alias = "undo")]
    Rollback(ask::Rollback),
    #[command(subcommand)]
    Functions(ask::Functions),
    Logs(ask::Logs),
    Stop(stop::Stop),
}

impl Serve {
    fn flags(&self) -> Vec<Flag> {
        let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
        let named = [
            ("--manager", "manager.url", self.manager.clone()),
            ("--name", "agent.name", self.name.clone()),
            ("--at", "agent.at", self.at.clone()),
            ("--area", "agent.area_file", self.area.clone()),
            ("--label", "agent.labels", list(&self.label)),
            ("--state", "agent.state", self.state.clone()),
            ("--control", "agent.control", self.control.clone()),
            ("--proxy", "proxy.control", self.proxy.clone()),
            ("--listen", "proxy.listen", list(&self.listen)),
            ("--join-token", "manager.join_token_file", self.join_token.clone()),
            ("--token", "manager.token_file", self.token.clone()),
            ("--ca", "manager.ca", self.ca.clone()),
            ("--certificate", "manager.certificate", self.certificate.clone()),
            ("--key", "manager.key", self.key.clone()),
            ("--metrics", "agent.metrics", self.metrics.clone()),
            ("--log-level", "log.level", self.log_level.clone()),
            ("--log-format", "log.format", self.log_format.clone()),
        ];
        Flag::all(&self.set, named)
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        None => serve(&args.serve).await,
        Some(Command::Status(common)) => ask::status(&common, out).await,
        Some(Command::Rollback(rollback)) => ask::rollback(&rollback, out).await,
        Some(Command::Functions(functions)) => ask::functions(&functions, out).await,
        Some(Command::Logs(logs)) => ask::logs(&logs, out).await,
        Some(Command::Stop(args)) => stop::run(&args, out).await,
    }
}

async fn serve(args: &Serve) -> Result<u8, Failure> {
    let settings = Settings::load(args.config.as_deref(), std::env::vars(), &args.flags())
        .map_err(|error| Failure::user(error.to_string()))?;
    logging::start(&settings.log_level, settings.log_json);
    if settings.takeover.nftables {
        ::proxy::nftables::check_mark().map_err(|error| {
            Failure::user(format!(
                "takeover.nftables: this agent may not mark its connections: {error}; give it the right to (CAP_NET_ADMIN), or leave \
                 takeover.nftables out"
            ))
        })?;
    }
    let mut signals = Signals::new().map_err(|error| Failure::ours(format!("no signals: {error}")))?;
    // Looked up now: after an upgrade the name leads to the new program, and this process's own file has none.
    let settings = settings.into_agent(std::env::current_exe()?);
    let line = format!("agent on {}, manager {}", settings.control.display(), settings.manager.url);
    let said = tokio::spawn(say_once_it_answers(Client::new(&settings.control), line));
    let stop = CancellationToken::new();
    let mut running = agent::run(settings, stop.clone().cancelled_owned());
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = signals.next() => {
            tracing::info!("ends; a second signal ends it at once");
            stop.cancel();
            tokio::select! {
                ended = running => ended,
                () = signals.next() => return Err(Failure::ours("ended at once")),
            }
        }
    };
    said.abort();
    ended.map(|()| 0).map_err(|error| Failure::user(error.to_string()))
}

async fn say_once_it_answers(client: Client, line: String) {
    while client.get::<Status>("/status").await.is_err() {
        sleep(LOOK).await;
    }
    // Nobody may be there to read it, which is no reason to end.
    let _ = writeln!(std::io::stdout(), "{line}");
}
