//! `choirmaster canary list`.

use std::io::Write;

use jiff::Timestamp;

use super::weight;
use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show,
};
use protocol::canary_releases::CanaryRelease;

/// List canaries, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster canary list --release shop")]
pub struct Args {
    /// Only canaries of this registered release
    #[arg(long, value_name = "NAME")]
    release: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = client::most)]
    limit: usize,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let query: Vec<(&str, &str)> = args.release.iter().map(|name| ("release", name.as_str())).collect();
    let found = client.list(&["api", "v1", "canary-releases"], &query, args.limit).await?;
    show::list(out, &found, args.json, "no canaries", table)?;
    Ok(0)
}

fn table(canaries: &[CanaryRelease]) -> String {
    let now = Timestamp::now();
    let rows = canaries.iter().map(|canary| {
        vec![
            canary.metadata.name.clone(),
            canary.spec.release.clone(),
            canary.spec.version.to_string(),
            canary.status.phase.clone(),
            weight(canary),
            show::ago(Some(&canary.metadata.creation_timestamp), now),
        ]
    });
    show::table(&["NAME", "RELEASE", "VERSION", "PHASE", "WEIGHT", "CREATED"], rows)
}
