//! `choirmaster target-group …`.

use std::io::Write;

use clap::Subcommand;

use super::{Gone, One, Registered, Registering, label, list, one, register, remove};
use crate::cli::{client::ListArgs, failure::Failure, show};
use protocol::ab_releases::{TargetGroup, TargetGroupSpec};

/// Say who runs variations, by names that A/B releases use.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the target groups
    List(ListArgs),
    /// Show a target group: its agents, or its addresses
    Show(One),
    /// Register a target group, or say anew what it is; refused while a release names it that is not over
    #[command(
        after_help = "Examples:\n  choirmaster target-group register blue --address 10.0.0.1:9101 --address 10.0.0.2:9101\n  \
                            choirmaster target-group register workers --label tier=batch"
    )]
    Register(New),
    /// Remove a target group that no unfinished release names; what was released to it goes on naming it
    Remove(Gone),
}

#[derive(Debug, clap::Args)]
struct New {
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    how: Registering,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Who {
    /// A label of its agents, all of which must be an agent's (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Where a variation runs (repeatable)
    #[arg(long, value_name = "HOST:PORT")]
    address: Vec<String>,
}

impl New {
    fn spec(&self) -> TargetGroupSpec {
        TargetGroupSpec {
            name: self.name.clone(),
            labels: self.who.label.iter().cloned().collect(),
            addresses: self.who.address.clone(),
        }
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(args) => list::<TargetGroup>(&args, out).await,
        Command::Show(which) => one::<TargetGroup>(&which, out).await,
        Command::Register(new) => register::<TargetGroup>(&new.spec(), &new.how, out).await,
        Command::Remove(gone) => remove::<TargetGroup>(&gone, out).await,
    }
}

impl Registered for TargetGroup {
    const LIST: &'static str = "target-groups";
    const NONE: &'static str = "no target groups are registered";
    const HEAD: &'static [&'static str] = &["NAME", "AGENTS", "ADDRESSES"];

    fn name(&self) -> &str {
        &self.spec.name
    }
    fn row(&self) -> Vec<String> {
        let TargetGroupSpec { name, labels: of, addresses } = &self.spec;
        vec![
            name.clone(),
            show::or_dash(Some(&show::labels(of, ", "))),
            show::or_dash(Some(&addresses.join(", "))),
        ]
    }
    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("agents", show::labels(&self.spec.labels, ", ")), ("addresses", self.spec.addresses.join(", "))]
    }
    fn entry(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.created_at, self.created_by.as_deref())
    }
}
