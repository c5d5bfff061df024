//! The host of a run: its command line, and the file that says what it serves.

use std::{collections::BTreeMap, path::PathBuf};

use ::wasm::form::{Bounds, FILE, Hosted};

use super::super::{
    error::Fault,
    process::{Sandbox, SandboxedVersion, StartOptions},
};

/// What the host of a run is told lies in this file of it.
const HOSTED: &str = "host.json";
/// The part of a version's memory that its calls don't get: one of so many is the host's.
const HOSTS_PART: u64 = 4;
/// Threads that compile a component, at most.
const COMPILING: usize = 16;

/// What serves versions that are components.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// What stands before the file on its command line.
    before: Vec<String>,
    bounds: Bounds,
}

impl Host {
    pub(super) fn new(before: Vec<String>, bounds: Bounds) -> Self {
        Self { before, bounds }
    }
}

impl Sandbox for Host {
    fn runtime(&self) -> &'static str {
        "wasm"
    }

    fn forms(&self) -> Vec<&'static str> {
        vec!["wasm"]
    }

    fn place(&self) -> &'static str {
        " by the runtime wasm"
    }

    /// Its program is that of its shim.
    fn start_options(&self, version: &SandboxedVersion) -> Result<StartOptions, Fault> {
        let SandboxedVersion { order, folder, content, socket, .. } = version;
        let mut environment = order.environment.clone();
        environment.insert("CHOIRMASTER_VERSION".to_owned(), order.version.to_string());
        let memory = order.limits.memory - order.limits.memory / HOSTS_PART;
        let (component, bounds) = (content.join(FILE), self.bounds.clone());
        let hosted = Hosted { component, socket: socket.clone(), environment, bounds, memory };
        let file = folder.join(HOSTED).display().to_string();
        // How many threads compile.
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COMPILING);
        Ok(StartOptions {
            program: PathBuf::from("/proc/self/exe"),
            arguments: self.before.iter().cloned().chain([file]).collect(),
            removal: Vec::new(),
            environment: BTreeMap::from([("RAYON_NUM_THREADS".to_owned(), threads.to_string())]),
            file: (HOSTED, serde_json::json!(hosted).to_string().into_bytes()),
        })
    }
}
