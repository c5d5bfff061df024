//! The commands of the program, one file each: arguments, what they print, how they end.
//!
//! Results go to stdout, everything about their making to stderr. Exit codes: 0 done, 1 the caller's fault, 2 the
//! program's or the manager's; `release watch` and `release submit --wait` add how the release ended ([`outcome`]),
//! `analyse` its verdict.
//! What can be read from the manager is read through its API alone ([`client`]): no command but `serve`, `demo` and
//! `store` opens a store.

#![allow(clippy::doc_markdown, reason = "comments of arguments are the help that is read in a terminal")]

pub mod analyse;
pub mod audit;
pub mod children;
pub mod client;
pub mod completions;
pub mod demo;
pub mod deployments;
pub mod failure;
pub mod fleet;
pub mod outcome;
pub mod plan;
mod printable;
pub mod release;
pub mod schema;
pub mod serve;
pub mod show;
pub mod source;
pub mod store;
mod takes;
mod terminal;
pub mod tree;
pub mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::{
    failure::Failure,
    printable::{Passes, Printable},
};

/// Release functions to children from the edge to the cloud, stage by stage, and take back what is bad.
#[derive(Debug, Parser)]
#[command(
    name = "choirmaster",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Try it: choirmaster demo\n\n\
                  Exit codes: 0 done, 1 the caller's fault, 2 the program's or the manager's;\n\
                  release watch and release submit --wait also tell how the release ended."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::Args),
    Demo(demo::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Plan(plan::Args),
    Analyse(analyse::Args),
    Release(release::Args),
    Children(children::Args),
    Deployments(deployments::Args),
    Audit(audit::Args),
    Store(store::StoreArgs),
    Fleet(Box<fleet::FleetArgs>),
    Completions(completions::Args),
}

impl Command {
    /// What it draws on a terminal, which takes control sequences.
    fn passes(&self) -> Passes {
        match self {
            Self::Release(args) => args.passes(),
            Self::Demo(_) | Self::Fleet(_) => Passes::Drawings,
            _ => Passes::None,
        }
    }
}

/// Reads the command line, runs the command and says how it ended.
pub async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, and go to stdout. A closed terminal is no reason to complain.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    match run(cli.command).await {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

async fn run(command: Command) -> Result<u8, Failure> {
    let mut out = Printable::stdout(command.passes());
    match command {
        Command::Serve(args) => serve::run(args).await,
        Command::Demo(args) => demo::run(&args, &mut out).await,
        Command::Validate(args) => Ok(validate::run(&args, &mut out)),
        Command::Schema(args) => Ok(schema::run(&args, &mut out)),
        Command::Plan(args) => plan::run(&args, &mut out).await,
        Command::Analyse(args) => analyse::run(&args, &mut out),
        Command::Release(args) => release::run(args, &mut out).await,
        Command::Children(args) => children::run(args, &mut out).await,
        Command::Deployments(args) => deployments::run(&args, &mut out).await,
        Command::Audit(args) => audit::run(&args, &mut out).await,
        Command::Store(args) => Ok(store::run(args, &mut out).await),
        Command::Fleet(args) => fleet::run(&args, &mut out).await,
        Command::Completions(args) => completions::run(&args, &mut out),
    }
}
