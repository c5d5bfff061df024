//! `choirmaster traffic …`.

use std::{collections::BTreeMap, io::Write};

use clap::Subcommand;

use super::form;
use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::{ReleaseTraffic, TrafficEntry};

/// Show who gets what: as wanted, as routers were seen to do, and as calls were counted.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show who gets what by a release, at each router, and how that came about
    Show {
        #[arg(value_name = "RELEASE")]
        release: String,
        /// Only this service
        #[arg(long, value_name = "SERVICE")]
        service: Option<String>,
        /// At most so many entries of the history
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = client::most)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Most entries of one call.
const MAX_ENTRIES: usize = 1_000;

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    let Command::Show { release, service, limit, json, connection } = args.command;
    let client = Client::new(&connection)?;
    let limit = limit.min(MAX_ENTRIES).to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(service.as_deref().map(|service| ("service", service)));
    let found: ReleaseTraffic = client.get(&["api", "v1", "releases", &release, "traffic"], &query).await?;
    if json {
        show::json(out, &found)?;
        return Ok(0);
    }
    if found.services.is_empty() {
        writeln!(out, "no router has a service from release {} now", show::one_line(&found.release))?;
    }
    for service in &found.services {
        writeln!(out, "{}", show::one_line(&service.service))?;
        write!(out, "{}", form::sums(&service.variations))?;
        write!(out, "{}", form::by_router(&service.routers))?;
    }
    if !found.history.is_empty() {
        write!(out, "{}{}", history(&found.history), show::rest(found.next.is_some()))?;
    }
    Ok(0)
}

fn shares(all: &BTreeMap<String, f64>) -> String {
    let shares: Vec<String> =
        all.iter().map(|(name, share)| format!("{name} {}", form::percent(*share))).collect();
    show::or_dash(Some(&shares.join(", ")))
}

fn history(entries: &[TrafficEntry]) -> String {
    let rows = entries.iter().map(|entry| {
        let what = entry
            .drift
            .as_ref()
            .map_or_else(|| show::or_dash(None), |drift| format!("drift, {}: {}", drift.then, drift.seen));
        vec![
            entry.timestamp.clone(),
            entry.router.clone(),
            show::or_dash(entry.service.as_deref()),
            format!("{}.{}", entry.epoch, entry.generation),
            shares(&entry.from),
            shares(&entry.to),
            shares(&entry.seen),
            entry.by.clone(),
            what,
        ]
    });
    show::table(&["TIME", "ROUTER", "SERVICE", "STATE", "FROM", "TO", "SEEN", "BY", "WHAT"], rows)
}
