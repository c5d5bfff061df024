//! `choirmaster audit`: who did what, and what came of it.

use std::{io::Write, time::Duration};

use futures_util::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use super::{
    client::{self, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::AuditEntry;

/// Before a stream that broke off is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// No commit has an entry of this number.
const LAST_OF_COMMIT: u32 = 999_999_999;

/// Longest time back, in seconds: a hundred years.
const MAX_AGO_S: i64 = 100 * 366 * 86_400;

/// Longest event that is read, in bytes.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// Show the audit trail, oldest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster audit --release canary\n  \
                        choirmaster audit --since 2h\n  \
                        choirmaster audit --follow --json | jq .actor")]
pub struct Args {
    /// Only what concerns this release
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,
    /// Only what came after this entry
    #[arg(long, value_name = "SEQ-IDX")]
    after: Option<String>,
    /// Only what came since: so long ago (90s, 30m, 2h, 7d), or a time (2026-03-01T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "after")]
    since: Option<Since>,
    /// At most so many entries; what one call brought about is one, with a line for each event
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = client::most)]
    limit: usize,
    /// Then wait for what comes, until Ctrl-C; a restart of the manager is bridged
    #[arg(long)]
    follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let mut query = Vec::new();
    query.extend(args.release.as_deref().map(|release| ("release", release)));
    let found = match args.since {
        Some(since) => before(&client, args.release.as_deref(), since.time()).await?,
        None => None,
    };
    let after = args.after.clone().or(found);
    query.extend(after.as_deref().map(|after| ("after", after)));
    let limit = if args.follow { usize::MAX } else { args.limit };
    let (entries, more): (Vec<AuditEntry>, bool) =
        client.list(&["api", "v1", "audit"], &query, limit).await?;
    for entry in &entries {
        write_entry(entry, args.json, out)?;
    }
    if more && !args.json {
        writeln!(out, "… and more: choirmaster audit --after {}", entries.last().map_or("0-0", |e| &e.id))?;
    }
    if !args.follow {
        return Ok(0);
    }
    out.flush()?;
    let last = entries.last().map(|entry| entry.id.clone()).or(after);
    tokio::select! {
        ended = follow(&client, args, last, out) => ended,
        _ = tokio::signal::ctrl_c() => Ok(0),
    }
}

/// A time, or how long ago it was.
#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(SignedDuration),
    At(Timestamp),
}

impl Since {
    fn time(self) -> Timestamp {
        match self {
            Self::Ago(ago) => Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::MIN),
            Self::At(time) => time,
        }
    }
}

fn since(text: &str) -> Result<Since, String> {
    let wrong = || "it looks like 90s, 30m, 2h, 7d or 2026-03-01T12:00:00Z".to_owned();
    if let Ok(time) = text.parse() {
        return Ok(Since::At(time));
    }
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let seconds = number.checked_mul(seconds).filter(|seconds| (0..=MAX_AGO_S).contains(seconds));
    seconds.map(|seconds| Since::Ago(SignedDuration::from_secs(seconds))).ok_or_else(wrong)
}

/// The entry after which the trail is not older than a time; `None`: all of it is not. Entries are in the order of time, so
/// this halves the trail with each question instead of reading it.
async fn before(client: &Client, release: Option<&str>, time: Timestamp) -> Result<Option<String>, Failure> {
    let is_older = async |after: Option<u64>| {
        let after = after.map(|seq| format!("{seq}-{LAST_OF_COMMIT}"));
        let mut query: Vec<(&str, &str)> = release.map(|release| ("release", release)).into_iter().collect();
        query.extend(after.as_deref().map(|after| ("after", after)));
        let (entries, _): (Vec<AuditEntry>, bool) = client.list(&["api", "v1", "audit"], &query, 1).await?;
        let first = entries.first().and_then(|entry| entry.at.parse::<Timestamp>().ok());
        Ok::<_, Failure>(first.is_some_and(|at| at < time))
    };
    if !is_older(None).await? {
        return Ok(None);
    }
    // The first entry after commit `low` is too old, that after commit `high` is not, or is none.
    let (mut low, mut high) = (0, 1);
    while is_older(Some(high)).await? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_older(Some(middle)).await? { low = middle } else { high = middle }
    }
    Ok(Some(format!("{high}-{LAST_OF_COMMIT}")))
}

/// Reads the stream of events, and opens it again where it left off whenever it ends.
async fn follow(
    client: &Client,
    args: &Args,
    last: Option<String>,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    // From the very beginning, if nothing was there to read.
    let mut last = last.unwrap_or_else(|| "0-0".to_owned());
    loop {
        match client.events(args.release.as_deref(), Some(&last)).await {
            Ok(answer) => {
                let mut chunks = answer.bytes_stream();
                let mut events = Events::default();
                while let Some(Ok(chunk)) = chunks.next().await {
                    for data in events.push(&chunk) {
                        let Ok(entry) = serde_json::from_slice::<AuditEntry>(&data) else { continue };
                        write_entry(&entry, args.json, out)?;
                        last = entry.id;
                    }
                    out.flush()?;
                }
            }
            Err(error) if error.is_passing() => {}
            Err(error) => return Err(error.into()),
        }
        sleep(REOPEN_AFTER).await;
    }
}

/// Takes server-sent events apart; only their data is of interest, as it holds the id too.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl Events {
    /// The data of the events that this piece of the stream completes.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for byte in chunk {
            if *byte != b'\n' {
                if self.line.len() < MAX_EVENT_BYTES {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                whole.push(std::mem::take(&mut self.data));
            }
        }
        whole
    }
}

fn write_entry(entry: &AuditEntry, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string(entry).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    for event in &entry.events {
        let release = entry.release.as_deref().unwrap_or("-");
        writeln!(out, "{} {} {release} {}", entry.at, entry.actor, words(event))?;
    }
    Ok(())
}

/// Fields that say again what stands elsewhere in the line, or that only a program can use.
const NOT_SHOWN: [&str; 4] = ["event", "release", "step", "digest"];

/// An event as its name and its values.
fn words(event: &serde_json::Value) -> String {
    let Some(fields) = event.as_object() else { return show::one_line(&event.to_string()) };
    // What a child did is called by the step it took.
    let name = fields.get("step").or_else(|| fields.get("event")).and_then(serde_json::Value::as_str);
    let rest = fields.iter().filter(|(key, value)| !NOT_SHOWN.contains(&key.as_str()) && !value.is_null());
    let words: Vec<String> = rest
        .map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{key}={}", show::one_line(&value))
        })
        .collect();
    format!("{} {}", name.unwrap_or("event"), words.join(" ")).trim_end().to_owned()
}
