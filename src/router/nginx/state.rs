//! What is kept beside the include: by which number nginx was led last, and which buckets belong to which folder, so that they can be
//! made anew where the memory that they were in is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::nginx::config::Place;
use serde::{Deserialize, Serialize};
use traffic::{
    Run, Table, Variation,
    desired::{DesiredConfig, Number, Service},
};

use crate::{
    RouterError,
    disk::{self, Disk},
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    newest: Option<(u64, u64)>,
    /// By their paths below the folder of all: what the include looks into.
    pub folders: BTreeMap<String, Buckets>,
    /// What the include before looked into, by which workers may go that end.
    pub leaving: BTreeMap<String, Buckets>,
    /// The ids of the services of TCP and UDP that went last, where none is left: nothing counts sessions of theirs that may be open.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    untracked_sessions: BTreeSet<String>,
}

/// What a folder of buckets is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    variations: usize,
    /// From, to before, and the place of the variation.
    runs: Vec<(u16, u16, u8)>,
    /// Which variation each value of the header leads to by which callers ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<u8>,
}

impl Buckets {
    fn of(service: &Service) -> Self {
        let runs = service.table.runs().into_iter().map(|run| (run.from, run.to, run.variation.0)).collect();
        let values = service.rule.iter().flat_map(|rule| &rule.values);
        let asked = values.map(|(_, which)| which.0).collect();
        Self { variations: service.table.variations(), runs, asked }
    }

    /// None where what was written is no table.
    pub fn table(&self) -> Option<Table> {
        let run = |&(from, to, which): &(u16, u16, u8)| Run { from, to, variation: Variation(which) };
        Table::from_runs(self.variations, &self.runs.iter().map(run).collect::<Vec<_>>()).ok()
    }
}

/// The path of a service's buckets below the folder of all.
pub fn folder_of(place: &Place) -> String {
    format!("{}/{}", place.id, place.structure)
}

/// What the folder of each service of HTTP is to have.
pub fn folders_of(wanted: &DesiredConfig, places: &[Place]) -> BTreeMap<String, Buckets> {
    let services = places.iter().filter_map(|place| Some((place, wanted.service(place.service.as_str())?)));
    services.map(|(place, service)| (folder_of(place), Buckets::of(service))).collect()
}

impl State {
    /// Nothing was kept yet where there is no file.
    pub fn read(path: &Path) -> Result<Self, RouterError> {
        let Some(bytes) = disk::read(path)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).map_err(|error| disk::at(path)(error.into()))
    }

    pub fn write(&self, disk: &Disk, path: &Path) -> Result<(), RouterError> {
        let bytes = serde_json::to_vec(self).map_err(|error| disk::at(path)(error.into()))?;
        disk.replace(path, &bytes)
    }

    pub fn newest(&self) -> Option<Number> {
        self.newest.map(|(epoch, generation)| Number { epoch, generation })
    }

    /// Notes by which number nginx is led from now on.
    ///
    /// # Errors
    ///
    /// It was led by a newer one.
    pub fn lead_by(&mut self, asked: Number) -> Result<(), RouterError> {
        match self.newest() {
            Some(newest) if asked < newest => Err(RouterError::Older { asked, newest }),
            Some(_) | None => {
                self.newest = Some((asked.epoch, asked.generation));
                Ok(())
            }
        }
    }

    /// Notes which services of TCP and UDP there were before a load, and whether there are some after it: then sessions are counted.
    pub fn track_sessions(&mut self, before: BTreeSet<String>, are_counted: bool) {
        if are_counted {
            self.untracked_sessions.clear();
        } else if !before.is_empty() {
            self.untracked_sessions = before;
        }
    }

    /// Whether sessions of a service may be open that nothing counts. One that takes HTTP by now is drained by its calls alone.
    pub fn has_untracked_sessions(&self, id: &str) -> bool {
        let mut paths = self.folders.keys().chain(self.leaving.keys());
        let takes_http = paths.any(|path| path.split_once('/').is_some_and(|(of, _)| of == id));
        self.untracked_sessions.contains(id) && !takes_http
    }

    /// What a folder is to have, by its path below the folder of all; none where nobody looks into it.
    pub fn buckets(&self, path: &str) -> Option<&Buckets> {
        self.folders.get(path).or_else(|| self.leaving.get(path))
    }
}
