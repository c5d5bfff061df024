//! `choirmaster validate`: every fault of the named strategies.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use serde::Serialize;

use crate::strategy::{Diagnostic, MAX_STRATEGY_BYTES, Severity, check_bytes};

/// Check release strategies and report every fault with its place.
///
/// Ends with 0 if none has an error, with 1 if one has, with 2 if a file can't be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Strategy files; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    /// No errors; warnings are possible.
    valid: bool,
    /// Why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Report {
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
    let reports: Vec<Report> = args.files.iter().map(|file| report(file, input)).collect();
    let written = if args.json { json(&reports, out) } else { text(&reports, out) };
    if written.is_err() || reports.iter().any(|r| r.unreadable.is_some()) {
        2
    } else {
        u8::from(reports.iter().any(|r| !r.valid))
    }
}

fn report(file: &str, input: &mut impl Read) -> Report {
    let read = if file == "-" { limited(input) } else { File::open(file).and_then(limited) };
    let file = if file == "-" { "<stdin>" } else { file }.to_owned();
    match read {
        Ok(bytes) => {
            let checked = check_bytes(&bytes);
            let valid = checked.strategy.is_some();
            Report { file, valid, unreadable: None, diagnostics: checked.diagnostics }
        }
        Err(error) => {
            Report { file, valid: false, unreadable: Some(error.to_string()), diagnostics: Vec::new() }
        }
    }
}

/// Enough to see that it is too much.
fn limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_STRATEGY_BYTES as u64 + 4).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn json(reports: &[Report], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(reports)?)
}

fn text(reports: &[Report], out: &mut impl Write) -> io::Result<()> {
    for report in reports {
        for diagnostic in &report.diagnostics {
            writeln!(out, "{}\n", diagnostic.render(&report.file))?;
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
