//! `choirmaster status`: how the manager stands, on one screen.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use jiff::Timestamp;

use super::{
    client::{CallError, Client, Connection},
    failure::Failure,
    release::progress::part,
    show, terminal,
};
use protocol::api::{ManagerStatus, OpenReleases, ParentStatus, StatusItem, StoreStatus};

/// Exit code: something is urgent.
pub const URGENT: u8 = 3;

/// The severity of what is not urgent.
const WARNING: &str = "warning";

/// Items, and releases that go on, of a screen.
const MAX_SHOWN: usize = 10;

/// Columns before the text of an item.
const INDENT: usize = 10;

/// Most lines of an item.
const MAX_LINES: usize = 3;

/// Show how the manager stands: what somebody has to look at, the most urgent first, and the command that helps.
///
/// Urgent is what doesn't work (critical) or waits for somebody (action): a store that takes nothing, a parent that does not answer, releases
/// that are paused, want approval or have an unproven rollback, routers that differ or can't be read, agents that are silent. A cordoned or
/// drained child is not urgent. Warnings are shown and are not urgent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster status\n  \
                        choirmaster status > /dev/null || notify-somebody\n  \
                        choirmaster status --json | jq -r '.items[].help'\n\n\
                        Exit codes: 0 nothing is urgent, 3 something is; 1 the caller's fault, 2 no manager answers, or it failed")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let status: ManagerStatus =
        client.get(&["api", "v1", "status"], &[]).await.map_err(|error| unanswered(error, client.base()))?;
    if args.json {
        show::json(out, &status)?;
    } else {
        let stdout = io::stdout();
        let text = text(&status, client.base(), terminal::width(&stdout), Timestamp::now());
        write!(out, "{}", terminal::painted(&text, terminal::colours(&stdout)))?;
    }
    Ok(if status.items.iter().any(is_urgent) { URGENT } else { 0 })
}

/// Nobody answers at the address of a standby either.
fn unanswered(error: CallError, at: &str) -> Failure {
    let is_away = matches!(error, CallError::Unreachable { .. });
    let failure = Failure::from(error);
    if !is_away {
        return failure;
    }
    let text = format!("{}\nA manager that waits as a standby answers at {at} once it serves.", failure.text);
    Failure { text, ..failure }
}

fn is_urgent(item: &StatusItem) -> bool {
    item.severity != WARNING
}

/// The screen.
pub fn text(status: &ManagerStatus, at: &str, width: Option<usize>, now: Timestamp) -> String {
    let mut text = head(status, at, width, now);
    if !status.items.iter().any(is_urgent) {
        text.push_str("\nnothing is urgent\n");
    }
    if !status.items.is_empty() {
        text.push('\n');
    }
    for item in status.items.iter().take(MAX_SHOWN) {
        text.push_str(&item_text(item, width));
    }
    let more = status.items.len().saturating_sub(MAX_SHOWN) as u64 + u64::from(status.more_items);
    if more > 0 {
        let _ = writeln!(
            text,
            "… and {more} more: choirmaster status --json, choirmaster children list --silent-for 1m"
        );
    }
    if let Some(releases) = &status.releases {
        text.push_str(&running(releases, width, now));
    }
    text
}

/// A line for each part of the manager.
fn head(status: &ManagerStatus, at: &str, width: Option<usize>, now: Timestamp) -> String {
    let since = show::between(Some(&status.since), None, now);
    let state = match status.state.as_str() {
        "serving" => format!("serves for {since}"),
        "stopping" => "stops".to_owned(),
        _ => "does not serve".to_owned(),
    };
    let mut lines = vec![format!("choirmaster {} at {at} {state}", status.version)];
    let mut part = |name: &str, text: Option<String>| {
        lines.extend(text.map(|text| format!("  {name:<9} {text}")));
    };
    part("store", status.store.as_ref().map(store));
    part("parent", status.parent.as_ref().map(|above| parent(above, now)));
    let unknown = || Some("not known at the moment".to_owned());
    part("releases", status.releases.as_ref().map(releases).or_else(unknown));
    let routers = status.routers.as_ref().filter(|routers| routers.known != Some(0));
    part(
        "routers",
        routers.map(|routers| {
            let known = routers.known.map(|known| format!("{known} known, "));
            format!("{}{} to look at", known.unwrap_or_default(), routers.troubled)
        }),
    );
    let children = status.children.as_ref();
    part(
        "children",
        children.map(|all| format!("{} known, {} silent", all.known, all.silent)).or_else(unknown),
    );
    lines.into_iter().map(|line| within(&show::one_line(&line), width) + "\n").collect()
}

fn within(line: &str, width: Option<usize>) -> String {
    width.map_or_else(|| line.to_owned(), |width| show::cut(line, width))
}

fn store(store: &StoreStatus) -> String {
    let takes = if store.writable { "takes writes" } else { "takes no writes" };
    let disk = match (store.disk_free, store.disk_total) {
        (Some(free), Some(total)) => {
            format!("; {} of {} of its disk free", show::size(free), show::size(total))
        }
        _ => String::new(),
    };
    format!("{}, {takes}{disk}", store.kind)
}

fn parent(parent: &ParentStatus, now: Timestamp) -> String {
    let answers = match (parent.answers, &parent.last_answer) {
        (true, _) => "answers".to_owned(),
        (false, Some(last)) => format!("does not answer, last {}", show::ago(Some(last), now)),
        (false, None) => "does not answer, and has not yet".to_owned(),
    };
    let results = show::counted(parent.waiting_results, "result waits", "results wait");
    format!("{answers}; {results} for it")
}

fn releases(releases: &OpenReleases) -> String {
    let states: Vec<String> = releases.open.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if states.is_empty() { "all are over".to_owned() } else { states.join(", ") }
}

/// What somebody has to look at, and the command that helps.
fn item_text(item: &StatusItem, width: Option<usize>) -> String {
    let id = item.id.as_deref().map(|id| format!(" {}", show::short_id(id))).unwrap_or_default();
    let name = item.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    let said = show::short_ids(&show::one_line(&format!("{}{id}{name}: {}", item.about, item.text)));
    let lines = match width {
        Some(width) => show::wrapped(&said, width.saturating_sub(INDENT), MAX_LINES),
        None => vec![said],
    };
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let severity = if at == 0 { item.severity.to_uppercase() } else { String::new() };
        let _ = writeln!(text, "{:<INDENT$}{line}", show::one_line(&severity));
    }
    // A command is copied: it is never cut, and takes the id of a release whole.
    let help = show::one_line(&item.help);
    let help = if item.about == "release" { help } else { show::short_ids(&help) };
    let _ = writeln!(text, "{:INDENT$}→ {help}", "");
    text
}

/// Releases that need nobody; empty where there are none.
fn running(releases: &OpenReleases, width: Option<usize>, now: Timestamp) -> String {
    if releases.running.is_empty() {
        return String::new();
    }
    let rows = releases.running.iter().take(MAX_SHOWN).map(|line| {
        let release = &line.release;
        vec![
            release.id.clone(),
            release.state.clone(),
            part(line.progress),
            show::between(line.since.as_deref(), None, now),
            show::short_ids(release.waits_for.as_deref().unwrap_or_default()),
        ]
    });
    let table =
        show::table_within(width, &["RUNNING", "STATE", "PROGRESS", "FOR", "WAITS FOR"], rows.collect());
    let hidden = releases.running.len().saturating_sub(MAX_SHOWN) as u64 + u64::from(releases.more_running);
    let rest =
        if hidden > 0 { format!("… and {hidden} more: choirmaster release list\n") } else { String::new() };
    format!("\n{table}{rest}")
}
