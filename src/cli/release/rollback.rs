//! `choirmaster release rollback`.

use std::io::{self, BufRead as _, IsTerminal as _, Write};

use reqwest::Method;

use super::{
    submit::{outlook, release_id},
    watch::{OutputForm, follow},
};
use crate::cli::{
    client::{AuditNote, CallError, Client, Connection},
    failure::Failure,
    outcome,
    printable::{Passes, Printable},
    show,
};
use protocol::api::ReleaseRollback;

/// Put back what ran before a release that is over
///
/// That is done by a release of its own. It shows first what is put back, and asks. Each child goes back to the base version as soon as it has started it, whatever
/// the others do; --like has it go through the stages of the release instead. A release that is not over is ended with
/// `release abort`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    choirmaster release rollback canary                    shows what it would do, and asks\n  \
    choirmaster release rollback canary --yes --wait --note 'orders fail'\n  \
    choirmaster release rollback canary --like             with its stages, waves and approvals\n\n{}", outcome::HELP))]
pub struct Args {
    /// Id of the release
    #[arg(value_name = "RELEASE")]
    release: String,
    /// Id of the release that puts it back [default: RELEASE-rollback, or that with the next number that is free]
    #[arg(long, value_name = "NEW", value_parser = release_id)]
    id: Option<String>,
    /// Through the stages of the release, with its conditions, waves and approvals; its id may be said again
    #[arg(long, value_name = "RELEASE", num_args = 0..=1, default_missing_value = "")]
    like: Option<String>,
    /// Don't ask
    #[arg(long)]
    yes: bool,
    /// Only show what would be put back
    #[arg(long, conflicts_with_all = ["yes", "wait"])]
    dry_run: bool,
    /// Follow the release that puts it back to its end; the exit code tells how it ended
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let is_another = |like: &&String| !like.is_empty() && **like != args.release;
    if let Some(other) = args.like.as_ref().filter(is_another) {
        let release = &args.release;
        return Err(Failure::user(format!(
            "--like goes through the stages of {release}, and not of {other}"
        )));
    }
    if !args.yes {
        let plan = ask(&client, args, true).await?;
        let is_there = !plan.submitted.created;
        if args.dry_run || !is_there {
            print(args, &plan, out)?;
        }
        if args.dry_run {
            return Ok(0);
        }
        if !is_there && !agrees(args, out)? {
            return Err(Failure::user(format!("{} was not submitted", plan.submitted.id)));
        }
    }
    let made = ask(&client, args, false).await?;
    print(args, &made, out)?;
    if !args.wait {
        return Ok(0);
    }
    out.flush()?;
    follow(&client, &made.submitted.id, OutputForm::choose(args.json, false), &[], out).await
}

async fn ask(client: &Client, args: &Args, dry_run: bool) -> Result<ReleaseRollback, CallError> {
    let request = client.request(Method::POST, &["api", "v1", "releases", &args.release, "rollback"]);
    let request = request.query(&[("dry_run", dry_run), ("like", args.like.is_some())]);
    let new_id: Vec<(&str, &str)> = args.id.iter().map(|id| ("new_id", id.as_str())).collect();
    client.post(request.query(&new_id).json(&args.noted.body())).await
}

/// Whether whoever sits at the terminal wants it.
fn agrees(args: &Args, out: &mut impl Write) -> Result<bool, Failure> {
    let is_asked = !args.json && io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_asked {
        let why = "nothing was submitted: without a terminal nobody can be asked; add --yes";
        return Err(Failure::user(why));
    }
    out.flush()?;
    write!(Printable::stderr(Passes::None), "Submit it? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn print(args: &Args, rollback: &ReleaseRollback, out: &mut impl Write) -> Result<(), Failure> {
    if !args.json {
        return Ok(write!(out, "{}", text_of(rollback))?);
    }
    // One document a line where a stream of them follows.
    if args.wait {
        writeln!(out, "{}", serde_json::to_string(rollback).map_err(io::Error::from)?)?;
    } else {
        show::json(out, rollback)?;
    }
    Ok(())
}

fn text_of(rollback: &ReleaseRollback) -> String {
    let ReleaseRollback { submitted, rollback_of, puts_back, staged } = rollback;
    let id = &submitted.id;
    let children = show::counted(submitted.participants.into(), "child takes part", "children take part");
    let mut text = match (submitted.dry_run, submitted.created) {
        (_, false) => format!("{id} puts back already what ran before {rollback_of}: {children}\n"),
        (true, true) => format!("{id} would put back what ran before {rollback_of}: {children}\n"),
        (false, true) => {
            format!("{id} is submitted, and puts back what ran before {rollback_of}: {children}\n")
        }
    };
    text.extend(puts_back.iter().map(|one| {
        let (name, from, to) = (show::subject(&one.name), show::one_line(&one.from), show::one_line(&one.to));
        format!("  {}: {from} → {to}\n", show::one_line(&name))
    }));
    let how = if *staged { "through the stages of that release" } else { "at once, each child by itself" };
    text.extend([format!("  {how}\n"), outlook(submitted)]);
    text.extend(
        submitted.warnings.iter().map(|warning| format!("  warning: {}\n", show::one_line(&warning.message))),
    );
    if !submitted.dry_run {
        text.extend([format!("  choirmaster release watch {id} shows how it goes\n")]);
    }
    text
}
