//! `choirmaster release list`.

use std::io::{self, Write};

use jiff::Timestamp;

use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show, terminal,
};
use protocol::api::ReleaseLine;

/// List releases, newest first.
///
/// PROGRESS counts agents that have ended. On a terminal lines are cut to its width; release show has all of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster release list --state Running\n  \
                        choirmaster release list --function sieve --json | jq -r '.[].id'")]
pub struct Args {
    /// Only releases in this state, or in one of these, with commas between: Planned, Running, Paused, AwaitingApproval,
    /// RollingBack, Done, DoneWithFailures, DoneUntested, RolledBack, RolledBackUnproven, Aborted,
    /// NoParticipants
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only releases with this in their id or their name
    #[arg(long, value_name = "PART")]
    name: Option<String>,
    /// Only releases that change this function, or this service
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only releases whose target names this label: tier:edge
    #[arg(long, value_name = "KEY:VALUE")]
    label: Option<String>,
    /// Only releases whose target reaches here: LATITUDE,LONGITUDE or
    /// WEST,SOUTH,EAST,NORTH
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
    area: Option<String>,
    /// In which order: submitted (newest first), state, name, progress; with a -
    /// before it, the other way round
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    sort: Option<String>,
    /// The releases of a manager below: the ids or names that lead to it, with a / between
    #[arg(long, value_name = "MANAGERS")]
    below: Option<String>,
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
    let below = match &args.below {
        Some(below) => Some(client.managers(below).await?),
        None => None,
    };
    let mut query = Vec::new();
    let asked = [
        ("state", &args.state),
        ("name", &args.name),
        ("function", &args.function),
        ("label", &args.label),
        ("area", &args.area),
        ("sort", &args.sort),
    ];
    query.extend(asked.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))));
    query.extend(below.as_deref().map(|below| ("below", below)));
    let found = client.list(&["api", "v1", "releases"], &query, args.limit).await?;
    show::list(out, &found, args.json, "no releases", text)?;
    Ok(0)
}

fn text(releases: &[ReleaseLine]) -> String {
    let out = io::stdout();
    terminal::painted(&plain(releases, terminal::width(&out)), terminal::colours(&out))
}

/// Without reasons and what each waits for: `release show` has those.
fn plain(releases: &[ReleaseLine], width: Option<usize>) -> String {
    let now = Timestamp::now();
    let rows = releases.iter().map(|line| {
        let release = &line.release;
        vec![
            release.id.clone(),
            release.state.clone(),
            super::progress::part(line.progress),
            show::between(Some(&release.submitted), None, now),
            release.name.clone(),
        ]
    });
    show::table_within(width, &["ID", "STATE", "PROGRESS", "AGE", "NAME"], rows.collect())
}
