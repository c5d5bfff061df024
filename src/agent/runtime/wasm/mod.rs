//! Versions as WebAssembly components, where the program has the feature `wasm`: as the runtime `process` runs them, with the same shim,
//! content, log, checks and limits, and so found again the same way, but each served by a host of its own (the member `wasm`).
//!
//! A version is a folder with a component in `fn.wasm` that exports `wasi:http/incoming-handler` of WASI 0.2, as for `wasmtime serve`:
//! what `cargo build --target wasm32-wasip2`, `TinyGo`, `componentize-py` and `jco componentize` make for the world `wasi:http/proxy`.
//!
//! What such a version can do:
//!
//! - answer calls, each in an instance of its own that is gone with the call. Bodies are streamed both ways, with trailers;
//! - write to standard output and error, which is its log;
//! - call over HTTP and HTTPS whom `wasm.outgoing` names, and nobody else. It has no other way to the network, no files, no arguments and
//!   no environment but what an order has and `CHOIRMASTER_VERSION`. It has clocks and random numbers.
//!
//! A call that fails, takes too long or needs too much memory ends alone. What the host needs besides (to compile a component takes
//! several times its size) counts with all calls as the version's memory: who passes that is ended and started again, as a process is. A
//! component is compiled at each start of its host: to keep what was compiled would mean to trust a file with machine code.

mod host;

use std::sync::Arc;

use ::wasm::form::Bounds;

use super::{
    Fault, RuntimeError,
    process::{self, ProcessRuntime},
};

use self::host::Host;
pub use ::wasm::{IS_BUILT_IN, NOT_BUILT_IN, form, main};

/// What serves components, and within which bounds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder, shim and control groups, as for the runtime `process`. The folder is another one.
    pub process: process::Settings,
    /// What stands before the file where a shim's program is called as the host.
    pub host: Vec<String>,
    pub bounds: Bounds,
}

impl Settings {
    /// The host is this program.
    #[must_use]
    pub fn new(process: process::Settings, bounds: Bounds) -> Self {
        Self { process, host: ["agent", "wasm-host"].map(str::to_owned).to_vec(), bounds }
    }
}

/// Runs versions as components. Takes the folder, and makes it where there is none.
pub fn open(settings: Settings) -> Result<ProcessRuntime, RuntimeError> {
    if !IS_BUILT_IN {
        return Err(Fault::Setting { name: "runtimes.enabled", why: format!("wasm: {NOT_BUILT_IN}") }.into());
    }
    let Settings { process, host, bounds } = settings;
    ProcessRuntime::open_in(process, Some(Arc::new(Host::new(host, bounds))))
}
