//! `choirmaster release import`: releases as the original release manager keeps them, a folder each.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::submit::{self, How, refused};
use crate::cli::{
    client::{AuditNote, Client, Connection},
    failure::{self, Failure},
    printable::{Passes, Printable},
    show,
    source::{Functions, Source, SourceSpec, Unfound, strategy_of},
};
use protocol::api::Submitted;

/// The folder of releases in a folder of the original.
const RELEASES: &str = "releases";

/// Take over releases from folders that hold release.yml and fns.zip, one release each.
///
/// Nothing is submitted without --submit: each is checked, and it is said what it would do. What is submitted is not
/// started: `choirmaster release resume ID` starts it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster release import ~/release-manager\n  \
    choirmaster release import releases --submit --only 22 --only 23\n  \
    choirmaster release import releases --functions .          for those that have no functions of their own\n\n\
    Exit codes: 0 all can be (or are) submitted, 1 some can't be, 2 the manager failed")]
pub struct Args {
    /// The folder that holds them, or that holds releases/
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Submit them, if all of them can be
    #[arg(long)]
    submit: bool,
    /// Only the releases in folders of this name
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    wanted: SourceSpec,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

/// What is to become, or became, of one folder.
#[derive(Debug, Serialize)]
struct ImportedFolder {
    folder: String,
    file: String,
    /// `None`: the strategy has faults.
    id: Option<String>,
    /// Where they come from; `None`: there are none.
    functions: Option<String>,
    /// As the manager answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Submitted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// It lacks them.
    #[serde(skip)]
    missing: bool,
    #[serde(skip)]
    source: Option<Source>,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let mut all: Vec<ImportedFolder> =
        folders(args)?.iter().map(|folder| found(folder, &args.wanted)).collect();
    let dry = How { dry_run: true, no_start: true, noted: &args.noted };
    for found in &mut all {
        ask(&client, found, dry).await?;
    }
    let can_all = all.iter().all(|found| found.error.is_none());
    if args.submit && can_all {
        for found in &mut all {
            ask(&client, found, How { dry_run: false, ..dry }).await?;
        }
    }
    for found in &all {
        if let Some(error) = &found.error {
            writeln!(Printable::stderr(Passes::None), "{}: {error}\n", found.file)?;
        }
    }
    if args.json {
        show::json(out, &all)?;
    } else {
        write!(out, "{}", text_of(&all, args.submit))?;
    }
    Ok(if all.iter().all(|found| found.error.is_none()) { 0 } else { failure::USER })
}

/// The folders that hold a release, as a person counts them: 2 before 11, numbers before names.
fn folders(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let inner = args.dir.join(RELEASES);
    let mut folders = Vec::new();
    // Beside its folders the original may have a strategy of its own, which is no release.
    for place in [&inner, &args.dir] {
        folders = releases_in(place).unwrap_or_default();
        if !folders.is_empty() {
            break;
        }
    }
    if folders.is_empty() {
        let why = match std::fs::read_dir(&args.dir) {
            Ok(_) => "holds no folder with a release.yml".to_owned(),
            Err(error) => format!("can't be read: {error}"),
        };
        return Err(Failure::user(format!("{} {why}", args.dir.display())));
    }
    let names: Vec<String> = folders.iter().map(|folder| name(folder)).collect();
    if let Some(unknown) = args.only.iter().find(|only| !names.contains(only)) {
        return Err(Failure::user(format!(
            "there is no release in {unknown}; there are {}",
            names.join(", ")
        )));
    }
    folders.retain(|folder| args.only.is_empty() || args.only.contains(&name(folder)));
    Ok(folders)
}

fn releases_in(place: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(place)?.collect::<Result<Vec<_>, _>>()?;
    let mut folders: Vec<PathBuf> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| strategy_of(path).is_some()).collect();
    folders.sort_by_key(|folder| {
        let name = name(folder);
        (name.parse::<u64>().unwrap_or(u64::MAX), name)
    });
    Ok(folders)
}

fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn found(folder: &Path, wanted: &SourceSpec) -> ImportedFolder {
    let file = strategy_of(folder).unwrap_or_else(|| folder.to_owned());
    let own = Source::find(&folder.display().to_string(), &SourceSpec::default());
    // What was named is for those that have none of their own.
    let source = match own {
        Err(_) if *wanted != SourceSpec::default() => Source::find(&file.display().to_string(), wanted),
        own => own,
    };
    let mut found = ImportedFolder {
        folder: name(folder),
        file: file.display().to_string(),
        id: None,
        functions: None,
        answer: None,
        error: None,
        missing: false,
        source: None,
    };
    match source {
        Ok(source) => {
            let strategy = language::check_bytes(&source.text).strategy;
            // Of one with faults it is not known what it needs.
            found.functions = strategy.as_ref().map(|_| match &source.functions {
                Functions::Zip(path) if path.parent() == Some(folder) => name(path),
                other => other.name(),
            });
            found.id = strategy.map(|strategy| strategy.id.to_string());
            found.source = Some(source);
        }
        Err(unfound) => {
            found.missing = matches!(unfound, Unfound::Missing { .. });
            found.error = Some(Failure::from(unfound).text);
        }
    }
    found
}

/// Asks the manager about one, or submits it. An error of the manager, or of the way to it, ends the import.
async fn ask(client: &Client, found: &mut ImportedFolder, how: How<'_>) -> Result<(), Failure> {
    let Some(source) = &found.source else { return Ok(()) };
    let archive = match source.archive() {
        Ok(archive) => archive,
        Err(failure) => {
            found.error = Some(failure.text);
            return Ok(());
        }
    };
    match submit::send(client, source, archive, how).await {
        Ok(submitted) => found.answer = Some(submitted),
        Err(error) => {
            let failure = refused(error, &source.file);
            if failure.code != failure::USER {
                return Err(failure);
            }
            found.error = Some(failure.text);
        }
    }
    Ok(())
}

fn text_of(all: &[ImportedFolder], submit: bool) -> String {
    let rows = all.iter().map(|found| {
        let none = if found.missing { "missing" } else { "-" };
        let functions = found.functions.clone().unwrap_or_else(|| none.to_owned());
        vec![found.folder.clone(), show::or_dash(found.id.as_deref()), functions, what(found)]
    });
    let mut text = show::table(&["FOLDER", "RELEASE", "FUNCTIONS", ""], rows);
    let missing: Vec<&str> =
        all.iter().filter(|found| found.missing).map(|found| found.folder.as_str()).collect();
    if !missing.is_empty() {
        text.extend([format!("\nwithout functions: {}\n", missing.join(", "))]);
    }
    let fine = all.iter().filter(|found| found.error.is_none()).count();
    let releases = show::counted(fine as u64, "release", "releases");
    text.push('\n');
    if fine < all.len() {
        let others = all.len() - fine;
        text.extend([format!(
            "{releases} can be submitted, {others} can not; {}mend that, or name some with --only\n",
            if submit { "nothing was submitted: " } else { "" }
        )]);
    } else if submit {
        text.extend([format!("{releases} submitted, none of them started: choirmaster release resume ID\n")]);
    } else {
        text.extend([format!("{releases} would be submitted, and not started; --submit does it\n")]);
    }
    text
}

/// What happens, or happened, to a release, in a line.
fn what(found: &ImportedFolder) -> String {
    let Some(answer) = found.answer.as_ref().filter(|_| found.error.is_none()) else {
        return "can't be submitted, see above".to_owned();
    };
    let children = show::counted(answer.participants.into(), "child takes part", "children take part");
    let mut line = match (answer.dry_run, answer.created) {
        (true, true) => format!("would be submitted: {children}"),
        (_, false) => "is there already, with the same content".to_owned(),
        (false, true) => format!("submitted: {children}"),
    };
    if found.id.as_ref().is_some_and(|id| *id != found.folder) {
        line.push_str("; the folder is called otherwise");
    }
    for warning in &answer.warnings {
        line.extend([format!("; line {}: {}", warning.line, warning.message)]);
    }
    line
}
