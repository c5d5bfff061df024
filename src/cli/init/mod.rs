//! `choirmaster init …`: files to begin with, which work as they are and say what may be changed in them.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use agent::runtime::process::on_path;
use clap::{Subcommand, ValueEnum};
use protocol::child::MAX_CHILD_NAME_BYTES;

use super::{failure::Failure, show};

/// Longest name of a function or a service: ids of releases are made of it, which have at most 48 characters.
const MAX_NAME: usize = 40;

/// The configurations that come with the program: each key with its default, commented out.
const AGENT: &str = include_str!("../../../config/agent.yml");
#[cfg(feature = "manager")]
const MANAGER: &str = include_str!("../../../config/choirmaster.yml");

/// The key of the name in each of them.
const NO_NAME: &str = "  #name:\n";

/// Write files to begin with: of a function, a service, an agent or a manager.
///
/// What is written works as it is, and its comments say what may be changed. No file is ever replaced.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write two versions of a function, and a release from the first to the second
    #[command(after_help = "Examples:\n  \
        choirmaster init function greet\n  \
        choirmaster init function greet --runner python --out functions/greet")]
    Function {
        /// What it is called: a letter, and then letters and digits
        #[arg(value_name = "NAME", default_value = "hello")]
        name: String,
        /// What the function is written in [default: the first of nodejs, python and binary that this machine runs]
        #[arg(long, value_name = "RUNNER", value_enum)]
        runner: Option<Runner>,
        /// The folder that is written [default: NAME]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Write a release of a service that runs already: from one variation of it to another
    #[command(after_help = "Example: choirmaster init service checkout")]
    Service {
        /// What it is called: a letter, and then letters, digits and -
        #[arg(value_name = "NAME", default_value = "shop")]
        name: String,
        /// The file that is written [default: NAME.yml]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Write the configuration of an agent: every key with its default
    #[command(after_help = "Example: choirmaster init agent edge-7")]
    Agent {
        /// What the manager shows it as
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// The file that is written; the agent reads it from there by itself
        #[arg(long, value_name = "FILE", default_value = "config/agent.yml")]
        out: PathBuf,
    },
    /// Write the configuration of a manager: every key with its default
    #[cfg(feature = "manager")]
    #[command(after_help = "Example: choirmaster init manager")]
    Manager {
        /// What a manager above it shows it as
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// The file that is written; the manager reads it from there by itself
        #[arg(long, value_name = "FILE", default_value = "config/choirmaster.yml")]
        out: PathBuf,
    },
}

/// What a function is written in.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Runner {
    Nodejs,
    Python,
    /// A script of the shell.
    Binary,
}

impl Runner {
    /// The first that this machine runs; a shell is everywhere.
    fn here() -> Self {
        match (on_path("node"), on_path("python3")) {
            (Some(_), _) => Self::Nodejs,
            (None, Some(_)) => Self::Python,
            (None, None) => Self::Binary,
        }
    }

    /// As strategies and agents call it.
    fn name(self) -> &'static str {
        match self {
            Self::Nodejs => "nodejs",
            Self::Python => "python",
            Self::Binary => "binary",
        }
    }

    /// The file of a function, and its text.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::Nodejs => ("index.js", include_str!("index.js")),
            Self::Python => ("fn.py", include_str!("fn.py")),
            Self::Binary => ("fn.sh", include_str!("fn.sh")),
        }
    }
}

/// Exit code: 0, or 1 where a file is there already or a name can't be taken.
pub fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let (files, next) = match &args.command {
        Command::Function { name, runner, out } => function(name, *runner, out.as_deref())?,
        Command::Service { name, out } => service(name, out.as_deref())?,
        Command::Agent { name, out } => {
            let text = named(AGENT, name.as_deref())?;
            (vec![(out.clone(), text)], vec![format!("choirmaster agent --config {}", out.display())])
        }
        #[cfg(feature = "manager")]
        Command::Manager { name, out } => {
            let text = named(MANAGER, name.as_deref())?;
            (vec![(out.clone(), text)], vec![format!("choirmaster serve --config {}", out.display())])
        }
    };
    write_all(&files)?;
    for (path, _) in &files {
        writeln!(out, "wrote {}", show::one_line(&path.display().to_string()))?;
    }
    writeln!(out, "\nNext:")?;
    for line in next {
        writeln!(out, "  {}", show::one_line(&line))?;
    }
    Ok(0)
}

/// Files and their texts, and the commands that come next.
type Written = (Vec<(PathBuf, String)>, Vec<String>);

fn function(name: &str, runner: Option<Runner>, out: Option<&Path>) -> Result<Written, Failure> {
    check_name(name, "a function", "letters and digits", |byte| byte.is_ascii_alphanumeric())?;
    let runner = runner.unwrap_or_else(Runner::here);
    let folder = out.unwrap_or(Path::new(name));
    let shown = folder.display().to_string();
    let filled = |text: &str, more: &str| {
        let text = text.replace("@NAME@", name).replace("@RUNNER@", runner.name());
        text.replace("@FOLDER@", &shown).replace("@MORE@", more)
    };
    let strategy = checked(name, filled(include_str!("function.yml"), ""))?;
    let (file, source) = runner.source();
    let version = |number: u8, more: &str| {
        (folder.join(format!("fns/{name}_v{number}")).join(file), filled(source, more))
    };
    let files =
        vec![(folder.join("release.yml"), strategy), version(1, ""), version(2, " This is version 2.")];
    let next = vec![
        format!("choirmaster agent functions add {name} {shown}/fns/{name}_v1"),
        format!("choirmaster release submit {shown} --wait"),
    ];
    Ok((files, next))
}

fn service(name: &str, out: Option<&Path>) -> Result<Written, Failure> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    check_name(name, "a service", "letters, digits and -", is_of_name)?;
    let file = out.map_or_else(|| PathBuf::from(format!("{name}.yml")), Path::to_path_buf);
    let shown = file.display().to_string();
    let text = include_str!("service.yml").replace("@NAME@", name).replace("@FILE@", &shown);
    let next = vec![
        format!("write where your service runs into {shown}"),
        format!("choirmaster release submit {shown} --wait"),
    ];
    Ok((vec![(file, checked(name, text)?)], next))
}

/// Names stand in YAML, in paths and in addresses.
fn check_name(name: &str, of: &str, rule: &str, is_of_name: impl Fn(u8) -> bool) -> Result<(), Failure> {
    let is_fine = name.bytes().all(is_of_name)
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= MAX_NAME;
    if is_fine {
        return Ok(());
    }
    Err(Failure::user(format!(
        "{name:?} can't be the name of {of}: it begins with a letter and has at most {MAX_NAME} {rule}"
    )))
}

/// A strategy that would be taken. A name may be a word that YAML reads as something else.
fn checked(name: &str, text: String) -> Result<String, Failure> {
    let checked = language::check(&text);
    if checked.strategy.is_some() {
        return Ok(text);
    }
    let why = checked.diagnostics.first().map(|fault| fault.message.clone()).unwrap_or_default();
    Err(Failure::user(format!("{name:?} can't be the name of it: {why}; choose another")))
}

/// A configuration with a name.
fn named(text: &str, name: Option<&str>) -> Result<String, Failure> {
    let Some(name) = name else { return Ok(text.to_owned()) };
    if name.len() > MAX_CHILD_NAME_BYTES {
        return Err(Failure::user(format!("the name has more than {MAX_CHILD_NAME_BYTES} bytes")));
    }
    // What JSON quotes is quoted in YAML.
    Ok(text.replacen(NO_NAME, &format!("  name: {}\n", serde_json::Value::from(name)), 1))
}

/// Writes all of them, or none where one is there already.
fn write_all(files: &[(PathBuf, String)]) -> Result<(), Failure> {
    let is_there = |path: &Path| {
        Failure::user(format!(
            "{} is there already, and nothing is replaced: name another place with --out, or take it away",
            path.display()
        ))
    };
    if let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(is_there(path));
    }
    for (path, text) in files {
        write(path, text).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => is_there(path),
            _ => Failure::user(format!("{} can't be written: {error}", path.display())),
        })?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        // A file that stands in the way is not the one that is to be written.
        fs::create_dir_all(folder).map_err(io::Error::other)?;
    }
    File::create_new(path)?.write_all(text.as_bytes())
}
