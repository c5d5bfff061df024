//! `choirmaster analyse import`: analyses that were written for another tool, in today's language.

use std::{
    fs,
    io::{self, Read, Write},
    path::PathBuf,
};

use serde::Serialize;

use crate::cli::{
    failure::Failure,
    printable::{Passes, Printable},
    show,
};
use language::import::{self, MAX_IMPORT_BYTES};

/// Translate the ANALYSIS stages of a pipeline, or an AnalysisTemplate, into the blocks that belong into a strategy.
///
/// What can't be taken over is named, and what the blocks still lack.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster analyse import app.pipecd.yaml\n  \
    choirmaster analyse import .pipe/template.yaml > analysis-templates/shared.yml")]
pub struct Args {
    /// YAML, of one document or several; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ImportedPart<'a> {
    place: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct ImportReport<'a> {
    parts: Vec<ImportedPart<'a>>,
    dropped: &'a [String],
    open: &'a [String],
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let name =
        if args.file.as_os_str() == "-" { "<stdin>".to_owned() } else { args.file.display().to_string() };
    let mut bytes = Vec::new();
    let most = MAX_IMPORT_BYTES as u64 + 1;
    let read = if args.file.as_os_str() == "-" {
        io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        fs::File::open(&args.file).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::user(format!("{name} can't be read: {error}")))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::user(format!("{name} is no UTF-8 text")))?;
    let imported = import::import(text).map_err(|why| Failure::user(format!("{name}: {why}")))?;
    if args.json {
        let parts =
            imported.parts.iter().map(|part| ImportedPart { place: &part.place, text: &part.text }).collect();
        show::json(out, &ImportReport { parts, dropped: &imported.dropped, open: &imported.open })?;
        return Ok(0);
    }
    for part in &imported.parts {
        writeln!(out, "# {}\n{}", part.place, part.text)?;
    }
    let mut notes = Printable::stderr(Passes::None);
    for dropped in &imported.dropped {
        writeln!(notes, "left out: {dropped}")?;
    }
    for open in &imported.open {
        writeln!(notes, "to do: {open}")?;
    }
    Ok(0)
}
