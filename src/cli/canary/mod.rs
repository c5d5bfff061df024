//! `choirmaster canary …`: canaries of registered releases. `release submit` creates them, with their manifests.

mod list;
mod show;

use std::io::Write;

use clap::Subcommand;

use super::{
    failure::Failure,
    routing::form::{percent, range},
};
use protocol::{api::ShareRange, canary_releases::CanaryRelease};

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

/// How much of the calls it is to get, and what its routers were read back to give it where that differs; of several parts, of each.
fn weight(canary: &CanaryRelease) -> String {
    let status = &canary.status;
    if status.parts.is_empty() {
        return gets(status.weight, status.seen);
    }
    let each = status.parts.iter().map(|part| format!("{} {}", part.name, gets(part.weight, part.seen)));
    each.collect::<Vec<_>>().join("; ")
}

fn gets(weight: f64, seen: Option<ShareRange>) -> String {
    let weight = percent(weight);
    match seen.map(range).filter(|seen| *seen != weight) {
        Some(seen) => format!("{weight}, gets {seen}"),
        None => weight,
    }
}
