//! What is submitted: a strategy, and where its functions come from.
//!
//! What lies beside a strategy is meant: a `fns.zip`, another zip that holds one of the named folders, or the folders
//! themselves. Where more than one of them is there, nothing is guessed, since what is guessed wrong is run by
//! everybody. Only where nothing lies beside the file are the functions those of the manager.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use super::{failure::Failure, show};
use language::{MAX_STRATEGY_BYTES, Strategy, functions, functions::Limits};

/// What a strategy is called in the folder of a release.
const STRATEGY_FILES: [&str; 2] = ["release.yml", "release.yaml"];

/// What the functions are called there.
const ZIP_FILE: &str = "fns.zip";

/// Most zips beside a strategy that are looked into.
const MAX_ZIPS: usize = 200;

/// Where the functions are to come from, as it was said.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct SourceSpec {
    /// The functions: a zip, or the folder that contains fns/
    #[arg(long, value_name = "ZIP|DIR")]
    pub functions: Option<PathBuf>,
    /// Take the functions from the fns/ folder beside the manager, whatever lies beside the strategy
    #[arg(long, conflicts_with = "functions")]
    pub functions_of_manager: bool,
}

/// Where functions come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Functions {
    /// Of services alone no functions change.
    None,
    OfManager,
    Zip(PathBuf),
    /// The folder that contains those which the strategy names.
    Folder(PathBuf),
}

impl Functions {
    /// For people.
    pub fn name(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::OfManager => "those of the manager".to_owned(),
            Self::Zip(path) => path.display().to_string(),
            Self::Folder(path) => format!("the folders in {}", path.display()),
        }
    }
}

/// A strategy and its functions; or a manifest, which has none.
#[derive(Debug)]
pub struct Source {
    /// The strategy's file, for messages; `-` for standard input.
    pub file: String,
    pub text: Vec<u8>,
    pub functions: Functions,
}

impl Source {
    /// Finds what is meant by a strategy file, `-`, or a folder that holds a release.
    pub fn find(named: &str, wanted: &SourceSpec) -> Result<Self, Unfound> {
        let folder = (named != "-" && Path::new(named).is_dir()).then(|| PathBuf::from(named));
        let file = match &folder {
            None => named.to_owned(),
            Some(folder) => strategy_in(folder)?.display().to_string(),
        };
        let text = read_strategy(&file)?;
        let functions = match wanted {
            SourceSpec { functions: Some(path), .. } if path.is_dir() => Functions::Folder(path.clone()),
            SourceSpec { functions: Some(path), .. } => Functions::Zip(path.clone()),
            SourceSpec { .. } if has_none(&text) => Functions::None,
            SourceSpec { functions_of_manager: true, .. } => Functions::OfManager,
            SourceSpec { .. } if file == "-" => Functions::OfManager,
            SourceSpec { .. } => beside(&file, &text, folder.is_some())?,
        };
        Ok(Self { file, text, functions })
    }

    /// The id of the release.
    pub fn id(&self) -> Result<String, Unfound> {
        str::from_utf8(&self.text).ok().and_then(language::id_of).ok_or_else(|| self.without_id())
    }

    /// The same under another id.
    pub fn with_id(self, id: &str) -> Result<Self, Failure> {
        let text = str::from_utf8(&self.text).ok().and_then(|text| language::with_id(text, id));
        let text = text.ok_or_else(|| self.without_id())?;
        Ok(Self { text: text.into_bytes(), ..self })
    }

    fn without_id(&self) -> Unfound {
        let fix = match canary_releases::kind_of(&self.text) {
            Some(_) => "it is a manifest, so write another name into it",
            None => "write `id: NEW` on a line of its own",
        };
        Unfound::NoId { file: self.file.clone(), fix }
    }

    /// What is to be sent of the functions: the zip as it is, or one of the folders that the strategy names; `None`:
    /// the manager has them.
    pub fn archive(&self) -> Result<Option<Vec<u8>>, Failure> {
        match &self.functions {
            Functions::None | Functions::OfManager => Ok(None),
            Functions::Zip(path) => {
                let read = std::fs::read(path);
                Ok(Some(read.map_err(|error| Unfound::unread(path, error))?))
            }
            Functions::Folder(path) => {
                let checked = language::check_bytes(&self.text);
                let Some(strategy) = checked.strategy else {
                    // Whoever is asked to release it lists the faults, with all that it knows beside.
                    return Ok(None);
                };
                let archive = functions::from_folder(path, &strategy, &Limits::default())
                    .map_err(|error| Failure::user(format!("{error}; looked in {}", path.display())))?;
                Ok(Some(archive.bytes.to_vec()))
            }
        }
    }
}

/// The strategy in the folder of a release, if there is one.
pub fn strategy_of(folder: &Path) -> Option<PathBuf> {
    STRATEGY_FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

fn strategy_in(folder: &Path) -> Result<PathBuf, Unfound> {
    strategy_of(folder).ok_or_else(|| Unfound::NoStrategy { folder: folder.to_owned() })
}

/// Why it is not known what is to be submitted.
#[derive(Debug, thiserror::Error)]
pub enum Unfound {
    #[error(
        "{folder} has no {}; name the file of the strategy, or, for a folder of releases, use `choirmaster release \
         import {folder}`", STRATEGY_FILES[0], folder = .folder.display()
    )]
    NoStrategy { folder: PathBuf },
    #[error("{path} can't be read: {error}", path = .path.display())]
    Unread { path: PathBuf, error: io::Error },
    #[error(
        "{folder} has no {ZIP_FILE}: put it there, name the functions with --functions ZIP|DIR, or take those of the \
         manager with --functions-of-manager", folder = .folder.display()
    )]
    Missing { folder: PathBuf },
    #[error("{file} has no id that can be replaced: {fix}")]
    NoId { file: String, fix: &'static str },
    #[error(
        "the functions of {file} could be {}: say which with --functions ZIP|DIR, or --functions-of-manager",
        .found.iter().map(Functions::name).collect::<Vec<_>>().join(", or ")
    )]
    Ambiguous { file: String, found: Vec<Functions> },
}

impl Unfound {
    fn unread(path: &Path, error: io::Error) -> Self {
        Self::Unread { path: path.to_owned(), error }
    }
}

impl From<Unfound> for Failure {
    fn from(unfound: Unfound) -> Self {
        Self::user(unfound.to_string())
    }
}

pub fn read_strategy(file: &str) -> Result<Vec<u8>, Unfound> {
    let mut text = Vec::new();
    let limit = MAX_STRATEGY_BYTES as u64 + 4;
    let read = if file == "-" {
        io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    read.map(|_| text).map_err(|error| Unfound::unread(Path::new(file), error))
}

/// Whether a strategy has nothing started, as where it shares calls among what runs already, or a manifest is no strategy at all. One
/// with faults, or that names a template which only the manager has, is told by how its lines begin.
fn has_none(text: &[u8]) -> bool {
    if canary_releases::kind_of(text).is_some() {
        return true;
    }
    if let Some(strategy) = language::check_bytes(text).strategy {
        return functions::paths(&strategy).next().is_none();
    }
    let has = |key: &[u8]| text.split(|byte| *byte == b'\n').any(|line| line.starts_with(key));
    let runs = || text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_start().starts_with(b"run:"));
    has(b"services:") && !has(b"functions:") && !runs()
}

/// The functions beside a strategy. `is_whole`: it was named by its folder, which is to hold everything.
fn beside(file: &str, text: &[u8], is_whole: bool) -> Result<Functions, Unfound> {
    let folder = match Path::new(file).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // With faults it is refused anyway, and they are what is to be shown.
    let Some(strategy) = language::check_bytes(text).strategy else { return Ok(Functions::OfManager) };
    let mut found = candidates(folder, &strategy).map_err(|error| Unfound::unread(folder, error))?;
    match found.len() {
        0 if is_whole => Err(Unfound::Missing { folder: folder.to_owned() }),
        0 => Ok(Functions::OfManager),
        1 => Ok(found.remove(0)),
        _ => Err(Unfound::Ambiguous { file: file.to_owned(), found }),
    }
}

/// Everything in a folder that could be the functions of a strategy, in a fixed order.
fn candidates(folder: &Path, strategy: &Strategy) -> io::Result<Vec<Functions>> {
    let mut zips: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_zip = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("zip"));
        if is_zip && path.is_file() {
            zips.push(path);
        }
    }
    zips.sort();
    let meant = |path: &PathBuf| {
        let by_name = path.file_name().is_some_and(|name| name == ZIP_FILE);
        by_name || File::open(path).is_ok_and(|file| functions::holds_some_of(BufReader::new(file), strategy))
    };
    let zips = zips.into_iter().take(MAX_ZIPS).filter(meant).map(Functions::Zip);
    let mut found: Vec<Functions> = zips.collect();
    if functions::paths(strategy).any(|path| folder.join(path).is_dir()) {
        found.push(Functions::Folder(folder.to_owned()));
    }
    Ok(found)
}

/// A line about where functions come from; empty where none change.
pub fn line(functions: &Functions) -> String {
    match functions {
        Functions::None => String::new(),
        Functions::OfManager | Functions::Zip(_) | Functions::Folder(_) => {
            format!("  functions: {}\n", show::one_line(&functions.name()))
        }
    }
}
