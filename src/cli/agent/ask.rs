//! What is asked of an agent that runs.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use agent::control::{
    CARRY_OUT,
    client::{Client, ClientError},
    form::{self, Added, FunctionStatus, NewFunction, Removed, Retry, Status, Sticky, Undone},
};
use bytes::Bytes;
use jiff::Timestamp;
use proxy::live::is_service_name;
use reqwest::{Method, Url};
use serde::Serialize;

use super::{settings::DEFAULT_CONTROL, show};
use crate::cli::failure::Failure;

/// Show how the agent stands: manager, proxy, functions and their versions, the release in hand
#[derive(Debug, clap::Args)]
pub struct Common {
    /// The control socket of the agent
    #[arg(long, value_name = "PATH", env = "CHOIRMASTER_AGENT_CONTROL", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Roll back what a release tries, or what it rolled out last, whether or not the manager can be reached
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster agent rollback sieve --why 'customers complain'")]
pub struct Rollback {
    /// Of this function alone; without it, of all
    #[arg(value_name = "FUNCTION")]
    function: Option<String>,
    /// What the manager and the log are told
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Decide which functions are served before any release of them
#[derive(Debug, clap::Subcommand)]
pub enum Functions {
    /// Serve a function, or another content of it
    #[command(
        after_help = "Example: choirmaster agent functions add sieve fns/sieve_base --sticky cookie:session"
    )]
    Add {
        /// What it is called: calls of /NAME go to it
        #[arg(value_name = "NAME")]
        name: String,
        /// Its content; it is copied
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// nodejs, python, binary, program or wasm [default: what the folder holds says it]
        #[arg(long, value_name = "FORM")]
        runner: Option<String>,
        /// What keeps a caller's calls with one version: cookie:NAME, header:NAME or address
        #[arg(long, value_name = "BY", value_parser = sticky)]
        sticky: Option<Sticky>,
        /// Which calls that the new version fails are repeated on the stable one: failed, refused (those that it never got) or
        /// never [default: failed for GET, HEAD, PUT, DELETE and OPTIONS, refused for the rest]
        #[arg(long, value_name = "WHICH", value_parser = retry)]
        retry: Option<Retry>,
        #[command(flatten)]
        common: Common,
    },
    /// List what is served
    List(Common),
    /// Serve a function no longer; its versions are stopped once no call is left in them
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

/// Show what a version of a function wrote, as far as it is kept
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster agent logs sieve --new | tail\n  \
                        choirmaster agent logs --release canary        what failed in it, although it has ended")]
pub struct Logs {
    #[arg(value_name = "FUNCTION", required_unless_present = "release")]
    function: Option<String>,
    /// Of the versions that failed in this release and have ended: the last three that failed are kept, 64 KiB of each
    #[arg(long, value_name = "ID", conflicts_with_all = ["function", "new", "base"])]
    release: Option<String>,
    /// Of the version that a release tries
    #[arg(long)]
    new: bool,
    /// Of the stable version [default: of the newest]
    #[arg(long, conflicts_with = "new")]
    base: bool,
    /// The control socket of the agent
    #[arg(long, value_name = "PATH", env = "CHOIRMASTER_AGENT_CONTROL", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
}

fn sticky(text: &str) -> Result<Sticky, String> {
    Sticky::named(text).ok_or_else(|| "it is cookie:NAME, header:NAME or address".to_owned())
}

fn retry(text: &str) -> Result<Retry, String> {
    let named = Retry::ALL.into_iter().find(|retry| retry.name() == text);
    named.ok_or_else(|| "it is failed, refused or never".to_owned())
}

impl Common {
    fn client(&self) -> Client {
        Client::new(&self.control)
    }
}

pub async fn status(common: &Common, out: &mut impl Write) -> Result<u8, Failure> {
    let status: Status = common.client().get("/status").await?;
    show::status(out, &status, common.json, Timestamp::now())?;
    Ok(0)
}

pub async fn rollback(args: &Rollback, out: &mut impl Write) -> Result<u8, Failure> {
    let undo = form::Undo { function: args.function.clone(), why: args.why.clone() };
    let undone: Undone =
        args.common.client().ask(Method::POST, "/undo", body(&undo)?, CARRY_OUT + CARRY_OUT / 10).await?;
    show::undone(out, &undone, args.common.json)?;
    Ok(0)
}

pub async fn functions(command: &Functions, out: &mut impl Write) -> Result<u8, Failure> {
    match command {
        Functions::Add { name, folder, runner, sticky, retry, common } => {
            let function = NewFunction {
                folder: whole(folder)?,
                runner: runner.clone(),
                sticky: sticky.clone(),
                retry: *retry,
            };
            let target = target(name)?;
            let time_limit = CARRY_OUT + CARRY_OUT / 10;
            let added: Added =
                common.client().ask(Method::PUT, &target, body(&function)?, time_limit).await?;
            show::added(out, &added, common.json)?;
        }
        Functions::List(common) => {
            let functions: Vec<FunctionStatus> = common.client().get("/functions").await?;
            show::functions(out, &functions, common.json, Timestamp::now())?;
        }
        Functions::Remove { name, common } => {
            let time_limit = CARRY_OUT + CARRY_OUT / 10;
            let target = target(name)?;
            let removed: Removed =
                common.client().ask(Method::DELETE, &target, Bytes::new(), time_limit).await?;
            show::removed(out, &removed, common.json)?;
        }
    }
    Ok(0)
}

pub async fn logs(args: &Logs, out: &mut impl Write) -> Result<u8, Failure> {
    let version = match (args.new, args.base) {
        (true, _) => "&version=new",
        (false, true) => "&version=base",
        (false, false) => "",
    };
    let log = match (&args.release, &args.function) {
        (Some(release), _) => failed(&args.control, release).await?,
        (None, function) => {
            let function = named(function.as_deref().unwrap_or_default())?;
            Client::new(&args.control).text(&format!("/logs?function={function}{version}")).await?
        }
    };
    out.write_all(&log)?;
    Ok(0)
}

/// What versions wrote that failed in a release, as the agent on this socket has kept it.
pub async fn failed(control: &Path, release: &str) -> Result<Bytes, ClientError> {
    // A query is made of it where whole addresses are; the host is nobody.
    let address = Url::parse_with_params("http://agent/logs", [("release", release)]);
    let query = address.ok().and_then(|address| address.query().map(str::to_owned)).unwrap_or_default();
    Client::new(control).text(&format!("/logs?{query}")).await
}

/// A name that can stand in an address as it is.
fn named(name: &str) -> Result<&str, Failure> {
    if is_service_name(name) {
        return Ok(name);
    }
    let why = "a function's name is 1 to 200 characters from A-Z a-z 0-9 . _ - and begins with none of . _ -";
    Err(Failure::user(format!("{name:?} is no name: {why}")))
}

fn target(name: &str) -> Result<String, Failure> {
    Ok(format!("/functions/{}", named(name)?))
}

/// The agent may run in another folder.
fn whole(folder: &Path) -> Result<PathBuf, Failure> {
    let found = folder.canonicalize().and_then(|path| Ok((path.metadata()?.is_dir(), path)));
    match found {
        Ok((true, path)) => Ok(path),
        Ok((false, _)) => Err(Failure::user(format!("{} is no folder", folder.display()))),
        Err(error) => Err(Failure::user(format!("{} can't be read: {error}", folder.display()))),
    }
}

fn body(question: &impl Serialize) -> Result<Bytes, Failure> {
    serde_json::to_vec(question).map(Bytes::from).map_err(|error| Failure::ours(error.to_string()))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = match &error {
            ClientError::Unreachable { .. } => {
                format!("{error}\nName its control socket with --control, or start one: choirmaster agent")
            }
            ClientError::Refused { .. } | ClientError::Broken(_) | ClientError::Late(_) => error.to_string(),
        };
        if error.is_the_callers() { Self::user(text) } else { Self::ours(text) }
    }
}
