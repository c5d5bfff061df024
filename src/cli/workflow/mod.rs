//! `choirmaster workflow …`: functions that are kept running on the machines of agents.

mod plan;

use std::io::Write;

use clap::Subcommand;

use super::failure::Failure;

/// Plan where the functions of a workflow would run.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::Plan(args) => plan::run(&args, out).await,
    }
}
