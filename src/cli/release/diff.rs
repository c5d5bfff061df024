//! `choirmaster release diff`: what differs between two releases.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::differences::differences;
use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    show,
    source::{Functions, Source, SourceSpec, Unfound},
};
use language::{Strategy, functions, functions::Limits};
use protocol::api::ReleaseDetail;

/// Exit code of --exit-code where something differs.
const DIFFERENT: u8 = 3;

/// Show what differs between the strategies of two releases.
///
/// What counts is what the strategies mean, and the content of the functions: comments, order of keys and spelling of
/// numbers make no difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster release diff canary canary-2\n  \
                        choirmaster release diff canary.yml        against the release of the id in the file\n  \
                        choirmaster release diff canary ./new.yml")]
pub struct Args {
    /// A release's id, a strategy file, or a folder that holds release.yml and fns.zip
    #[arg(value_name = "A")]
    a: String,
    /// Another; may be left out if A is a file
    #[arg(value_name = "B")]
    b: Option<String>,
    /// End with 3 if something differs
    #[arg(long)]
    exit_code: bool,
    /// The functions of the file: a zip, or the folder that contains fns/; if not given, what lies beside it
    #[arg(long, value_name = "ZIP|DIR")]
    functions: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// One of the two.
struct Side {
    label: String,
    strategy: Strategy,
    /// Digest of the functions; `None`: they are those of the manager, whatever that has.
    functions: Option<String>,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let (a, b) = match &args.b {
        Some(b) => (side(&client, &args.a, args).await?, side(&client, b, args).await?),
        None if is_file(&args.a) => {
            let file = from_file(&args.a, args)?;
            (of_release(&client, file.strategy.id.as_str()).await?, file)
        }
        None => return Err(Failure::user("name a second release or file to compare with")),
    };
    let mut lines = differences(&a.strategy, &b.strategy);
    match (&a.functions, &b.functions) {
        (Some(before), Some(after)) if before != after => {
            lines.push("functions: the content of the folders differs".to_owned());
        }
        (Some(_), Some(_)) => {}
        _ => writeln!(
            io::stderr(),
            "the functions' content is not compared: name it with --functions ZIP|DIR"
        )?,
    }
    if args.json {
        show::json(out, &json!({"a": a.label, "b": b.label, "differences": lines}))?;
    } else if lines.is_empty() {
        writeln!(out, "{} and {} say the same", a.label, b.label)?;
    } else {
        writeln!(out, "from {} to {}", a.label, b.label)?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(if args.exit_code && !lines.is_empty() { DIFFERENT } else { 0 })
}

fn is_file(name: &str) -> bool {
    Path::new(name).exists() || name.contains('/') || name == "-"
}

async fn side(client: &Client, name: &str, args: &Args) -> Result<Side, Failure> {
    if is_file(name) { from_file(name, args) } else { of_release(client, name).await }
}

fn from_file(named: &str, args: &Args) -> Result<Side, Failure> {
    let wanted = SourceSpec { functions: args.functions.clone(), functions_of_manager: false };
    let source = match Source::find(named, &wanted) {
        // A strategy can be compared without its functions.
        Err(Unfound::Missing { .. }) => {
            Source::find(named, &SourceSpec { functions_of_manager: true, ..wanted })?
        }
        found => found?,
    };
    let file = source.file.as_str();
    let checked = language::check_bytes(&source.text);
    let Some(strategy) = checked.strategy else {
        let faults: Vec<String> = checked.diagnostics.iter().map(|fault| fault.render(file)).collect();
        return Err(Failure::user(format!("{file} has faults\n\n{}", faults.join("\n\n"))));
    };
    let functions = match &source.functions {
        Functions::None | Functions::OfManager => None,
        Functions::Zip(path) => {
            let zip = source.archive()?.unwrap_or_default();
            Some((path, functions::from_upload(&zip, &strategy, &Limits::default())))
        }
        Functions::Folder(path) => Some((path, functions::from_folder(path, &strategy, &Limits::default()))),
    };
    let digest = functions.map(|(path, archive)| match archive {
        Ok(archive) => Ok(archive.digest_text()),
        Err(error) => Err(Failure::user(format!("{error}; looked in {}", path.display()))),
    });
    Ok(Side { label: file.to_owned(), strategy, functions: digest.transpose()? })
}

async fn of_release(client: &Client, id: &str) -> Result<Side, Failure> {
    let detail: ReleaseDetail = client.get(&["api", "v1", "releases", id], &[]).await?;
    let strategy = language::check_stored(&detail.strategy).strategy.ok_or_else(|| {
        Failure::ours(format!(
            "the strategy of {id} is not one that this program knows: use the manager's version"
        ))
    })?;
    Ok(Side { label: format!("release {id}"), strategy, functions: Some(detail.functions_digest) })
}
