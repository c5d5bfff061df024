//! The file of services of TCP and UDP, beside the include: written, compared with what the include says of it, and asked about.

use std::path::PathBuf;

use super::{
    Include, Nginx,
    ask::{Door, Sessions},
    config::{STREAM_ENDING, StreamService, parse_stream, stream_digest, stream_not_included, stream_of},
};
use crate::{
    RouterError,
    disk::{self, Disk},
};

/// What runs of services of TCP and UDP.
#[derive(Default)]
pub(super) struct StreamSeen {
    pub services: Vec<StreamService>,
    /// It is what the include says.
    pub is_as_noted: bool,
    /// What is there and belongs to nothing that is known.
    pub left_over: Option<String>,
}

/// A key under which no session stands: whoever asks by it wants to know what is loaded.
const NO_SESSION: &str = "0";

impl Nginx {
    pub(super) fn stream_file(&self) -> PathBuf {
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
    pub(super) async fn ask_stream(&self, session: &str) -> Result<Option<Sessions>, RouterError> {
        let Some(at) = self.settings.layout.ask_stream else { return Ok(None) };
        match (Door { at, time_limit: self.settings.time_limit }).sessions(session).await {
            Ok(answer) => Ok(Some(answer)),
            Err(RouterError::Away { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Why nobody is served by the file that an include has, although nginx takes it; none: it is included.
    pub(super) fn stream_unserved(&self, printed: &str) -> Option<String> {
        stream_not_included(&self.stream_file().display().to_string(), printed)
    }

    /// What runs of the services that the include has which nginx runs by. A file that was changed by hand counts as it is now, as the
    /// include does.
    pub(super) async fn stream_seen(&self, include: &Include) -> Result<StreamSeen, RouterError> {
        let (noted, there) = (stream_of(&include.text), self.stream_there()?);
        if noted.is_none() && there.is_none() {
            return Ok(StreamSeen { is_as_noted: true, ..StreamSeen::default() });
        }
        let unknown = || Some(format!("what it loaded from {}", self.stream_file().display()));
        if noted.is_none() {
            return Ok(StreamSeen { left_over: unknown(), ..StreamSeen::default() });
        }
        let Some(running) = self.stream_running().await? else { return Ok(StreamSeen::default()) };
        let is_running = |file: &String| stream_digest(file) == Some(&*running);
        let is_as_noted = there == noted && noted.as_ref().is_some_and(is_running);
        let file = [there, noted].into_iter().flatten().find(is_running);
        let services = file.and_then(|file| parse_stream(&file).ok());
        let left_over = if services.is_none() { unknown() } else { None };
        Ok(StreamSeen { services: services.unwrap_or_default(), is_as_noted, left_over })
    }
}
