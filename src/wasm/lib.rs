//! Serves a WebAssembly component that answers calls over HTTP: the process that the runtime `wasm` of an agent starts for each version.
//!
//! A component exports `wasi:http/incoming-handler` of WASI 0.2, as for `wasmtime serve`. Each call gets an instance of its own, which
//! is gone with the call: nothing that one call leaves is seen by another, and one that fails fails alone.
//!
//! What serves is behind the feature `host`, since what compiles components takes minutes to build. Without it there is what an agent
//! says to a host ([`form`]), and [`main`] says what is missing.

pub mod form;
#[cfg(feature = "host")]
mod host;

use std::{ffi::OsString, io::Write, process::ExitCode};

/// Whether this program can serve components.
pub const IS_BUILT_IN: bool = cfg!(feature = "host");

/// What is said where it can't.
pub const NOT_BUILT_IN: &str = "this program was built without the feature `wasm`: build it with `cargo build --release --features wasm`";

/// What `choirmaster agent wasm-host FILE` does, given what stands behind it on the command line: serves what the file says
/// ([`form::Hosted`], as JSON) until SIGTERM. What prevents that is said on standard error.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let [file] = arguments else {
        return failed("this is called by `choirmaster agent`: wasm-host FILE", 127);
    };
    #[cfg(feature = "host")]
    match host::run(file.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => failed(&fault.to_string(), fault.code()),
    }
    #[cfg(not(feature = "host"))]
    {
        let _ = file;
        failed(NOT_BUILT_IN, 127)
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    // Whoever reads it may have gone.
    let _ = std::io::stderr().write_all(format!("choirmaster: {why}\n").as_bytes());
    ExitCode::from(code)
}
