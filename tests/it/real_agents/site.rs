//! A folder with all that a test has: a manager, agents, versions and what these write down.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    manager::Manager,
    node::Node,
    processes::{self, Found},
    serving::{Behaviour, ENVIRONMENT, Listen, Told, arguments, bad_file},
};

/// What functions are called: callers call it so.
pub const FUNCTION: &str = "a";

pub struct Site {
    // In this order: what runs ends before the folder does.
    pub manager: Manager,
    ends: Ends,
    versions: u32,
}

/// Ends all that has to do with a folder, and removes that.
struct Ends(TempDir);

impl Drop for Ends {
    fn drop(&mut self) {
        processes::end_all(self.0.path());
    }
}

impl Site {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With settings of the manager, as `KEY=VALUE`.
    pub async fn with(set: &[String]) -> Self {
        Self::prepared(|_| set.to_vec()).await
    }

    /// On a store elsewhere.
    pub async fn on(store: &str, set: &[String]) -> Self {
        Self::prepared_on(Some(store.to_owned()), |_| set.to_vec()).await
    }

    /// With what is in the folder beforehand; gives settings of the manager.
    pub async fn prepared(prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        Self::prepared_on(None, prepare).await
    }

    async fn prepared_on(store: Option<String>, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("own").tempdir().unwrap();
        for below in ["logs", "functions/fns"] {
            fs::create_dir_all(folder.path().join(below)).unwrap();
        }
        let functions = folder.path().join("functions");
        let set = prepare(folder.path());
        let manager = Manager::on(store, &folder.path().join("manager"), &functions, &set).await;
        Self { manager, ends: Ends(folder), versions: 0 }
    }

    pub fn folder(&self) -> &Path {
        self.ends.0.path()
    }

    /// Where managers have functions from.
    pub fn functions(&self) -> PathBuf {
        self.folder().join("functions")
    }

    /// Where versions write down what they carry out.
    pub fn logs(&self) -> PathBuf {
        self.folder().join("logs")
    }

    /// Makes a version that behaves so, and names it.
    pub fn version(&mut self, behaviour: Behaviour) -> String {
        let name = format!("v{}", self.versions);
        self.versions += 1;
        let told = Told { behaviour, log: self.logs().join(format!("{name}.log")), listen: Listen::Port };
        let told = serde_json::to_string(&told).unwrap();
        let program = std::env::current_exe().unwrap();
        let (program, arguments) = (program.display(), arguments().join(" "));
        let script = format!("#!/bin/sh\nexport {ENVIRONMENT}='{told}'\nexec '{program}' {arguments}\n");
        let run = self.content(&name).join("run");
        fs::create_dir_all(self.content(&name)).unwrap();
        fs::write(&run, script).unwrap();
        fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
        name
    }

    /// Has a version that turns be bad, or good again.
    pub fn turn(&self, version: &str, is_bad: bool) {
        let file = bad_file(&self.logs().join(format!("{version}.log")));
        if is_bad { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// The folder of a version.
    pub fn content(&self, version: &str) -> PathBuf {
        self.functions().join("fns").join(version)
    }

    /// An agent below the manager, with a proxy beside it. `set`: `KEY=VALUE`.
    pub async fn node(&self, name: &str, set: &[&str]) -> Node {
        Node::start(&self.folder().join(name), name, &self.manager.url(), set).await
    }

    /// An agent below another manager.
    pub async fn node_below(&self, manager: &Manager, name: &str, set: &[&str]) -> Node {
        Node::start(&self.folder().join(name), name, &manager.url(), set).await
    }

    /// Processes of a version: those that carry out calls.
    pub fn running(&self, version: &str) -> Vec<Found> {
        let log = self.logs().join(format!("{version}.log"));
        let mut found = processes::with(log.to_str().unwrap());
        found.retain(|one| one.arguments.contains("what_a_process_of_its_own_runs"));
        found
    }

    /// All versions of which anything runs.
    pub fn all_running(&self) -> Vec<String> {
        let all = (0..self.versions).map(|number| format!("v{number}"));
        all.filter(|version| !self.running(version).is_empty()).collect()
    }
}
