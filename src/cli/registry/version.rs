//! `choirmaster version …`.

use std::io::Write;

use clap::Subcommand;

use super::{Gone, One, Registered, Registering, list, one, register, remove};
use crate::cli::{client::ListArgs, failure::Failure, show};
use protocol::ab_releases::{RegisteredVersion, VersionSpec};

/// Characters of a digest in a list.
const SHORT_DIGEST: usize = 12;

/// Say which versions there are, by names that A/B releases use.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the versions
    List(ListArgs),
    /// Show a version: where it runs, or what it consists of
    Show(One),
    /// Register a version, or say anew what it is; refused while a release names it that is not over
    #[command(
        after_help = "Examples:\n  choirmaster version register v42 --target 127.0.0.1:9111 --target 127.0.0.1:9112\n  \
                            choirmaster version register v43 --digest 9f86d0…0f00a08 --path checkout_new --env nodejs"
    )]
    Register(New),
    /// Remove a version that no unfinished release names; what was released of it goes on naming it
    Remove(Gone),
}

#[derive(Debug, clap::Args)]
struct New {
    #[arg(value_name = "NAME")]
    name: String,
    /// Where it listens already (repeatable)
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "digest")]
    target: Vec<String>,
    /// SHA-256 of the archive of functions that it is in, in hexadecimal digits
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Its folder in that archive
    #[arg(long, value_name = "FOLDER", requires = "digest")]
    path: Option<String>,
    /// What runs it: nodejs, python3, binary, …
    #[arg(long, value_name = "RUNTIME", requires = "digest")]
    env: Option<String>,
    #[command(flatten)]
    how: Registering,
}

impl New {
    fn spec(&self) -> VersionSpec {
        VersionSpec {
            name: self.name.clone(),
            targets: self.target.clone(),
            digest: self.digest.clone(),
            path: self.path.clone(),
            env: self.env.clone(),
        }
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(args) => list::<RegisteredVersion>(&args, out).await,
        Command::Show(which) => one::<RegisteredVersion>(&which, out).await,
        Command::Register(new) => register::<RegisteredVersion>(&new.spec(), &new.how, out).await,
        Command::Remove(gone) => remove::<RegisteredVersion>(&gone, out).await,
    }
}

impl Registered for RegisteredVersion {
    const LIST: &'static str = "versions";
    const NONE: &'static str = "no versions are registered";
    const HEAD: &'static [&'static str] = &["NAME", "TARGETS", "ARCHIVE", "FOLDER", "RUNTIME"];

    fn name(&self) -> &str {
        &self.spec.name
    }
    fn row(&self) -> Vec<String> {
        let VersionSpec { name, targets, digest, path, env } = &self.spec;
        let digest = digest.as_deref().map(|digest| show::cut(digest, SHORT_DIGEST));
        let dash = |text: Option<&str>| show::or_dash(text);
        vec![
            name.clone(),
            dash(Some(&targets.join(", "))),
            dash(digest.as_deref()),
            dash(path.as_deref()),
            dash(env.as_deref()),
        ]
    }
    fn fields(&self) -> Vec<(&'static str, String)> {
        let VersionSpec { name: _, targets, digest, path, env } = &self.spec;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            ("targets", targets.join(", ")),
            ("archive", text(digest)),
            ("folder", text(path)),
            ("runtime", text(env)),
        ]
    }
    fn entry(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.created_at, self.created_by.as_deref())
    }
}
