//! The commands of the program, one file each: arguments, what they print, how they end.
//!
//! Results go to stdout, everything about their making to stderr. Exit codes: 0 done, 1 the caller's fault, 2 the
//! program's or the manager's; `release watch` and what takes `--wait` add how the release ended ([`outcome`]),
//! `analyse` its verdict, `status` whether something is urgent ([`status::URGENT`]).
//! What can be read from the manager is read through its API alone ([`client`]): no command but `serve`, `demo` and
//! `store` opens a store.

#![allow(clippy::doc_markdown, reason = "comments of arguments are the help that is read in a terminal")]

pub mod agent;
pub mod analyse;
pub mod audit;
pub mod canary;
pub mod children;
pub mod client;
pub mod completions;
pub mod confirm;
pub mod context;
#[cfg(feature = "manager")]
pub mod demo;
pub mod deployments;
pub mod failure;
#[cfg(feature = "manager")]
pub mod fleet;
pub mod guess;
pub mod init;
pub mod intent;
pub mod logging;
pub mod outcome;
pub mod plan;
pub mod printable;
pub mod proxy;
pub mod registry;
pub mod release;
mod required_calls;
pub mod routing;
pub mod schema;
#[cfg(feature = "manager")]
pub mod serve;
pub mod settings;
pub mod show;
mod signals;
pub mod source;
pub mod status;
#[cfg(feature = "manager")]
pub mod store;
pub mod tenant;
pub mod terminal;
#[cfg(feature = "manager")]
pub mod tree;
pub mod validate;
pub mod workflow;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::{
    failure::Failure,
    printable::{Passes, Printable},
};

/// What shows the most with the least to type.
const TRY_IT: &str = if cfg!(feature = "manager") { "Try it: choirmaster demo\n\n" } else { "" };

/// Release functions to children from the edge to the cloud, stage by stage, and take back what is bad.
#[derive(Debug, Parser)]
#[command(
    name = "choirmaster",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = format!(
        "{TRY_IT}Exit codes: 0 done, 1 the caller's fault, 2 the program's or the manager's;\n\
        release watch and release submit --wait also tell how the release ended, status whether\n\
        something is urgent."
    )
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[cfg(feature = "manager")]
    Serve(serve::Args),
    #[cfg(feature = "manager")]
    Demo(demo::Args),
    Init(init::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Plan(plan::Args),
    Analyse(Box<analyse::Args>),
    Status(status::Args),
    Release(release::Args),
    Canary(canary::Args),
    Children(children::Args),
    Deployments(deployments::Args),
    Router(routing::router::Args),
    Service(routing::service::Args),
    Traffic(routing::traffic::Args),
    Environment(registry::environment::Args),
    TargetGroup(registry::target_group::Args),
    Version(registry::version::Args),
    Workflow(workflow::Args),
    Intent(intent::Args),
    Audit(audit::Args),
    Tenant(tenant::Args),
    #[cfg(feature = "manager")]
    Store(store::StoreArgs),
    #[cfg(feature = "manager")]
    Fleet(Box<fleet::FleetArgs>),
    Proxy(Box<proxy::Args>),
    Agent(Box<agent::Args>),
    Context(context::Args),
    Completions(completions::Args),
}

impl Command {
    /// What it draws on a terminal, which takes control sequences.
    fn passes(&self) -> Passes {
        match self {
            Self::Release(args) => args.passes(),
            Self::Status(_) => Passes::Colours,
            #[cfg(feature = "manager")]
            Self::Demo(_) | Self::Fleet(_) => Passes::Drawings,
            #[cfg(feature = "manager")]
            Self::Serve(_) | Self::Store(_) => Passes::None,
            Self::Init(_)
            | Self::Validate(_)
            | Self::Schema(_)
            | Self::Plan(_)
            | Self::Analyse(_)
            | Self::Canary(_)
            | Self::Children(_)
            | Self::Deployments(_)
            | Self::Router(_)
            | Self::Service(_)
            | Self::Traffic(_)
            | Self::Environment(_)
            | Self::TargetGroup(_)
            | Self::Version(_)
            | Self::Workflow(_)
            | Self::Intent(_)
            | Self::Audit(_)
            | Self::Tenant(_)
            | Self::Proxy(_)
            | Self::Agent(_)
            | Self::Context(_)
            | Self::Completions(_) => Passes::None,
        }
    }
}

/// Reads the command line, runs the command and says how it ended.
///
/// No `async fn`: whoever awaits one compiles all of it again, here the whole program a second time.
pub fn main() -> ExitCode {
    // Who is started beside each version that runs takes nothing of what follows.
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, command, role, rest @ ..] = arguments.as_slice()
        && command == "agent"
    {
        if role == "shim" {
            return ::agent::runtime::process::shim::main(rest);
        }
        if role == "wasm-host" {
            return ::agent::runtime::wasm::main(rest);
        }
    }
    // TLS asks the process which cryptography it uses; a second answer (there is none) would be ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = guess::answered(error, &Cli::command(), &arguments);
            // Help and version come this way too, and go to stdout. A closed terminal is no reason to complain.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::ours(format!("no threads can be started: {error}")).report(),
    };
    match runtime.block_on(run(cli.command)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

async fn run(command: Command) -> Result<u8, Failure> {
    let mut out = Printable::stdout(command.passes());
    match command {
        #[cfg(feature = "manager")]
        Command::Serve(args) => serve::run(args).await,
        #[cfg(feature = "manager")]
        Command::Demo(args) => demo::run(&args, &mut out).await,
        Command::Init(args) => init::run(&args, &mut out),
        Command::Validate(args) => Ok(validate::run(&args, &mut out)),
        Command::Schema(args) => Ok(schema::run(&args, &mut out)),
        Command::Plan(args) => plan::run(&args, &mut out).await,
        Command::Analyse(args) => analyse::run(&args, &mut out),
        Command::Status(args) => status::run(&args, &mut out).await,
        Command::Release(args) => release::run(args, &mut out).await,
        Command::Canary(args) => canary::run(args, &mut out).await,
        Command::Children(args) => children::run(args, &mut out).await,
        Command::Deployments(args) => deployments::run(&args, &mut out).await,
        Command::Router(args) => routing::router::run(args, &mut out).await,
        Command::Service(args) => routing::service::run(args, &mut out).await,
        Command::Traffic(args) => routing::traffic::run(args, &mut out).await,
        Command::Environment(args) => registry::environment::run(args, &mut out).await,
        Command::TargetGroup(args) => registry::target_group::run(args, &mut out).await,
        Command::Version(args) => registry::version::run(args, &mut out).await,
        Command::Workflow(args) => workflow::run(args, &mut out).await,
        Command::Intent(args) => intent::run(&args, &mut out).await,
        Command::Audit(args) => audit::run(&args, &mut out).await,
        Command::Tenant(args) => tenant::run(args, &mut out).await,
        #[cfg(feature = "manager")]
        Command::Store(args) => Ok(store::run(args, &mut out).await),
        #[cfg(feature = "manager")]
        Command::Fleet(args) => fleet::run(&args, &mut out).await,
        Command::Proxy(args) => proxy::run(*args, &mut out).await,
        Command::Agent(args) => agent::run(*args, &mut out).await,
        Command::Context(args) => context::run(&args, &mut out),
        Command::Completions(args) => completions::run(&args, Cli::command(), &mut out),
    }
}
