use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use proxy::live::Target;
use serde::{Deserialize, Serialize};

use super::super::{Exit, Fault, Limits, Phase, Running, VersionId};

/// The most versions of a list.
const MAX_VERSIONS: usize = 1000;
/// Bytes of a log's end that are kept.
const TAIL: usize = 4096;

/// What is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Ask<'a> {
    Start {
        version: &'a VersionId,
        #[serde(skip_serializing_if = "Option::is_none")]
        runner: Option<&'a str>,
        folder: &'a Path,
        #[serde(skip_serializing_if = "Option::is_none")]
        zip: Option<String>,
        environment: &'a BTreeMap<String, String>,
        limits: &'a Limits,
        health: HealthForm<'a>,
    },
    Stop {
        version: &'a VersionId,
        grace_ms: u64,
    },
    List,
}

#[derive(Debug, Serialize)]
pub(super) struct HealthForm<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    pub give_up_ms: u64,
}

/// What goes with each.
#[derive(Debug, Serialize)]
pub(super) struct Signed<'a> {
    #[serde(flatten)]
    pub ask: &'a Ask<'a>,
    pub generation: u64,
    pub agent: &'a str,
}

/// What is there, as it is answered.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub generation: u64,
    pub versions: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub version: VersionId,
    #[serde(default)]
    pub runner: String,
    #[serde(default)]
    pub target: Option<String>,
    pub phase: EntryPhase,
    #[serde(default)]
    pub pid: Option<u32>,
    #[serde(default)]
    pub restarts: u64,
    #[serde(default)]
    pub last_exit: Option<Exit>,
    #[serde(default)]
    pub log: String,
    #[serde(default)]
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryPhase {
    Starts,
    Runs,
    Pauses,
    Stops,
    Failed,
}

impl EntryPhase {
    /// Whether something of it is there.
    pub(super) fn is_alive(self) -> bool {
        match self {
            Self::Starts | Self::Runs | Self::Pauses | Self::Stops => true,
            Self::Failed => false,
        }
    }
}

impl Listed {
    /// Reads a list; an error says what is wrong with it.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let mut listed: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if listed.versions.len() > MAX_VERSIONS {
            return Err(format!("{} versions are more than {MAX_VERSIONS}", listed.versions.len()));
        }
        let (mut versions, mut targets) = (HashSet::new(), HashSet::new());
        for entry in &mut listed.versions {
            if !versions.insert(entry.version.clone()) {
                return Err(format!("{} is there twice", entry.version));
            }
            let has_target = match (&entry.target, entry.phase) {
                (Some(target), EntryPhase::Runs | EntryPhase::Starts | EntryPhase::Pauses) => Some(target),
                (None, EntryPhase::Runs) => return Err(format!("{} runs nowhere", entry.version)),
                (_, EntryPhase::Stops | EntryPhase::Failed)
                | (None, EntryPhase::Starts | EntryPhase::Pauses) => None,
            };
            if let Some(target) = has_target {
                let parsed = target_of(target)?;
                if !targets.insert(parsed) {
                    return Err(format!("two versions are at {target}"));
                }
            }
            entry.cut();
        }
        Ok(listed)
    }
}

impl Entry {
    /// Long texts are for a person to read: their ends are.
    fn cut(&mut self) {
        for text in [&mut self.log, &mut self.why] {
            let mut from = text.len().saturating_sub(TAIL);
            while !text.is_char_boundary(from) {
                from += 1;
            }
            text.drain(..from);
        }
        self.runner.truncate(self.runner.char_indices().nth(64).map_or(self.runner.len(), |(at, _)| at));
    }

    pub(super) fn target(&self) -> Result<Target, Fault> {
        let target = self.target.as_deref().unwrap_or_default();
        target_of(target).map_err(|why| Fault::Refused { by: "its list".to_owned(), why })
    }

    pub(super) fn running(&self) -> Result<Running, Fault> {
        Ok(Running {
            version: self.version.clone(),
            runner: self.runner.clone(),
            target: self.target()?,
            phase: match self.phase {
                EntryPhase::Starts | EntryPhase::Runs => Phase::Runs,
                EntryPhase::Pauses => Phase::Pauses,
                EntryPhase::Stops | EntryPhase::Failed => Phase::Stops,
            },
            pid: self.pid,
            restarts: self.restarts,
            last_exit: self.last_exit.clone(),
        })
    }
}

/// A place that can be called from here. A path of a socket would be one of this machine, which isn't theirs to name.
fn target_of(text: &str) -> Result<Target, String> {
    let shown: String = text.chars().take(100).collect();
    match text.parse() {
        Ok(target @ (Target::Tcp(address) | Target::Below { address, .. }))
            if address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast() =>
        {
            Ok(target)
        }
        Ok(Target::Tcp(_) | Target::Below { .. } | Target::Unix(_)) | Err(_) => {
            Err(format!("{shown:?} is no address that can be called"))
        }
    }
}

/// What names agents and forms.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
