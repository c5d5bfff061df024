//! The samples of `releases/` and `fns/`, within the program: a demo needs no checkout.

use std::{fs, io, path::Path};

use language::Strategy;

/// How a sample is meant to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Every child runs the new versions.
    RolledOut,
    /// It fails everywhere, and every child runs the base versions.
    RolledBack,
}

/// A sample release.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// In `releases/`.
    pub file: &'static str,
    pub text: &'static str,
    pub expected: Expected,
}

impl Sample {
    /// What it says; `None` would be a fault of the sample, and a test looks for it.
    pub fn strategy(&self) -> Option<Strategy> {
        language::check(self.text).strategy
    }
}

macro_rules! sample {
    ($file:literal, $expected:ident) => {
        Sample {
            file: $file,
            text: include_str!(concat!("../../../releases/", $file)),
            expected: Expected::$expected,
        }
    };
}

/// In the order of the demo. The bad one stands among good ones, so that it has something to leave as it is.
pub const SAMPLES: [Sample; 7] = [
    sample!("canary.yml", RolledOut),
    sample!("ab.yml", RolledOut),
    sample!("two-stage.yml", RolledOut),
    sample!("bad.yml", RolledBack),
    sample!("gradual.yml", RolledOut),
    sample!("jump.yml", RolledOut),
    sample!("two-functions.yml", RolledOut),
];

/// A sample for a tree of managers.
#[derive(Debug, Clone, Copy)]
pub struct TreeSample {
    /// In `releases/`.
    pub file: &'static str,
    pub text: &'static str,
    /// What is to be seen.
    pub story: &'static str,
    /// It reaches the west and nobody else; else it is taken back everywhere.
    pub is_west: bool,
}

impl TreeSample {
    /// The release's id, which is also the file's name.
    pub fn id(&self) -> &'static str {
        self.file.trim_end_matches(".yml")
    }
}

/// In the order of the demo.
pub const TREE_SAMPLES: [TreeSample; 2] = [
    TreeSample {
        file: "everywhere.yml",
        text: include_str!("../../../releases/everywhere.yml"),
        story: "fails in one corner when the west has it: taken back everywhere",
        is_west: false,
    },
    TreeSample {
        file: "west.yml",
        text: include_str!("../../../releases/west.yml"),
        story: "for the west alone: it reaches its target, and nobody else",
        is_west: true,
    },
];

/// Part of the path of versions that are bad on purpose.
pub const BAD_PATH: &str = "broken";

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_bytes!(concat!("../../../", $path)).as_slice())),*]
    };
}

/// Path and content of each file of the sample functions.
pub const FILES: [(&str, &[u8]); 13] = files![
    "fns/greet_base/fn.py",
    "fns/greet_base/requirements.txt",
    "fns/greet_new/fn.py",
    "fns/greet_new/requirements.txt",
    "fns/shout_base/fn.sh",
    "fns/shout_broken/fn.sh",
    "fns/shout_new/fn.sh",
    "fns/sieve_base/index.js",
    "fns/sieve_base/package.json",
    "fns/sieve_broken/index.js",
    "fns/sieve_broken/package.json",
    "fns/sieve_new/index.js",
    "fns/sieve_new/package.json",
];

/// Writes the sample functions below a folder.
pub fn write_functions(root: &Path) -> io::Result<()> {
    for (path, content) in FILES {
        let file = root.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, content)?;
    }
    Ok(())
}
