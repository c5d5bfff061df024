//! The machine an agent runs on: what survives the agent's restart.
//!
//! That is the working folder with the unpacked functions, the versions set up on it, what answers the
//! callers of each function, and (for newer children) the id and what they have in hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Cursor, Read},
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{
    area::area_of,
    config::FleetConfig,
    offer::Function,
    report::{AgentReport, Exit, LiveVersion},
};

/// Most bytes unpacked from one archive.
const MAX_UNPACKED_BYTES: u64 = 256 * 1024 * 1024;

/// Permissions with which a function can be set up.
const READABLE_MODE: u32 = 0o644;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Base,
    New,
}

/// How far a child is with a strategy that it has in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    pub offer: String,
    /// `None`: it has not begun the first.
    pub stage: Option<String>,
}

#[derive(Debug)]
pub struct Machine {
    /// The same over all restarts.
    pub area: Box<RawValue>,
    /// Where a modern child keeps its id.
    pub saved_id: Option<String>,
    /// Where one that takes whole strategies keeps how far it is.
    pub walk: Option<Walk>,
    pub ids: Vec<String>,
    pub restarts: u64,
    pub offers_run: u64,
    folders: BTreeSet<String>,
    /// Each file of the working folder, and whether it can be read.
    files: BTreeMap<String, bool>,
    /// Test versions set up and not yet removed, with the folder each was made from.
    versions: BTreeMap<(String, Role), String>,
    live: BTreeMap<String, LiveVersion>,
    /// How long callers of a function got errors or nothing, on the children's clock.
    without_service: Duration,
    /// Since when nobody answers behind a proxy that an agent left behind.
    orphaned: Option<Instant>,
    pace: f64,
    setups: BTreeMap<String, u64>,
    reused: u64,
}

impl Machine {
    pub fn new(index: usize, config: &FleetConfig) -> Self {
        Self {
            area: area_of(index, config.agents, config.seed, &config.spread),
            saved_id: None,
            walk: None,
            ids: Vec::new(),
            restarts: 0,
            offers_run: 0,
            folders: BTreeSet::new(),
            files: BTreeMap::new(),
            versions: BTreeMap::new(),
            live: BTreeMap::new(),
            without_service: Duration::ZERO,
            orphaned: None,
            pace: config.pace,
            setups: BTreeMap::new(),
            reused: 0,
        }
    }

    /// Unpacks an archive where the agent stands, entry by entry. A file whose folder had no entry before it can't
    /// be written, and ends the unpacking without anybody noticing. What is not an archive is an error.
    pub fn unpack(&mut self, archive: &[u8]) -> Result<(), String> {
        let mut archive = zip::ZipArchive::new(Cursor::new(archive)).map_err(|error| error.to_string())?;
        let mut unpacked = 0;
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(|error| error.to_string())?;
            let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            let path = clean(&name);
            if name.ends_with('/') {
                let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
                self.folders.extend(ends.map(|end| path[..end].to_owned()));
                continue;
            }
            let folder = path.rsplit_once('/').map(|(folder, _)| folder);
            if folder.is_some_and(|folder| !self.folders.contains(folder)) {
                return Ok(());
            }
            let mode = entry.unix_mode().unwrap_or_default() & 0o777;
            let left = MAX_UNPACKED_BYTES - unpacked;
            let size = std::io::copy(&mut entry.by_ref().take(left), &mut std::io::sink())
                .map_err(|error| error.to_string())?;
            unpacked += size;
            if unpacked >= MAX_UNPACKED_BYTES {
                return Err("the disk is full".into());
            }
            self.files.insert(path.to_owned(), mode == READABLE_MODE);
        }
        Ok(())
    }

    /// Whether a version can be set up from the folder: it is there, holds something, and all of it can be read.
    fn has_version(&self, path: &str) -> bool {
        let path = clean(path);
        let prefix = format!("{path}/");
        let mut inside =
            self.files.range(prefix.clone()..).take_while(|(file, _)| file.starts_with(&prefix)).peekable();
        self.folders.contains(path) && inside.peek().is_some() && inside.all(|(_, readable)| *readable)
    }

    /// Sets up both versions of each function; those that an earlier agent left behind are used as they are.
    /// False: a folder is missing or can't be read, and the agent gives up without a word.
    pub fn set_up(&mut self, functions: &[Function]) -> bool {
        for function in functions {
            for (role, path) in
                [(Role::Base, &function.base_version.path), (Role::New, &function.new_version.path)]
            {
                let slot = (function.name.clone(), role);
                if self.versions.contains_key(&slot) {
                    self.reused += 1;
                } else if self.has_version(path) {
                    self.versions.insert(slot, path.clone());
                    *self.setups.entry(path.clone()).or_default() += 1;
                } else {
                    return false;
                }
            }
        }
        true
    }

    /// The folder a test version was made from, `None` once it is removed.
    pub fn version(&self, function: &str, role: Role) -> Option<&str> {
        self.versions.get(&(function.to_owned(), role)).map(String::as_str)
    }

    /// Callers got errors for so long, on the child's clock: there was nothing left that could answer.
    pub fn fail(&mut self, time: Duration) {
        self.without_service += time;
    }

    /// The proxy answers the callers now.
    pub fn start_proxy(&mut self, function: &Function) {
        self.serve_again();
        self.live.insert(function.name.clone(), LiveVersion::Proxy);
    }

    /// One version answers the callers; the test versions and the proxy are removed.
    pub fn settle(&mut self, function: &Function, role: Role) {
        let path = match role {
            Role::Base => &function.base_version.path,
            Role::New => &function.new_version.path,
        };
        let path = self.version(&function.name, role).unwrap_or(path).to_owned();
        for role in [Role::Base, Role::New] {
            self.versions.remove(&(function.name.clone(), role));
        }
        let live = match role {
            Role::Base => LiveVersion::Base { path },
            Role::New => LiveVersion::New { path },
        };
        self.serve_again();
        self.live.insert(function.name.clone(), live);
    }

    /// The agent is gone: a proxy it leaves behind fails every call.
    pub fn abandon(&mut self) {
        for live in self.live.values_mut() {
            if matches!(live, LiveVersion::Proxy) {
                *live = LiveVersion::OrphanedProxy;
                self.orphaned.get_or_insert_with(Instant::now);
            }
        }
    }

    fn serve_again(&mut self) {
        if let Some(since) = self.orphaned.take() {
            self.without_service += since.elapsed().div_f64(self.pace);
        }
    }

    /// Whether a new version is what callers get, for any function.
    pub fn runs_new(&self) -> bool {
        self.live.values().any(|live| matches!(live, LiveVersion::New { .. }))
    }

    pub fn into_report(mut self, index: usize, exit: Option<Exit>) -> AgentReport {
        self.serve_again();
        AgentReport {
            index,
            ids: self.ids,
            exit,
            live: self.live,
            without_service_ms: self.without_service.as_millis() as u64,
            setups: self.setups,
            reused: self.reused,
            restarts: self.restarts,
            offers_run: self.offers_run,
        }
    }
}

/// A path without what doesn't count: `./fns/a/` is `fns/a`.
fn clean(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}
