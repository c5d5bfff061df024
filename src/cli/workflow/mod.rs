//! `choirmaster workflow …`: functions that are kept running on the machines of agents.

mod list;
mod move_function;
mod plan;
mod show;
mod start;
mod stop;
mod strategy;

use std::io::Write;

use clap::Subcommand;

use super::failure::Failure;

/// Keep the functions of a workflow running on machines that may run them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(start::Args),
    List(list::Args),
    Show(show::Args),
    Move(move_function::Args),
    Strategy(strategy::Args),
    Stop(stop::Args),
    Plan(plan::Args),
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::Start(args) => start::run(&args, out).await,
        Command::List(args) => list::run(&args, out).await,
        Command::Show(args) => show::run(&args, out).await,
        Command::Move(args) => move_function::run(&args, out).await,
        Command::Strategy(args) => strategy::run(&args, out).await,
        Command::Stop(args) => stop::run(&args, out).await,
        Command::Plan(args) => plan::run(&args, out).await,
    }
}
