//! Contexts on disk: managers by name, in a file of one user's alone. It names the files of tokens, and holds none.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::PathBuf,
};

use proxy::whole_file;
use serde::{Deserialize, Serialize};

use crate::cli::failure::Failure;

/// Below the user's configuration folder.
const FILE: &str = "choirmaster/contexts.yml";

/// Rights of a file that let others change it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Contexts {
    /// What commands use that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    pub contexts: BTreeMap<String, Context>,
}

/// A manager, and who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    /// The file with the token of an operator; absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// PEM of the authorities that the manager's certificate may be of; absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// Where they are kept; none where no variable names a folder of this user's.
///
/// As the XDG Base Directory Specification has it: a path that isn't absolute counts as none.
pub fn path() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join(FILE))
}

impl Contexts {
    /// Those that are kept; none where no file is.
    ///
    /// # Errors
    ///
    /// The file can't be read, or others may change it: who does decides where tokens are sent.
    pub fn load() -> Result<Self, Failure> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let shown = path.display();
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::user(format!("the contexts in {shown} can't be read: {why}"))
        };
        let mode = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            about => about.map_err(|error| unreadable(&error))?.permissions().mode(),
        };
        if mode & WRITABLE_BY_OTHERS != 0 {
            return Err(Failure::user(format!(
                "the contexts in {shown} are not used: others may change that file, and so where tokens are sent\nTake the right from \
                 them: chmod 600 {shown}"
            )));
        }
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
        let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
        let kept = serde_saphyr::from_str_with_options::<Option<Self>>(&text, options);
        Ok(kept.map_err(|error| unreadable(&error))?.unwrap_or_default())
    }

    /// Keeps them in place of those of before, for this user alone.
    pub fn keep(&self) -> Result<(), Failure> {
        let path = path()
            .ok_or_else(|| Failure::user("neither XDG_CONFIG_HOME nor HOME names a folder for contexts"))?;
        let failed =
            |error: io::Error| Failure::user(format!("{} can't be written: {error}", path.display()));
        let text = serde_saphyr::to_string(self).map_err(|error| failed(io::Error::other(error)))?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        // What a link leads to is replaced, and not the link.
        let file = path.canonicalize().unwrap_or_else(|_| path.clone());
        whole_file::replace(&file, text.as_bytes()).map_err(failed)
    }

    /// The context that is meant by a name, or, without one, the current one; none where none is.
    pub fn meant(&self, name: Option<&str>) -> Result<Option<(&str, &Context)>, Failure> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        self.named(name).map(Some)
    }

    /// # Errors
    ///
    /// There is none of this name; with those that there are.
    pub fn named(&self, name: &str) -> Result<(&str, &Context), Failure> {
        self.contexts.get_key_value(name).map(|(name, context)| (name.as_str(), context)).ok_or_else(|| {
            let known = || self.contexts.keys().map(String::as_str);
            let hint = match language::nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None if self.contexts.is_empty() => {
                    format!("there is none yet: choirmaster context add {name} --url URL")
                }
                None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
            };
            Failure::user(format!("there is no context {name:?}; {hint}"))
        })
    }
}
