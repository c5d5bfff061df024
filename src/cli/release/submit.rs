//! `choirmaster release submit`.

use std::io::Write;

use reqwest::{
    Method, RequestBuilder,
    header::CONTENT_TYPE,
    multipart::{Form as Multipart, Part},
};

use super::{
    progress,
    watch::{OutputForm, Until, follow},
};
use crate::cli::{
    client::{AuditNote, CallError, Client, Connection},
    failure::Failure,
    outcome,
    printable::{Passes, Printable},
    show,
    source::{self, Source, SourceSpec},
};
use model::ReleaseId;
use protocol::api::{Diagnostic, Submitted};

/// Submit a release.
///
/// Functions that lie beside the strategy are sent with it: fns.zip, or the folders that it names. If none do, the
/// manager takes those in the fns/ folder beside it. The same release twice is one release.
///
/// A manifest of kind Release is registered. One of kind CanaryRelease becomes a release; submitted again, it is adopted
/// or deprecated as its transition says.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    choirmaster release submit canary.yml --dry-run\n  \
    choirmaster release submit releases/22                 release.yml and fns.zip in there\n  \
    choirmaster release submit canary.yml --functions . --wait\n  \
    choirmaster release submit canary.yml --functions fns.zip --json\n  \
    choirmaster release submit canary.yml --again          once more, as canary-2\n  \
    choirmaster release submit checkout-2.yml              creates, adopts or deprecates a canary\n\n{}", outcome::HELP))]
pub struct Args {
    /// The strategy, or a folder that holds release.yml and fns.zip; - reads standard input
    #[arg(value_name = "FILE|DIR")]
    file: String,
    #[command(flatten)]
    wanted: SourceSpec,
    /// Submit it under this id, whatever id the file has
    #[arg(long, value_name = "NEW", value_parser = release_id)]
    id: Option<String>,
    /// Submit it once more, although its id is taken: as ID-2, or with the next number that is free
    #[arg(long, conflicts_with = "id")]
    again: bool,
    /// Don't start it until somebody resumes it
    #[arg(long, conflicts_with = "wait")]
    no_start: bool,
    /// Only say what would happen
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Follow the release; the exit code tells how it ended
    #[arg(long)]
    wait: bool,
    /// Follow it until it is paused, awaits an approval or ends, whichever comes first; several with commas between [default:
    /// end]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "wait")]
    until: Vec<Until>,
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
    let mut source = Source::find(&args.file, &args.wanted)?;
    if args.again {
        source = once_more(&client, source).await?;
    } else if let Some(id) = &args.id {
        source = source.with_id(id)?;
    }
    let archive = source.archive()?;
    let how = How { dry_run: args.dry_run, no_start: args.no_start, noted: &args.noted };
    let submitted = match send(&client, &source, archive, how).await {
        Ok(submitted) => submitted,
        Err(error) => return Err(refused(error, &source.file)),
    };
    for warning in &submitted.warnings {
        writeln!(Printable::stderr(Passes::None), "{}\n", rendered(warning, &source.file))?;
    }
    if args.json {
        // One document a line where a stream of them follows.
        if args.wait {
            writeln!(out, "{}", serde_json::to_string(&submitted).map_err(std::io::Error::from)?)?;
        } else {
            show::json(out, &submitted)?;
        }
    } else {
        write!(out, "{}", text_of(&submitted, &source, args.no_start))?;
    }
    if !args.wait || is_registration(&source) {
        return Ok(0);
    }
    out.flush()?;
    follow(&client, &submitted.id, OutputForm::choose(args.json, false), &args.until, out).await
}

/// An id that a release may have.
pub(super) fn release_id(text: &str) -> Result<String, String> {
    ReleaseId::parse(text).map(|id| id.to_string()).map_err(|error| error.to_string())
}

/// Most runs of one file that `--again` tells apart.
const MAX_RUNS: u32 = 1_000;

/// The same under an id that is free: its own, or that with the first number.
async fn once_more(client: &Client, source: Source) -> Result<Source, Failure> {
    let own = source.id()?;
    for number in 1..=MAX_RUNS {
        let id = if number == 1 { own.clone() } else { format!("{own}-{number}") };
        if !is_taken(client, &id).await? {
            return source.with_id(&id);
        }
    }
    Err(Failure::user(format!("{own} has run {MAX_RUNS} times: name an id of your own with --id NEW")))
}

async fn is_taken(client: &Client, id: &str) -> Result<bool, CallError> {
    match client.get::<serde_json::Value>(&["api", "v1", "releases", id], &[]).await {
        Ok(_) => Ok(true),
        Err(CallError::Refused(problem)) if problem.kind.ends_with("/unknown-release") => Ok(false),
        // It went up, under this id.
        Err(CallError::Refused(problem)) if problem.kind.ends_with("/forwarded") => Ok(true),
        Err(error) => Err(error),
    }
}

/// A refusal, with the faults of the strategy if it is for them.
pub(in crate::cli) fn refused(error: CallError, file: &str) -> Failure {
    if error.diagnostics().is_empty() {
        return error.into();
    }
    let faults: Vec<String> = error.diagnostics().iter().map(|fault| rendered(fault, file)).collect();
    Failure::user(format!("{error}\n\n{}", faults.join("\n\n")))
}

/// What is to become of a submission.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    pub dry_run: bool,
    pub no_start: bool,
    pub noted: &'a AuditNote,
}

pub(super) async fn send(
    client: &Client,
    source: &Source,
    archive: Option<Vec<u8>>,
    how: How<'_>,
) -> Result<Submitted, CallError> {
    let text = source.text.clone();
    let mut request = client.request(Method::POST, &["release"]);
    if how.dry_run {
        request = request.query(&[("dry_run", "true")]);
    }
    if how.no_start {
        request = request.query(&[("start", "false")]);
    }
    client.post(body(request.query(&how.noted.body()), text, archive)).await
}

/// A strategy as a body, with its functions if they are sent along.
pub(in crate::cli) fn body(
    request: RequestBuilder,
    text: Vec<u8>,
    archive: Option<Vec<u8>>,
) -> RequestBuilder {
    match archive {
        None => request.header(CONTENT_TYPE, "application/x-yaml").body(text),
        Some(archive) => request.multipart(
            Multipart::new()
                .part("strategy", Part::bytes(text).file_name("strategy.yml"))
                .part("functions", Part::bytes(archive).file_name("fns.zip")),
        ),
    }
}

/// Whether it is registered, and there is nothing to follow.
fn is_registration(source: &Source) -> bool {
    canary_releases::kind_of(&source.text) == Some("Release")
}

/// What became of a submission, for people.
fn text_of(submitted: &Submitted, source: &Source, no_start: bool) -> String {
    let Submitted { id, created, dry_run, participants, forwarded_to, least_ms, .. } = submitted;
    if let Some(changed) = &submitted.changed {
        let mark = if *dry_run { " (dry run)" } else { "" };
        let mut text = format!("{id}{mark}: {changed}\n");
        if !dry_run && !is_registration(source) {
            text.extend([format!("  choirmaster release watch {id} shows how it goes\n")]);
        }
        return text;
    }
    if is_registration(source) {
        return format!("{id} is registered already, with the same content\n");
    }
    let children = show::counted((*participants).into(), "child takes part", "children take part");
    let mut text = match (dry_run, created) {
        (true, true) => format!("{id} would be released: {children}\n"),
        (_, false) => format!("{id} is there already, with the same content: {children}\n"),
        (false, true) => format!("{id} is submitted: {children}\n"),
    };
    text.push_str(&outlook(submitted));
    if !created && canary_releases::kind_of(&source.text).is_none() {
        text.push_str("  --again submits it once more, under another id\n");
    }
    text.extend(progress::at_least(*least_ms).filter(|_| *created).map(|least| {
        format!("  it takes {least} for its stages, waves and soaks; calls and approvals come on top\n")
    }));
    let above = forwarded_to.as_ref().map(|to| show::one_line(to));
    if let Some(to) = &above {
        text.extend([format!(
            "  its target reaches beyond this manager: the one above took it over\n  ({to})\n"
        )]);
    }
    text.push_str(&source::line(&source.functions));
    if !dry_run && *created && no_start {
        text.extend([format!("  it is not started: choirmaster release resume {id}\n")]);
    }
    if !dry_run && *created {
        let at = above.map_or_else(String::new, |to| format!(" --url {to}"));
        text.extend([format!("  choirmaster release watch {id}{at} shows how it goes\n")]);
    }
    text
}

/// Who takes no part, and what it waits for; a line each.
pub(super) fn outlook(submitted: &Submitted) -> String {
    let mut text = String::new();
    text.extend(submitted.excluded.iter().map(|(reason, count)| {
        let children = show::counted((*count).into(), "child does not", "children do not");
        format!("  {children}: {}\n", show::one_line(reason))
    }));
    if !submitted.waits_for.is_empty() {
        text.extend([format!("  it waits for {}\n", submitted.waits_for.join(", "))]);
    }
    text
}

pub(in crate::cli) fn rendered(fault: &Diagnostic, file: &str) -> String {
    let Diagnostic { severity, line, column, message, source_line, fix, .. } = fault;
    let mut text = format!("{file}:{line}:{column}: {severity}: {message}");
    if !source_line.trim().is_empty() {
        text.extend([format!("\n {line} | {}", show::one_line(source_line))]);
    }
    text.extend(fix.iter().map(|fix| format!("\n  help: {fix}")));
    text
}
