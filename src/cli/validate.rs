//! `choirmaster validate`: every fault of the named strategies.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    show::one_line,
    source::{Functions, Source, SourceSpec, Unfound},
};
use crate::strategies;
use canary_releases::Document;
use language::{
    Checked, Diagnostic, MAX_STRATEGY_BYTES, Severity, Site, Strategy, check_submission_at,
    functions::{missing_in_folder, missing_in_zip, without_form_in_folder, without_form_in_zip},
};

/// Check release strategies and report every fault with its place.
///
/// Of manifests of kind Release and CanaryRelease it reports the first field that can't be taken.
///
/// It is the check that `plan` and `submit` make, as far as it can be made without a manager. The functions are those
/// that lie beside the strategy; where none do, those in the working directory, and as the manager's may be others, what
/// is missing there is only a warning.
///
/// Ends with 0 if none has an error, with 1 if one has, with 2 if a file can't be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Strategy files, or folders that hold release.yml and fns.zip; - reads standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub wanted: SourceSpec,
    /// Folder of strategies that releases of services may name, as the manager's services.strategies; its faults are reported too
    #[arg(long, value_name = "DIR")]
    pub strategies: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ValidationReport {
    file: String,
    /// No errors; warnings are possible.
    valid: bool,
    /// Why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    diagnostics: Vec<Diagnostic>,
    /// What is no fault, and good to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl ValidationReport {
    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == severity).count()
    }
}

/// Exit code: 0 no errors, 1 errors, 2 a file that can't be read or an output that can't be written.
pub fn run(args: &Args, out: &mut impl Write) -> u8 {
    run_with(args, &mut io::stdin().lock(), out)
}

/// [`run`] with a standard input of the caller's choice.
pub fn run_with(args: &Args, input: &mut impl Read, out: &mut impl Write) -> u8 {
    let (site, faults) = site(args.strategies.as_deref());
    let reports: Vec<ValidationReport> = faults
        .into_iter()
        .chain(args.files.iter().map(|file| report(file, &args.wanted, &site, input)))
        .collect();
    let written = if args.json { json(&reports, out) } else { text(&reports, out) };
    if written.is_err() || reports.iter().any(|r| r.unreadable.is_some()) {
        2
    } else {
        u8::from(reports.iter().any(|r| !r.valid))
    }
}

/// What strategies may name, and a report of each file that can't be taken.
fn site(folder: Option<&Path>) -> (Site, Vec<ValidationReport>) {
    let found = folder.map(strategies::read).transpose();
    let unreadable = |one: strategies::Unread| ValidationReport {
        file: one.place,
        valid: false,
        unreadable: Some(one.message),
        diagnostics: Vec::new(),
        notes: Vec::new(),
    };
    match found {
        Ok(found) => (Site { strategies: found.unwrap_or_default(), ..Site::default() }, Vec::new()),
        Err(unread) => (Site::default(), unread.into_iter().map(unreadable).collect()),
    }
}

fn report(named: &str, wanted: &SourceSpec, site: &Site, input: &mut impl Read) -> ValidationReport {
    let unreadable = |file: &str, error: String| ValidationReport {
        file: file.to_owned(),
        valid: false,
        unreadable: Some(error),
        diagnostics: Vec::new(),
        notes: Vec::new(),
    };
    if named == "-" {
        return match limited(input) {
            Ok(text) => {
                let functions = wanted.functions.as_ref().map_or(Functions::OfManager, |path| {
                    if path.is_dir() { Functions::Folder(path.clone()) } else { Functions::Zip(path.clone()) }
                });
                checked(&Source { file: "<stdin>".to_owned(), text, functions }, site)
            }
            Err(error) => unreadable("<stdin>", error.to_string()),
        };
    }
    match Source::find(named, wanted) {
        Ok(source) => checked(&source, site),
        Err(Unfound::Unread { error, .. }) => unreadable(named, error.to_string()),
        Err(unfound) => unreadable(named, unfound.to_string()),
    }
}

fn checked(source: &Source, site: &Site) -> ValidationReport {
    if canary_releases::kind_of(&source.text).is_some() {
        return manifest(source);
    }
    let mut checked = check_submission_at(&source.text, site);
    checked.compare_start(Timestamp::now().as_millisecond());
    if let Some(strategy) = checked.strategy.clone() {
        let found = missing(source, &strategy, &checked);
        checked.add(found);
    }
    let valid = checked.strategy.is_some();
    let notes = checked.strategy.as_ref().map(notes).unwrap_or_default();
    ValidationReport {
        file: source.file.clone(),
        valid,
        unreadable: None,
        diagnostics: checked.diagnostics,
        notes,
    }
}

/// What can be seen of a manifest without what is registered.
fn manifest(source: &Source) -> ValidationReport {
    let (diagnostics, notes) = match canary_releases::read(&source.text) {
        Err(fault) => (vec![about_all(fault.to_string())], Vec::new()),
        Ok(Document::Release(_)) => (Vec::new(), Vec::new()),
        Ok(Document::Canary(canary)) => {
            let (release, version) = (&canary.spec.release, canary.spec.version);
            let note = format!(
                "whether release {release} is registered, and has version {version} and its service, and what becomes of a canary that is there \
                 already, is known to the manager alone: `choirmaster plan` asks it"
            );
            (Vec::new(), vec![note])
        }
    };
    let valid = diagnostics.is_empty();
    ValidationReport { file: source.file.clone(), valid, unreadable: None, diagnostics, notes }
}

/// A fault that is named by its field, wherever that stands.
fn about_all(message: String) -> Diagnostic {
    let (severity, code) = (Severity::Error, "invalid-field");
    Diagnostic { severity, code, line: 1, column: 1, message, source_line: String::new(), fix: None }
}

fn notes(strategy: &Strategy) -> Vec<String> {
    let once = strategy.all_reported_once().into_iter();
    let note = |(stage, note): (Option<&str>, String)| match stage {
        Some(stage) => format!("analysis of stage {stage}: {note}"),
        None => format!("analysis of the release: {note}"),
    };
    once.map(note).collect()
}

/// The folders of functions that are not where they are taken from.
fn missing(source: &Source, strategy: &Strategy, checked: &Checked) -> Vec<Diagnostic> {
    let (called, places) = (source.functions.name(), &checked.places);
    match &source.functions {
        Functions::Zip(path) => match std::fs::read(path) {
            Ok(zip) => {
                let mut found = missing_in_zip(&zip, &called, strategy, places);
                found.extend(without_form_in_zip(&zip, strategy, places));
                found
            }
            Err(_) => missing_in_folder(path, &called, Severity::Error, strategy, places),
        },
        Functions::Folder(path) => {
            let called = path.display().to_string();
            let mut found = missing_in_folder(path, &called, Severity::Error, strategy, places);
            found.extend(without_form_in_folder(path, strategy, places));
            found
        }
        Functions::None => Vec::new(),
        Functions::OfManager => {
            let here = Path::new(".");
            let some = language::functions::paths(strategy).any(|path| here.join(path).is_dir());
            let called = "the working directory, and may not be where the manager looks";
            if some {
                missing_in_folder(here, called, Severity::Warning, strategy, places)
            } else {
                Vec::new()
            }
        }
    }
}

/// Enough to see that it is too much.
fn limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_STRATEGY_BYTES as u64 + 4).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn json(reports: &[ValidationReport], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(reports)?)
}

fn text(reports: &[ValidationReport], out: &mut impl Write) -> io::Result<()> {
    for report in reports {
        for diagnostic in &report.diagnostics {
            writeln!(out, "{}\n", diagnostic.render(&report.file))?;
        }
        for note in &report.notes {
            writeln!(out, "{}: note: {}\n", report.file, one_line(note))?;
        }
        if let Some(error) = &report.unreadable {
            writeln!(out, "{}: can't be read: {error}\n", report.file)?;
        }
    }
    let sum = |severity| reports.iter().map(|r| r.count(severity)).sum::<usize>();
    let unreadable = reports.iter().filter(|r| r.unreadable.is_some()).count();
    write!(
        out,
        "{}, {}, {}",
        counted(reports.len(), "file"),
        counted(sum(Severity::Error), "error"),
        counted(sum(Severity::Warning), "warning")
    )?;
    if unreadable > 0 {
        write!(out, ", {unreadable} unreadable")?;
    }
    writeln!(out)
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
