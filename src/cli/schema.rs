//! `choirmaster schema`: the JSON Schema of the strategy language, for editors.

use std::io::Write;

use language::schema;

/// Print the JSON Schema of a release strategy.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Exit code: 0, or 2 where the output can't be written.
pub fn run(_: &Args, out: &mut impl Write) -> u8 {
    let written = serde_json::to_string_pretty(&schema::schema())
        .map_err(std::io::Error::from)
        .and_then(|text| writeln!(out, "{text}"));
    if written.is_ok() { 0 } else { 2 }
}
