//! The file of services of TCP and UDP, next to the include: written, compared with what the include says of it, and asked about.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    Include, Nginx,
    ask::{Door, Sessions},
    config::{
        STREAM_ENDING, StreamService, id_of, parse_stream, session, shutdown_timeout, stream_digest,
        stream_not_included, stream_of,
    },
    process,
};
use crate::{
    RouterError,
    disk::{self, Disk},
};

/// What the running nginx does for services of TCP and UDP.
#[derive(Default)]
pub(super) struct ObservedStream {
    pub services: Vec<StreamService>,
    /// It is what the include says.
    pub is_as_included: bool,
    /// What is there and belongs to nothing that is known.
    pub left_over: Option<String>,
}

/// The key of no session: whoever asks by it wants to know what is loaded.
const NO_SESSION: &str = "0";

impl Nginx {
    fn stream_file(&self) -> PathBuf {
        disk::beside(&self.settings.include, STREAM_ENDING)
    }

    /// None where there is no service in it.
    fn stream_there(&self) -> Result<Option<String>, RouterError> {
        let text = disk::read(&self.stream_file())?.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.filter(|text| stream_digest(text).is_some()))
    }

    /// Has the file be this. One without services stays: somebody includes it.
    pub(super) fn write_stream(&self, disk: &Disk, wanted: Option<&str>) -> Result<(), RouterError> {
        let there = self.stream_there()?;
        if there.as_deref() == wanted {
            return Ok(());
        }
        disk.replace(&self.stream_file(), wanted.unwrap_or_default().as_bytes())
    }

    /// Whether the file is as this include has it.
    pub(super) fn has_stream(&self, include: &Include) -> Result<bool, RouterError> {
        Ok(self.stream_there()? == stream_of(&include.text))
    }

    /// Whether the running nginx has loaded this file.
    pub(super) async fn has_loaded_stream(&self, file: Option<&str>) -> Result<bool, RouterError> {
        let Some(file) = file else { return Ok(true) };
        let running = self.stream_running().await?;
        Ok(running.is_some() && running.as_deref() == stream_digest(file))
    }

    /// The digest of the file that the running nginx has loaded; none where it has none with services.
    async fn stream_running(&self) -> Result<Option<String>, RouterError> {
        Ok(self.ask_stream(NO_SESSION).await?.map(|answer| answer.digest))
    }

    /// None where nothing is loaded that answers.
    async fn ask_stream(&self, session: &str) -> Result<Option<Sessions>, RouterError> {
        let Some(at) = self.settings.layout.ask_stream else { return Ok(None) };
        match (Door { at, time_limit: self.settings.time_limit }).sessions(session).await {
            Ok(answer) => Ok(Some(answer)),
            Err(RouterError::Away { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// 1 where sessions of a variation are open, and 0 where none is. None: some may be, and nothing counts them.
    pub(super) async fn sessions_of(&self, id: &str, variation: &str) -> Result<Option<u64>, RouterError> {
        let Some(file) = self.stream_there()? else {
            return Ok((!self.state()?.has_untracked_sessions(id)).then_some(0));
        };
        if let Some(answer) = self.ask_stream(&session(id, variation)).await? {
            return Ok(Some(u64::from(answer.has_open)));
        }
        // Nothing is loaded that counts them.
        Ok((!ids_of(&file).contains(id)).then_some(0))
    }

    /// Why nobody is served by the file that an include has, although nginx takes it; none: it is included, and is that file.
    pub(super) fn stream_unserved(
        &self,
        include: &Include,
        printed: &str,
    ) -> Result<Option<String>, RouterError> {
        let Some(wanted) = stream_of(&include.text) else { return Ok(None) };
        let path = self.stream_file().display().to_string();
        if let Some(why) = stream_not_included(&path, printed) {
            return Ok(Some(why));
        }
        let there = self.stream_there()?;
        let is_it = there.as_deref().and_then(stream_digest) == stream_digest(&wanted);
        Ok((!is_it).then(|| {
            format!(
                "services of TCP and UDP stand in {path}, which somebody has emptied or replaced: `choirmaster router repair` \
                 writes it again"
            )
        }))
    }

    /// What a configuration that nginx takes does to services of TCP and UDP that are led.
    pub(super) async fn stream_warnings(&self, config: &Path) -> Result<Vec<String>, RouterError> {
        if self.stream_there()?.is_none() {
            return Ok(Vec::new());
        }
        let (printed, _) = process::print(&self.settings, config, &self.disk).await?;
        let warning = shutdown_timeout(&printed).map(|time| {
            format!(
                "worker_shutdown_timeout {time}: each change of shares of TCP or UDP reloads nginx, which cuts connections of TCP that \
                 last for so long after it; set it to as long as they may last, or leave it out"
            )
        });
        Ok(warning.into_iter().collect())
    }

    /// The services that the include has, or the one before a change that was interrupted, by their ids.
    pub(super) fn stream_ids(&self, on_disk: Option<&Include>) -> Result<BTreeSet<String>, RouterError> {
        let before = Include::read(&self.before())?;
        let files = [on_disk, before.as_ref()].into_iter().flatten().filter_map(|it| stream_of(&it.text));
        Ok(files.flat_map(|file| ids_of(&file)).collect())
    }

    /// What runs of the services that the include has which nginx runs by. A file that was changed by hand counts as it is now, as the
    /// include does.
    pub(super) async fn observe_stream(&self, include: &Include) -> Result<ObservedStream, RouterError> {
        let (wanted, there) = (stream_of(&include.text), self.stream_there()?);
        if wanted.is_none() && there.is_none() {
            return Ok(ObservedStream { is_as_included: true, ..ObservedStream::default() });
        }
        let unknown = || Some(format!("what it loaded from {}", self.stream_file().display()));
        if wanted.is_none() {
            return Ok(ObservedStream { left_over: unknown(), ..ObservedStream::default() });
        }
        let Some(running) = self.stream_running().await? else { return Ok(ObservedStream::default()) };
        let is_running = |file: &String| stream_digest(file) == Some(&*running);
        let is_as_included = there == wanted && wanted.as_ref().is_some_and(is_running);
        let file = [there, wanted].into_iter().flatten().find(is_running);
        let services = file.and_then(|file| parse_stream(&file).ok());
        let left_over = if services.is_none() { unknown() } else { None };
        Ok(ObservedStream { services: services.unwrap_or_default(), is_as_included, left_over })
    }
}

/// The ids of the services that a file has.
pub(super) fn ids_of(file: &str) -> BTreeSet<String> {
    let services = parse_stream(file).unwrap_or_default();
    services.iter().map(|service| id_of(service.name.as_str())).collect()
}
