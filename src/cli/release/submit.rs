//! `choirmaster release submit`.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
};

use reqwest::{
    Method,
    header::CONTENT_TYPE,
    multipart::{Form as Multipart, Part},
};

use super::watch::{Form, follow};
use crate::{
    cli::{
        client::{CallError, Client, Connection, Noted},
        failure::Failure,
        outcome, show,
    },
    functions::{self, Limits},
    strategy::{self, MAX_STRATEGY_BYTES},
    wire::api::{Diagnostic, Submitted},
};

/// Submit a release.
///
/// Without --functions the manager takes the functions from the fns/ folder beside it. The same release twice is
/// one release.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    choirmaster release submit canary.yml --dry-run\n  \
    choirmaster release submit canary.yml --functions . --wait\n  \
    choirmaster release submit canary.yml --functions fns.zip --json\n\n{}", outcome::HELP))]
pub struct Args {
    /// The strategy; - reads standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// The functions: a zip, or the folder that contains fns/
    #[arg(long, value_name = "ZIP|DIR")]
    functions: Option<PathBuf>,
    /// Only say what would happen
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Follow the release to its end; the exit code tells how it ended
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: Noted,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let text = read_strategy(&args.file)?;
    let archive = args.functions.as_deref().map(|path| archive(path, &args.file, &text)).transpose()?;
    let submitted = match send(&client, args, text, archive).await {
        Ok(submitted) => submitted,
        Err(error) => return Err(refused(error, &args.file)),
    };
    for warning in &submitted.warnings {
        writeln!(std::io::stderr(), "{}\n", rendered(warning, &args.file))?;
    }
    if args.json {
        // One document a line where a stream of them follows.
        if args.wait {
            writeln!(out, "{}", serde_json::to_string(&submitted).map_err(std::io::Error::from)?)?;
        } else {
            show::json(out, &submitted)?;
        }
    } else {
        write!(out, "{}", text_of(&submitted))?;
    }
    if !args.wait {
        return Ok(0);
    }
    out.flush()?;
    follow(&client, &submitted.id, Form::choose(args.json, false), out).await
}

/// A refusal, with the faults of the strategy if it is for them.
pub(in crate::cli) fn refused(error: CallError, file: &str) -> Failure {
    if error.diagnostics().is_empty() {
        return error.into();
    }
    let faults: Vec<String> = error.diagnostics().iter().map(|fault| rendered(fault, file)).collect();
    Failure::user(format!("{error}\n\n{}", faults.join("\n\n")))
}

async fn send(
    client: &Client,
    args: &Args,
    text: Vec<u8>,
    archive: Option<Vec<u8>>,
) -> Result<Submitted, CallError> {
    let mut request = client.request(Method::POST, &["release"]);
    if args.dry_run {
        request = request.query(&[("dry_run", "true")]);
    }
    let noted = args.noted.body();
    let query = [("by", noted.by), ("note", noted.note)];
    for (name, value) in query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        request = request.query(&[(name, value)]);
    }
    let request = match archive {
        None => request.header(CONTENT_TYPE, "application/x-yaml").body(text),
        Some(archive) => request.multipart(
            Multipart::new()
                .part("strategy", Part::bytes(text).file_name("strategy.yml"))
                .part("functions", Part::bytes(archive).file_name("fns.zip")),
        ),
    };
    client.post(request).await
}

pub(in crate::cli) fn read_strategy(file: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let limit = MAX_STRATEGY_BYTES as u64 + 4;
    let read = if file == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::user(format!("{file} can't be read: {error}"))),
    }
}

/// The zip as it is, or one of the folders that the strategy names.
fn archive(path: &Path, file: &str, text: &[u8]) -> Result<Vec<u8>, Failure> {
    if !path.is_dir() {
        return std::fs::read(path)
            .map_err(|error| Failure::user(format!("{} can't be read: {error}", path.display())));
    }
    let checked = strategy::check_bytes(text);
    let Some(strategy) = checked.strategy else {
        let faults: Vec<String> = checked.diagnostics.iter().map(|fault| fault.render(file)).collect();
        return Err(Failure::user(format!("the strategy has faults\n\n{}", faults.join("\n\n"))));
    };
    let archive = functions::from_folder(path, &strategy, &Limits::default())
        .map_err(|error| Failure::user(format!("{error}; looked in {}", path.display())))?;
    Ok(archive.bytes.to_vec())
}

/// What became of a submission, for people.
fn text_of(submitted: &Submitted) -> String {
    let Submitted { id, created, dry_run, participants, excluded, waits_for, forwarded_to, .. } = submitted;
    let children = show::counted((*participants).into(), "child takes part", "children take part");
    let mut text = match (dry_run, created) {
        (true, true) => format!("{id} would be released: {children}\n"),
        (_, false) => format!("{id} is there already, with the same content: {children}\n"),
        (false, true) => format!("{id} is submitted: {children}\n"),
    };
    text.extend(excluded.iter().map(|(reason, count)| {
        let children = show::counted((*count).into(), "child does not", "children do not");
        format!("  {children}: {}\n", show::one_line(reason))
    }));
    if !waits_for.is_empty() {
        text.extend([format!("  it waits for {}\n", waits_for.join(", "))]);
    }
    let above = forwarded_to.as_ref().map(|to| show::one_line(to));
    if let Some(to) = &above {
        text.extend([format!(
            "  its target reaches beyond this manager: the one above took it over\n  ({to})\n"
        )]);
    }
    if !dry_run && *created {
        let at = above.map_or_else(String::new, |to| format!(" --url {to}"));
        text.extend([format!("  choirmaster release watch {id}{at} shows how it goes\n")]);
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
