//! `choirmaster context …`: managers by name, so that nobody has to write address, token and authorities each time.

pub mod file;
pub mod used;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use serde::Serialize;

use self::file::{Context, Contexts};
use super::{
    client::{self, DEFAULT_URL},
    failure::Failure,
    show,
};

/// Longest name of a context.
const MAX_NAME: usize = 64;

/// Keep managers by name: address, token file and authorities
///
/// They stand in choirmaster/contexts.yml in the configuration folder of this user ($XDG_CONFIG_HOME, else ~/.config), in a file for this
/// user alone, which names the files of tokens and holds no token.
///
/// Commands use the context that --context or CHOIRMASTER_CONTEXT names, else, where no --url and no CHOIRMASTER_URL says another
/// manager, the current one. Flags and variables win over it. Its token is sent to its own address alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster context add prod --url https://choir.example.org --token-file ~/.choir-prod --ca /etc/choir/ca.pem\n  \
    choirmaster context use prod\n  \
    choirmaster release list --context staging")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep a manager under a name
    Add {
        #[arg(value_name = "NAME")]
        name: String,
        /// Address of the manager
        #[arg(long, value_name = "URL")]
        url: String,
        /// File with the token of an operator; the path is kept, and not the token
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// PEM of the authorities of the manager's certificate [default: those that this machine trusts]
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
    /// Say which context commands use that name none
    Use {
        #[arg(value_name = "NAME", required_unless_present = "none")]
        name: Option<String>,
        /// None of them
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// List the contexts
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a context; the files that it names stay
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show a context; without a name that which commands use now
    Show {
        #[arg(value_name = "NAME", env = "CHOIRMASTER_CONTEXT")]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A context, as it is shown.
#[derive(Debug, Serialize)]
struct ShownContext<'a> {
    name: &'a str,
    url: &'a str,
    token_file: Option<&'a Path>,
    ca: Option<&'a Path>,
    current: bool,
}

impl<'a> ShownContext<'a> {
    fn of(contexts: &'a Contexts, (name, context): (&'a str, &'a Context)) -> Self {
        let Context { url, token_file, ca } = context;
        let current = contexts.current.as_deref() == Some(name);
        Self { name, url, token_file: token_file.as_deref(), ca: ca.as_deref(), current }
    }

    fn rows(&self) -> [String; 3] {
        let path =
            |path: Option<&Path>| show::or_dash(path.map(|path| path.display().to_string()).as_deref());
        [self.url.to_owned(), path(self.token_file), path(self.ca)]
    }
}

/// Exit code: 0, or 1 where what is wanted can't be.
pub fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    match &args.command {
        Command::Add { name, url, token_file, ca } => {
            add(name, url, token_file.as_deref(), ca.as_deref(), out)?;
        }
        Command::Use { name, none: _ } => make_current(name.as_deref(), out)?,
        Command::List { json } => list(*json, out)?,
        Command::Remove { name } => remove(name, out)?,
        Command::Show { name, json } => one(name.as_deref().filter(|name| !name.is_empty()), *json, out)?,
    }
    Ok(0)
}

fn add(
    name: &str,
    url: &str,
    token_file: Option<&Path>,
    ca: Option<&Path>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_fine = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_of_name)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !is_fine {
        return Err(Failure::user(format!(
            "{name:?} is no name of a context: write 1 to {MAX_NAME} letters, digits and . _ -, a letter or a digit first"
        )));
    }
    let address = client::address(url)?;
    if !address.username().is_empty() || address.password().is_some() {
        // It may hold a secret, and is not repeated.
        return Err(Failure::user("the address holds a name or a password: put the token into a file"));
    }
    if let Some(ca) = ca {
        client::authorities(ca)?;
    }
    let mut contexts = Contexts::load()?;
    if contexts.contexts.contains_key(name) {
        return Err(Failure::user(format!(
            "the context {name} is there already: choirmaster context remove {name} takes it away"
        )));
    }
    let context = Context {
        url: url.trim_end_matches('/').to_owned(),
        token_file: token_file.map(existing).transpose()?,
        ca: ca.map(existing).transpose()?,
    };
    contexts.contexts.insert(name.to_owned(), context);
    contexts.keep()?;
    writeln!(
        out,
        "{name}: added\nWith --context {name} a command uses it; after choirmaster context use {name} all do"
    )?;
    Ok(())
}

/// The whole path of a file, which has to be there. Commands may be called in another folder.
fn existing(file: &Path) -> Result<PathBuf, Failure> {
    let found = std::path::absolute(file).and_then(|path| Ok((path.metadata()?.is_file(), path)));
    match found {
        Ok((true, path)) => Ok(path),
        Ok((false, _)) => Err(Failure::user(format!("{} is no file", file.display()))),
        Err(error) => Err(Failure::user(format!("{} can't be read: {error}", file.display()))),
    }
}

fn make_current(name: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let mut contexts = Contexts::load()?;
    let said = match name {
        Some(name) => format!("commands use {name} now: {}", contexts.named(name)?.1.url),
        None => format!("commands use no context now: {DEFAULT_URL}"),
    };
    contexts.current = name.map(str::to_owned);
    contexts.keep()?;
    writeln!(out, "{said}")?;
    Ok(())
}

fn remove(name: &str, out: &mut impl Write) -> Result<(), Failure> {
    let mut contexts = Contexts::load()?;
    contexts.named(name)?;
    contexts.contexts.remove(name);
    let was_current = contexts.current.take_if(|current| current.as_str() == name).is_some();
    contexts.keep()?;
    let more = if was_current { "; commands use no context now" } else { "" };
    writeln!(out, "{name}: removed{more}")?;
    Ok(())
}

fn list(json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let contexts = Contexts::load()?;
    let all = contexts.contexts.iter().map(|(name, context)| (name.as_str(), context));
    let shown: Vec<ShownContext<'_>> = all.map(|one| ShownContext::of(&contexts, one)).collect();
    let table = |all: &[ShownContext<'_>]| {
        let row = |one: &ShownContext<'_>| {
            let name = if one.current { format!("{} (current)", one.name) } else { one.name.to_owned() };
            [name].into_iter().chain(one.rows()).collect::<Vec<String>>()
        };
        show::table(&["NAME", "URL", "TOKEN FILE", "CA"], all.iter().map(row))
    };
    let nothing = "no contexts: choirmaster context add NAME --url URL";
    show::list(out, &(shown, false), json, nothing, table)?;
    Ok(())
}

fn one(name: Option<&str>, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let contexts = Contexts::load()?;
    let Some(meant) = contexts.meant(name)? else {
        if json {
            show::json(out, &())?;
        } else {
            writeln!(out, "commands use no context: {DEFAULT_URL}")?;
        }
        return Ok(());
    };
    let shown = ShownContext::of(&contexts, meant);
    if json {
        show::json(out, &shown)?;
        return Ok(());
    }
    writeln!(out, "{}", shown.name)?;
    for (key, value) in ["url", "token file", "ca"].into_iter().zip(shown.rows()) {
        writeln!(out, "  {key:<10} {}", show::one_line(&value))?;
    }
    writeln!(out, "  {:<10} {}", "current", if shown.current { "yes" } else { "no" })?;
    Ok(())
}
