use std::path::Path;

use super::super::{Fault, VersionId};

/// A form of function that tinyFaaS runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// `fn.sh`
    Binary,
    /// Only where it is named: its folder has no file that no other form has.
    Go,
    /// `index.js` with `package.json`
    Nodejs,
    /// `fn.py`
    Python,
}

impl Form {
    /// All, in order of their names.
    pub const ALL: [Self; 4] = [Self::Binary, Self::Go, Self::Nodejs, Self::Python];

    /// What this program calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Go => "go",
            Self::Nodejs => "nodejs",
            Self::Python => "python",
        }
    }

    /// What tinyFaaS calls it.
    pub(super) fn env(self) -> &'static str {
        match self {
            Self::Binary | Self::Go | Self::Nodejs => self.name(),
            Self::Python => "python3",
        }
    }

    /// What stands for it in names. None is a digit of a digest.
    fn letter(self) -> char {
        match self {
            Self::Binary => 's',
            Self::Go => 'g',
            Self::Nodejs => 'n',
            Self::Python => 'p',
        }
    }

    /// The one that is named, or else that of the folder's files.
    pub(super) fn of(name: Option<&str>, folder: &Path, has: &[Self]) -> Result<Self, Fault> {
        let found = match name {
            Some(name) => Self::ALL.into_iter().find(|form| name == form.name() || name == form.env()),
            None => Some(Self::by_files(folder)?),
        };
        found.filter(|form| has.contains(form)).ok_or_else(|| Fault::NoRunner {
            name: name.map_or_else(|| found.map_or("", Self::name).to_owned(), str::to_owned),
            has: has.iter().map(|form| form.name()).collect::<Vec<_>>().join(", "),
            hint: ": it is what tinyFaaS runs, as this agent was told",
        })
    }

    fn by_files(folder: &Path) -> Result<Self, Fault> {
        let holds = |form: &Self| match form {
            Self::Binary => folder.join("fn.sh").is_file(),
            Self::Go => false,
            Self::Nodejs => folder.join("index.js").is_file() || folder.join("package.json").is_file(),
            Self::Python => folder.join("fn.py").is_file(),
        };
        let mut found = Self::ALL.into_iter().filter(holds);
        match (found.next(), found.next()) {
            (None, _) => Err(Fault::NoForm(folder.to_owned())),
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(Fault::TwoForms(one.name(), other.name())),
        }
    }
}

/// The name that a version has in tinyFaaS: the agent's prefix, a letter of the form, the digest, and behind an `x` how many
/// names of it were left before by starts that failed. So whose it is, and what, is read from the name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub form: Form,
    pub version: VersionId,
    pub attempt: u32,
}

impl Name {
    pub(super) fn write(&self, prefix: &str) -> String {
        let name = format!("{prefix}{}{}", self.form.letter(), self.version);
        if self.attempt == 0 { name } else { format!("{name}x{}", self.attempt) }
    }

    /// Nothing where it is a name of somebody else.
    pub(super) fn read(prefix: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(prefix)?;
        let form = Form::ALL.into_iter().find(|form| rest.starts_with(form.letter()))?;
        let (digest, attempt) = match rest[1..].split_once('x') {
            None => (&rest[1..], 0),
            Some((digest, attempt)) => (digest, attempt.parse().ok()?),
        };
        let read = Self { form, version: digest.parse().ok()?, attempt };
        // There is one way to write it.
        (read.write(prefix) == name).then_some(read)
    }
}

/// The most characters of a prefix.
const MAX_PREFIX: usize = 16;

/// It is part of names of images too, which have no upper-case letters.
pub(super) fn is_prefix(text: &str) -> bool {
    (1..=MAX_PREFIX).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
