//! `choirmaster canary …`: canaries of registered releases. `release submit` creates them, with their manifests.

mod list;
mod show;

use std::io::Write;

use clap::Subcommand;

use super::{
    failure::Failure,
    routing::form::{percent, range},
};
use protocol::canary_releases::CanaryRelease;

/// Look at canaries of registered releases.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(args) => list::run(&args, out).await,
        Command::Show(args) => show::run(&args, out).await,
    }
}

/// How much of the calls it is to get, and what its routers were read back to give it where that differs.
fn weight(canary: &CanaryRelease) -> String {
    let weight = percent(canary.status.weight);
    match canary.status.seen.map(range).filter(|seen| *seen != weight) {
        Some(seen) => format!("{weight}, gets {seen}"),
        None => weight,
    }
}
