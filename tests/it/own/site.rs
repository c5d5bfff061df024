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

    /// With what is in the folder beforehand; gives settings of the manager.
    pub async fn prepared(prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("own").tempdir().unwrap();
        for below in ["logs", "functions/fns"] {
            fs::create_dir_all(folder.path().join(below)).unwrap();
        }
        let functions = folder.path().join("functions");
        let set = prepare(folder.path());
        let manager = Manager::start(&folder.path().join("manager"), &functions, &set).await;
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
        self.version_of(None, &[("*", behaviour)])
    }

    /// Makes a version that is good where it is started first, and elsewhere not.
    pub fn version_good_where_first(&mut self, elsewhere: Behaviour) -> String {
        let first = self.logs().join(format!("v{}.first", self.versions));
        let first = first.display();
        let look = format!(
            "(set -C; echo $PWD >{first}) 2>/dev/null\n[ \"$(cat {first})\" = \"$PWD\" ] && place=first\n"
        );
        self.version_of(Some(&look), &[("first", Behaviour::Good), ("*", elsewhere)])
    }

    /// Makes a version that behaves by where it runs: the first pattern of the shell counts that fits. `look` may give that another
    /// name.
    fn version_of(&mut self, look: Option<&str>, by_place: &[(&str, Behaviour)]) -> String {
        let name = format!("v{}", self.versions);
        self.versions += 1;
        let log = self.logs().join(format!("{name}.log"));
        let mut script = format!("#!/bin/sh\nplace=$PWD\n{}case $place in\n", look.unwrap_or_default());
        for &(pattern, behaviour) in by_place {
            let told = Told { behaviour, log: log.clone(), listen: Listen::Port };
            let told = serde_json::to_string(&told).unwrap();
            script.push_str(&format!("{pattern}) export {ENVIRONMENT}='{told}' ;;\n"));
        }
        let program = std::env::current_exe().unwrap();
        script.push_str(&format!("esac\nexec '{}' {}\n", program.display(), arguments().join(" ")));
        self.write_version(&name, "run", &script);
        name
    }

    /// Makes a version of one file, and names it.
    pub fn version_with(&mut self, file: &str, text: &str) -> String {
        let name = format!("v{}", self.versions);
        self.versions += 1;
        self.write_version(&name, file, text);
        name
    }

    fn write_version(&self, name: &str, file: &str, text: &str) {
        let folder = self.content(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
        fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o755)).unwrap();
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
        self.node_below(&self.manager, name, set).await
    }

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
