//! The host of a run: its command line, and the file that says what it serves.

use std::path::{Path, PathBuf};

use ::wasm::form::{Bounds, FILE, Hosted};

use super::super::Order;

/// What the host of a run is told lies in this file of it.
const HOSTED: &str = "host.json";
/// The part of a version's memory that its calls don't get: one of so many is the host's.
const HOSTS_PART: u64 = 4;
/// Threads that compile a component, at most.
const COMPILING: usize = 16;

/// What serves versions that are components.
#[derive(Debug, Clone)]
pub(in super::super) struct Host {
    /// What stands before the file on its command line.
    before: Vec<String>,
    bounds: Bounds,
}

impl Host {
    pub(super) fn new(before: Vec<String>, bounds: Bounds) -> Self {
        Self { before, bounds }
    }

    /// The program of a run, which is that of its shim, and its arguments.
    pub(in super::super) fn run(&self, folder: &Path) -> (PathBuf, Vec<String>) {
        let file = folder.join(HOSTED).display().to_string();
        (PathBuf::from("/proc/self/exe"), self.before.iter().cloned().chain([file]).collect())
    }

    /// What it finds in its environment besides what each one has: how many threads compile.
    pub(in super::super) fn environment() -> (String, String) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COMPILING);
        ("RAYON_NUM_THREADS".to_owned(), threads.to_string())
    }

    /// The name and the text of the file that says what is served.
    pub(in super::super) fn file(
        &self,
        order: &Order,
        (content, socket): (&Path, PathBuf),
    ) -> (&'static str, String) {
        let mut environment = order.environment.clone();
        environment.insert("CHOIRMASTER_VERSION".to_owned(), order.version.to_string());
        let memory = order.limits.memory - order.limits.memory / HOSTS_PART;
        let (component, bounds) = (content.join(FILE), self.bounds.clone());
        let hosted = Hosted { component, socket, environment, bounds, memory };
        (HOSTED, serde_json::json!(hosted).to_string())
    }
}
