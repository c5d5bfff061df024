//! `choirmaster release show`.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{progress, stage_progress};
use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show, terminal,
};
use protocol::api::{
    AgentCounts, AnalysisOverview, ExtendedOverview, ReleaseChild, ReleaseDetail, StageResult,
};

/// Show a release: its stages, its children, and what each of them waits for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster release show canary\n  \
                        choirmaster release show canary --outcome failed --results\n  \
                        choirmaster release show canary --strategy > canary.yml")]
pub struct Args {
    /// Id of the release
    #[arg(value_name = "RELEASE")]
    id: String,
    /// Only children with this status: Todo, Doing, Done, Failed, No
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only children with this outcome: succeeded, failed, timed_out, unreachable, lost, undone, untested, excluded
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only children whose current stage this is
    #[arg(long, value_name = "STAGE")]
    stage: Option<String>,
    /// Also what each child reported
    #[arg(long)]
    results: bool,
    /// At most so many children
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = client::most)]
    limit: usize,
    /// Print the strategy as it was submitted, and nothing else
    #[arg(long, conflicts_with = "json")]
    strategy: bool,
    /// Print the text that this child is handed now, or would be handed first, and nothing else
    #[arg(long, value_name = "CHILD", conflicts_with_all = ["json", "strategy"])]
    offer: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    if let Some(child) = &args.offer {
        let child = client.child_id(child).await?;
        let path = ["api", "v1", "releases", &args.id, "children", &child, "offer"];
        out.write_all(client.text(&path).await?.as_bytes())?;
        return Ok(0);
    }
    let path = ["api", "v1", "releases", &args.id];
    let detail: ReleaseDetail = client.get(&path, &[("below", "true"), ("measured", "true")]).await?;
    if args.strategy {
        out.write_all(detail.strategy.as_bytes())?;
        return Ok(0);
    }
    let mut query = Vec::new();
    query.extend(args.status.as_deref().map(|status| ("status", status)));
    query.extend(args.outcome.as_deref().map(|outcome| ("outcome", outcome)));
    query.extend(args.stage.as_deref().map(|stage| ("stage", stage)));
    let path = ["api", "v1", "releases", &args.id, "children"];
    let (children, more): (Vec<ReleaseChild>, bool) = client.list(&path, &query, args.limit).await?;
    if args.json {
        show::json(out, &json!({"release": detail, "children": children, "more_children": more}))?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let colours = terminal::colours(&io::stdout());
    write!(out, "{}", terminal::painted(&overview(&detail, now), colours))?;
    write_children(out, &children, args.results, now)?;
    if more {
        writeln!(out, "… and more children: raise --limit")?;
    }
    Ok(0)
}

/// The release without its children.
fn overview(detail: &ReleaseDetail, now: Timestamp) -> String {
    let release = &detail.release;
    let mut text = format!("{}  {}\n", release.id, show::one_line(&release.name));
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    };
    field("state", &progress::state_beside_waiting(release));
    if let Some(why) = &release.why {
        let line = |text: &Option<String>| show::one_line(text.as_deref().unwrap_or_default());
        field("why", &progress::first_failure(release).unwrap_or_default());
        field("cause", &why.cause);
        field("child", &line(&why.child));
        field("stage", &line(&why.stage));
        field("version", &line(&why.version));
        field("numbers", &line(&why.numbers));
        field("by", &line(&why.by));
        field("note", &line(&why.note));
    }
    field("waits for", &show::one_line(release.waits_for.as_deref().unwrap_or_default()));
    field("changes", &show::subjects(&release.functions, ", "));
    if release.attempt > 1 {
        field("attempt", &release.attempt.to_string());
    }
    field("tag", &release.tag);
    field("submitted", &show::ago(Some(&release.submitted), now));
    field("took", &show::between(release.started.as_deref(), release.ended.as_deref(), now));
    field("takes", &takes(detail));
    field("children", &release.counts.participants.to_string());
    field("outcomes", &progress::outcomes(&release.counts));
    if let Some(agents) = &release.agents {
        field("agents", &progress::agents(agents));
    }
    if release.unconfirmed > 0 {
        let count = show::counted(release.unconfirmed.into(), "agent has", "agents have");
        field("unproven", &format!("{count} not proven that the base version runs again"));
    }
    for (reason, count) in &detail.excluded {
        field("left out", &format!("{count}: {}", show::one_line(reason)));
    }
    let stages = detail.stages.iter().map(|stage| {
        let mut children: Vec<String> =
            stage.children.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let below = stage.agents_below.iter().map(|(status, count)| format!("{count} {status} below"));
        children.extend(below);
        children.extend(stage.skipped.then(|| "skipped".to_owned()));
        children.extend(stage.failed.then(|| "failed".to_owned()));
        vec![
            stage.name.clone(),
            stage.kind.clone(),
            show::subject(&stage.function),
            if stage.shares.is_empty() {
                format!("{} %", stage.new_traffic)
            } else {
                show::percents(&stage.shares)
            },
            children.join(", "),
        ]
    });
    text.push('\n');
    text.push_str(&show::table(&["STAGE", "TYPE", "CHANGES", "NEW", "CHILDREN"], stages));
    text.push_str(&measured(detail, now));
    text.push_str(&parts_below(detail));
    text.push_str(&analyses(&detail.analyses));
    text
}

/// How long one takes at least that isn't over, where that is long.
fn takes(detail: &ReleaseDetail) -> String {
    let is_over = detail.release.ended.is_some();
    progress::at_least(detail.least_ms).filter(|_| !is_over).unwrap_or_default()
}

/// How far its stages are and what was measured there; empty where nothing is known of that.
fn measured(detail: &ReleaseDetail, now: Timestamp) -> String {
    let lines: Vec<String> =
        detail.stages.iter().flat_map(|stage| stage_progress::lines(stage, now)).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// How the parts of managers below stand; empty if there are none.
fn parts_below(detail: &ReleaseDetail) -> String {
    if detail.below.is_empty() {
        return String::new();
    }
    let rows = detail.below.iter().map(|part| {
        let line = part.waits_for.as_deref().or(part.reason.as_deref());
        vec![
            part.manager.clone(),
            part.state.clone().unwrap_or_else(|| "not heard".to_owned()),
            part.agents.as_ref().map_or("-".to_owned(), progress::agents),
            show::one_line(line.unwrap_or_default()),
        ]
    });
    format!("\n{}", show::table(&["MANAGER BELOW", "STATE", "AGENTS", "WAITS FOR"], rows))
}

/// What judges a release, and what that has found; empty if nothing does.
fn analyses(analyses: &[AnalysisOverview]) -> String {
    let mut text = String::new();
    for analysis in analyses {
        let verdict =
            analysis.verdict.as_ref().map_or(String::new(), |verdict| format!(", verdict {verdict}"));
        let looks = show::counted(analysis.looks, "look", "looks");
        let run = if analysis.runs > 1 {
            format!(", run {} of {}", analysis.run, analysis.runs)
        } else {
            String::new()
        };
        let extended = analysis.extended.as_ref().map_or(String::new(), extended);
        let _ = writeln!(
            text,
            "\nanalysis of {}: {}{verdict}, {looks}{run}{extended}",
            analysis.of, analysis.state
        );
        if let Some(note) = &analysis.reporting {
            let _ = writeln!(text, "  {}", show::one_line(note));
        }
        for metric in &analysis.metrics {
            let dry = if metric.dry_run { ", without consequence" } else { "" };
            let verdict = metric.verdict.as_ref().map_or(String::new(), |verdict| format!(" {verdict}"));
            let found = if metric.found.is_empty() { "not looked at yet" } else { metric.found.as_str() };
            let (name, found) = (show::one_line(&metric.name), show::one_line(found));
            let _ = writeln!(text, "  {name} ({}{dry}){verdict}: {found}", metric.strategy);
            if let Some(numbers) = metric.evidence.as_ref().map(evidence) {
                let _ = writeln!(text, "    {numbers}");
            }
        }
    }
    text
}

/// ", goes on for 30m or 20000 more calls".
fn extended(extended: &ExtendedOverview) -> String {
    let begun = if extended.begun { "goes on" } else { "is to go on" };
    let lasts = show::lasted(i64::try_from(extended.for_ms / 1_000).unwrap_or(i64::MAX));
    let calls = extended.calls.map_or(String::new(), |calls| format!(" or {calls} more calls"));
    format!(", {begun} for {lasts}{calls}")
}

/// What a comparison rests on, in one line.
fn evidence(evidence: &Value) -> String {
    let number = |path: &str| evidence.pointer(path).and_then(Value::as_f64);
    let mut parts = Vec::new();
    for side in ["baseline", "canary"] {
        let mut part = format!("{side} {}", number(&format!("/{side}/count")).unwrap_or_default());
        for name in ["p50", "p95", "p99", "events"] {
            if let Some(value) = number(&format!("/{side}/{name}")) {
                let _ = write!(part, ", {name} {}", short(value));
            }
        }
        parts.push(part);
    }
    if let Some(estimate) = number("/effect/estimate") {
        let end = |path| number(path).map_or("open".to_owned(), short);
        let (low, high) = (end("/effect/low"), end("/effect/high"));
        parts.push(format!("estimate {} ({low} to {high})", short(estimate)));
    }
    for test in evidence["tests"].as_array().into_iter().flatten() {
        let of = |name: &str| test[name].as_f64().map_or("-".to_owned(), short);
        parts.push(format!("z {} of {}, p {}", of("z"), of("boundary"), of("p")));
    }
    let of = |path| number(path).map_or("-".to_owned(), short);
    parts.push(format!("alpha {} of {} spent", of("/alphaSpent"), of("/alpha")));
    parts.join("; ")
}

/// Four digits.
fn short(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let digits = (3.0 - value.abs().max(1e-3).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn write_children(
    out: &mut impl Write,
    children: &[ReleaseChild],
    results: bool,
    now: Timestamp,
) -> io::Result<()> {
    if children.is_empty() {
        return writeln!(out, "\nno children to show");
    }
    let rows = children.iter().map(|child| row(child, now));
    write!(out, "\n{}", show::table(&HEAD, rows))?;
    if results {
        for child in children.iter().filter(|child| !child.results.is_empty()) {
            writeln!(out, "\n{}", name(child))?;
            write!(
                out,
                "{}",
                show::table(
                    &["STAGE", "STATUS", "ATTEMPT", "AT", "NEW VERSION"],
                    child.results.iter().map(result)
                )
            )?;
        }
    }
    Ok(())
}

pub const HEAD: [&str; 6] = ["CHILD", "STATUS", "OUTCOME", "STAGE", "LAST CALL", "WAITS FOR"];

/// A child in a table under [`HEAD`].
pub fn row(child: &ReleaseChild, now: Timestamp) -> Vec<String> {
    vec![
        name(child),
        child.status.clone(),
        outcome(child),
        child.stage.as_ref().map_or("-".to_owned(), |stage| format!("{stage}: {}", child.stage_status)),
        show::ago(child.last_call.as_deref(), now),
        child.waits_for.clone(),
    ]
}

/// That of a manager with its agents: `failed, 12 of 100 agents succeeded`.
fn outcome(child: &ReleaseChild) -> String {
    let outcome = child.outcome.as_deref();
    match &child.agents {
        Some(agents)
            if outcome.is_some()
                || *agents != AgentCounts { participants: agents.participants, ..AgentCounts::default() } =>
        {
            let so_far = outcome.unwrap_or("so far");
            let all = show::counted(agents.participants.into(), "agent", "agents");
            format!("{so_far}, {} of {all}", agents.succeeded)
        }
        _ => show::or_dash(outcome),
    }
}

/// What it calls itself or else where it is, with as much of its id as commands need.
pub fn name(child: &ReleaseChild) -> String {
    let id = show::short_id(&child.child);
    match child.name.as_ref().or(child.place.as_ref()) {
        Some(name) => format!("{name} ({id})"),
        None => id.to_owned(),
    }
}

fn result(result: &StageResult) -> Vec<String> {
    let number = |path: &[&str]| {
        let value = path.iter().try_fold(&result.summary, |at, key| at.get(key));
        value.and_then(serde_json::Value::as_f64)
    };
    let time = |path: &[&str]| match number(path) {
        Some(ms) if ms >= 0.0 => format!("{ms:.1} ms"),
        _ => "no call".to_owned(),
    };
    let errors = number(&["f2_err_rate"])
        .map_or("errors unknown".to_owned(), |share| format!("{:.2} % errors", share * 100.0));
    let calls = number(&["f2_calls"]).map_or(String::new(), |calls| format!(" of {calls} calls"));
    let why = result.summary.pointer("/why/text").and_then(Value::as_str);
    let why = why.map_or(String::new(), |why| format!("; {}", show::one_line(why)));
    let preliminary = if result.preliminary { ", preliminary" } else { "" };
    let next = match result.summary.get("next_stage").and_then(Value::as_str) {
        None => String::new(),
        Some("") => "; it says that nothing follows, against its offer".to_owned(),
        Some(next) => format!("; it says that {} follows, against its offer", show::one_line(next)),
    };
    vec![
        result.stage.clone(),
        result.status.clone(),
        result.attempt.to_string(),
        result.at.clone(),
        format!("median {}, {errors}{calls}{preliminary}{why}{next}", time(&["f2_times_summary", "median"])),
    ]
}
