use std::{fmt, io, path::PathBuf, time::Duration};

use super::super::form::FILE;

/// Why a component is not served.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(
        "{0} holds a core module, and not a component: build it for the target wasm32-wasip2, or make a component of it with \
         `wasm-tools component new`"
    )]
    CoreModule(PathBuf),
    #[error("{FILE} is no component that can be compiled: {0}")]
    Invalid(Text),
    #[error(
        "{FILE} asks for what a component isn't given here, which is WASI 0.2 (wasi:cli/imports, wasi:http/imports): {0}"
    )]
    Imports(Text),
    #[error(
        "{FILE} exports no wasi:http/incoming-handler of WASI 0.2: build it for the world wasi:http/proxy, as for `wasmtime serve`: {0}"
    )]
    Exports(Text),
    #[error(
        "an instance of {FILE} needs more than the {0} bytes of memory that a call has: raise `wasm.memory` (which has to be below \
         `limits.memory`), or build one that needs less"
    )]
    Memory(u64),
    #[error("an instance of {FILE} did not come about within {} s: what it does at its start takes too long", .0.as_secs_f64())]
    Slow(Duration),
    #[error("{FILE} ended as an instance of it was made, with status {0}")]
    Ended(u8),
    #[error("no instance of {FILE} can be made: {0}")]
    Instance(Text),
    #[error("{doing}: {source}")]
    Io { doing: String, source: io::Error },
}

impl Fault {
    /// The exit status of the host.
    pub fn code(&self) -> u8 {
        match self {
            Self::Ended(code) => *code,
            Self::CoreModule(_)
            | Self::Invalid(_)
            | Self::Imports(_)
            | Self::Exports(_)
            | Self::Memory(_)
            | Self::Slow(_)
            | Self::Instance(_) => 1,
            Self::Io { .. } => 2,
        }
    }

    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// The most characters of what is said of an error. What it came from follows it, and may name every function of a deep stack.
const LONGEST: usize = 2_000;

/// An error of what runs components, with what it came from, cut where it gets long.
#[derive(Debug)]
pub struct Text(String);

impl Text {
    pub(super) fn of(error: &wasmtime::Error) -> Self {
        let text = format!("{error:?}");
        Self(match text.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{} …", &text[..at]),
            None => text,
        })
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
