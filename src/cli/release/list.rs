//! `choirmaster release list`.

use std::io::Write;

use jiff::Timestamp;

use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show, terminal,
};
use wire::api::Release;

/// List releases, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster release list --state Running\n  \
                        choirmaster release list --function sieve --json | jq -r '.[].id'")]
pub struct Args {
    /// Only releases in this state: Planned, Running, Paused, AwaitingApproval,
    /// RollingBack, Done, DoneWithFailures, DoneUntested, RolledBack, RolledBackUnproven, Aborted,
    /// NoParticipants
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only releases that change this function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
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
    let mut query = Vec::new();
    query.extend(args.state.as_deref().map(|state| ("state", state)));
    query.extend(args.function.as_deref().map(|function| ("function", function)));
    let found = client.list(&["api", "v1", "releases"], &query, args.limit).await?;
    show::list(out, &found, args.json, "no releases", text)?;
    Ok(0)
}

fn text(releases: &[Release]) -> String {
    terminal::painted(&plain(releases), terminal::colours(&std::io::stdout()))
}

fn plain(releases: &[Release]) -> String {
    let now = Timestamp::now();
    let rows = releases.iter().map(|release| {
        let counts = &release.counts;
        vec![
            release.id.clone(),
            super::progress::state(release),
            format!("{}/{}", counts.done + counts.failed_status, counts.participants),
            counts.succeeded.to_string(),
            show::subjects(&release.functions, ","),
            show::ago(Some(&release.submitted), now),
            show::between(release.started.as_deref(), release.ended.as_deref(), now),
            release.name.clone(),
        ]
    });
    show::table(&["ID", "STATE", "OVER", "SUCCEEDED", "CHANGES", "SUBMITTED", "TOOK", "NAME"], rows)
}
