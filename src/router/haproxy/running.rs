//! What the process that serves says of itself.

use crate::haproxy::config::{
    Info, Maps, ProcessReport, SHOW_INFO, SHOW_LOAD, SHOW_MAPS, SHOW_SERVERS, STATE, Structure, entries_of,
    info_of, maps_of, seen, show_map,
};
use traffic::observed::ObservedConfig;

use super::{
    Haproxy, NAME,
    runtime_socket::{Session, no_sense},
};
use crate::RouterError;

/// A process that serves, and what it said before anything of it was changed.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) session: Session,
    pub(super) pid: u32,
    /// Of the file that it loaded; none where that has nothing of ours.
    pub(super) structure: Option<Structure>,
    /// Its map [`STATE`], and the others once they were read.
    pub(super) maps: Maps,
}

/// So often a process is asked that has been replaced and answers still.
const TRIES: u32 = 100;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

impl Running {
    /// The one that takes calls now.
    pub(super) async fn find(haproxy: &Haproxy) -> Result<Self, RouterError> {
        for _ in 0..TRIES {
            let mut session = haproxy.session().await?;
            let Info { pid, is_stopping } = info_of(&session.ask(SHOW_INFO).await?).map_err(no_sense)?;
            if is_stopping {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let names = session.ask(SHOW_MAPS).await?;
            let names = maps_of(&names).map_err(no_sense)?;
            let folder = &haproxy.settings.frame.folder;
            // Any of ours tells it: one that hundreds of lines name, as [`STATE`] is with as many services, isn't listed.
            let structure =
                names.into_iter().find_map(|name| folder.is_map_of(name)).map(|(structure, _)| structure);
            let mut running = Self { session, pid, structure, maps: Maps::new() };
            running.read_map(haproxy, STATE).await?;
            return Ok(running);
        }
        let doing = "finding the process that serves".to_owned();
        Err(RouterError::Silent { router: NAME, within: TRIES * PAUSE, doing })
    }

    /// Reads all maps.
    pub(super) async fn read_maps(&mut self, haproxy: &Haproxy) -> Result<(), RouterError> {
        self.read_map(haproxy, STATE).await?;
        let names = self.session.ask(SHOW_MAPS).await?;
        for name in maps_of(&names).map_err(no_sense)? {
            if let Some((_, name)) = haproxy.settings.frame.folder.is_map_of(name)
                && name != STATE
            {
                self.read_map(haproxy, name).await?;
            }
        }
        Ok(())
    }

    async fn read_map(&mut self, haproxy: &Haproxy, name: &str) -> Result<(), RouterError> {
        if let Some(path) = self.map(haproxy, name) {
            let entries = entries_of(&self.session.ask(&show_map(&path)).await?).map_err(no_sense)?;
            self.maps.insert(name.to_owned(), entries);
        }
        Ok(())
    }

    /// The name by which the process knows a map of ours.
    pub(super) fn map(&self, haproxy: &Haproxy, name: &str) -> Option<String> {
        let structure = self.structure.as_ref()?;
        Some(format!("{}/{name}", haproxy.settings.frame.folder.maps(structure)))
    }

    /// What it does, by the maps as they were read.
    pub(super) async fn seen(&mut self) -> Result<ObservedConfig, RouterError> {
        let servers = self.session.ask(SHOW_SERVERS).await?;
        let load = self.session.ask(SHOW_LOAD).await?;
        seen(ProcessReport { maps: &self.maps, servers: &servers, load: &load }).map_err(no_sense)
    }

    /// Whether it takes calls still.
    pub(super) async fn serves(&mut self) -> Result<bool, RouterError> {
        let info = info_of(&self.session.ask(SHOW_INFO).await?).map_err(no_sense)?;
        Ok(!info.is_stopping)
    }
}
