//! The forms that functions have, and what each needs of the machine.
//!
//! | form | its folder holds | a call |
//! |---|---|---|
//! | `nodejs` | `index.js`, or what `package.json` names: `module.exports = (req, res) => …` | `req` and `res` of node, with `req.body` (text), `query`, `params`, `path`, `get` and `res.status`, `send`, `json`, `set`, `type`, `sendStatus`, `redirect` as express has them |
//! | `python` | `fn.py`: `def fn(input, headers)`, or without `headers` | the body as text, `None` for an empty one; what it returns is the answer, an exception is 500 with its text |
//! | `binary` | `fn.sh`, a program or a text for `sh` | the body to its standard input, its standard output is the answer, an exit status other than 0 is 500; `REQUEST_METHOD`, `PATH_INFO` and `QUERY_STRING` say the rest |
//! | `program` | `run`, any program | it takes calls at `$HOST:$PORT` until SIGTERM |
//! | `wasm` | `fn.wasm`, a component, which the runtime of that name runs alone | the exported `wasi:http/incoming-handler` |
//! | `image` | `image`, a text that names an image of a container by its digest, and none of the above | the same |
//!
//! Packages are not installed: what a function needs lies in its folder (`node_modules`, `pip install --target .`) or on the machine.
//! What is written to standard error, and by all forms but `binary` to standard output, is the log.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use language::functions::files_of;

use super::super::{error::Fault, form};

/// Names the socket on which a runner listens, in its environment.
pub(super) const SOCKET: &str = "CHOIRMASTER_SOCKET";
/// What a function of the form `binary` is called.
pub(super) const BINARY_FILE: &str = "fn.sh";
/// What a program that listens on `$PORT` is called.
pub(super) const PROGRAM_FILE: &str = "run";

/// A form of function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// `module.exports = (req, res) => …`
    Nodejs,
    /// `def fn(input, headers)` in `fn.py`
    Python,
    /// `fn.sh`: a call's body to its standard input, its standard output to the answer
    Binary,
    /// `run`: anything that takes calls at `$HOST:$PORT`
    Program,
    /// `image`: the name of an image whose program takes calls there
    Image,
    /// `fn.wasm`: a component, which the runtime of that name runs alone
    Wasm,
}

/// Those that the files of a folder say, in order of their names. Only one that holds none of these is an image: others may have a
/// file of that name.
const BY_FILES: [Runner; 5] = [Runner::Binary, Runner::Nodejs, Runner::Program, Runner::Python, Runner::Wasm];
const ALL: [Runner; 6] =
    [Runner::Binary, Runner::Image, Runner::Nodejs, Runner::Program, Runner::Python, Runner::Wasm];

impl Runner {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nodejs => "nodejs",
            Self::Python => "python",
            Self::Binary => "binary",
            Self::Program => "program",
            Self::Wasm => "wasm",
            Self::Image => "image",
        }
    }

    /// What a folder of this form holds; one of them is enough.
    fn files(self) -> &'static [&'static str] {
        files_of(self.name())
    }

    /// The program that it needs on the path.
    fn needs(self) -> Option<&'static str> {
        match self {
            Self::Nodejs => Some("node"),
            Self::Python => Some("python3"),
            Self::Binary | Self::Program | Self::Image | Self::Wasm => None,
        }
    }

    /// The source that is written beside a version and serves it.
    pub(super) fn source(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nodejs => Some(("runner.js", include_str!("runners/nodejs.js"))),
            Self::Python => Some(("runner.py", include_str!("runners/python.py"))),
            Self::Binary | Self::Program | Self::Image | Self::Wasm => None,
        }
    }

    pub(super) fn listens_on_a_port(self) -> bool {
        match self {
            Self::Program | Self::Image => true,
            Self::Nodejs | Self::Python | Self::Binary | Self::Wasm => false,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Nodejs => ": install the package `nodejs`, so that `node` is on the agent's PATH",
            Self::Python => ": install the package `python3`, so that it is on the agent's PATH",
            Self::Image => ": images need the runtime oci with podman",
            Self::Binary | Self::Program => "",
            Self::Wasm => ": enable the runtime `wasm` (`runtimes.enabled`)",
        }
    }

    /// The program that it needs, where it is; an empty path where it needs none, and none where it needs a container or
    /// a host.
    pub(super) fn interpreter(self) -> Option<PathBuf> {
        match self.needs() {
            None if matches!(self, Self::Image | Self::Wasm) => None,
            None => Some(PathBuf::new()),
            Some(name) => on_path(name),
        }
    }

    /// The one that is named, or else that of the folder's files.
    pub(super) fn of(name: Option<&str>, folder: &Path) -> Result<Self, Fault> {
        let Some(name) = name else { return Self::by_files(folder) };
        ALL.into_iter().find(|runner| runner.name() == form(name)).ok_or_else(|| Fault::NoRunner {
            name: name.to_owned(),
            has: here().join(", "),
            hint: "",
        })
    }

    fn by_files(folder: &Path) -> Result<Self, Fault> {
        let holds = |runner: &Runner| runner.files().iter().any(|file| folder.join(file).is_file());
        let mut found = BY_FILES.into_iter().filter(holds);
        match (found.next(), found.next()) {
            (None, _) if holds(&Self::Image) => Ok(Self::Image),
            (None, _) => Err(Fault::NoForm(folder.to_owned())),
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(Fault::TwoForms(one.name(), other.name())),
        }
    }

    /// A sandbox runs nothing else than these.
    pub(super) fn not_sandboxed(self, has: &[&str], place: &'static str) -> Fault {
        Fault::NoRunner { name: self.name().to_owned(), has: has.join(" and "), hint: place }
    }

    pub(super) fn missing(self) -> Fault {
        Fault::NoRunner { name: self.name().to_owned(), has: here().join(", "), hint: self.hint() }
    }
}

/// Those that this machine has, in order of their names.
pub(super) fn here() -> Vec<&'static str> {
    ALL.into_iter().filter(|runner| runner.interpreter().is_some()).map(Runner::name).collect()
}

/// A program on this process's path.
#[must_use]
pub fn on_path(name: &str) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}
