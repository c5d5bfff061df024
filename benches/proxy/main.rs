//! What the proxy reaches, beside direct calls, nginx and `HAProxy` in the same run. `benches/run` starts it.
//!
//! Versions, proxies and generator are processes of their own that share all processors; so what the generator and the versions
//! cost falls on all sides. Rounds of all sides alternate, and medians over the rounds are told. nginx and `HAProxy` have one fixed
//! upstream, which is the least that they can be asked for; the proxy has its table of buckets. How they do with a table of their own stands in
//! rows of theirs.

mod load;
mod report;
mod routers;
mod rows;
mod secured;
#[path = "../shared/mod.rs"]
mod shared;
mod sides;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};

use crate::{rows::Row, sides::Serving};

const USAGE: &str = "Measures the proxy beside direct calls, nginx and HAProxy.

  --quick          short rounds: shows that everything works, measures nothing
  --seconds N      length of a round (2)
  --rounds N       rounds of each side (7)
  --beside PROGRAM another build of this program, whose proxy is one more side
  --only ROW       added | small | large | tls | tcp | tcp-large | services | memory | verdict |
                   nginx | haproxy | verdicts | many; may be given several times";

/// Sizes of everything.
#[derive(Debug, Clone)]
pub struct Sizes {
    pub round: Duration,
    pub rounds: usize,
    /// Another build of this program, whose proxy is measured as well.
    pub beside: Option<PathBuf>,
    /// All, where it is empty.
    pub only: Vec<Row>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", "version"] => sides::serve_version(),
        ["--serve", "proxy", version, "tcp"] => sides::serve_proxy(version, 1, Serving::Tcp),
        ["--serve", "proxy", version, services] => services
            .parse()
            .map_err(Into::into)
            .and_then(|of| sides::serve_proxy(version, of, Serving::Calls)),
        ["--serve", "proxy", version, "1", folder] => {
            sides::serve_proxy(version, 1, Serving::Secured(folder.as_ref()))
        }
        ref arguments => measure(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn measure(arguments: &[&str]) -> anyhow::Result<()> {
    let mut sizes = Sizes { round: Duration::from_secs(2), rounds: 7, beside: None, only: Vec::new() };
    let mut arguments = arguments.iter();
    while let Some(&argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument {
            "--quick" => sizes = Sizes { round: Duration::from_millis(300), rounds: 1, ..sizes },
            "--seconds" => sizes.round = Duration::from_secs(value()?.parse()?),
            "--rounds" => sizes.rounds = value()?.parse()?,
            "--beside" => sizes.beside = Some(value()?.into()),
            "--only" => {
                let name = value()?;
                let row = Row::named(name);
                sizes.only.push(row.with_context(|| format!("there is no row {name}.\n{USAGE}"))?);
            }
            // Cargo gives it.
            "--bench" => {}
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => bail!("{other} is nothing that can be asked for.\n{USAGE}"),
        }
    }
    rows::run(&sizes)
}
