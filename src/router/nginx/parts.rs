//! What servers of the operator's include of ours, and whether calls come to it.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use super::{
    Include, NGINX, Nginx,
    config::{Listens, PART_HEAD, Part, keeps_apart, names_of, not_included, parts_of, stream_of},
    process,
};
use crate::{
    RouterError,
    disk::{self, Disk},
};
use model::traffic::Socket;

impl Nginx {
    /// The files that are there, by their names.
    fn parts_there(&self) -> Result<BTreeMap<String, Vec<u8>>, RouterError> {
        let folder = self.parts();
        let is_part = |name: &String| Path::new(name).extension().is_some_and(|ending| ending == "conf");
        let names = disk::names(&folder)?.into_iter().filter(is_part);
        let read = |name: String| Ok((name.clone(), disk::read(&folder.join(name))?.unwrap_or_default()));
        names.map(read).collect()
    }

    /// Has the files be these. Those that are wanted no more are emptied, and stay: somebody includes them.
    pub(super) fn write_parts(&self, disk: &Disk, parts: &[Part]) -> Result<(), RouterError> {
        let there = self.parts_there()?;
        let head = || PART_HEAD.to_owned();
        let mut wanted: BTreeMap<String, String> = there.keys().map(|name| (name.clone(), head())).collect();
        wanted.extend(parts.iter().map(|part| (part.file(), head() + &part.text)));
        let changed =
            wanted.iter().filter(|(name, text)| there.get(*name).map(Vec::as_slice) != Some(text.as_bytes()));
        let mut changed = changed.peekable();
        if changed.peek().is_some() {
            disk.create_folder(&self.parts())?;
        }
        changed.try_for_each(|(name, text)| disk.replace(&self.parts().join(name), text.as_bytes()))
    }

    /// Whether the files are as this include has them.
    pub(super) fn has_parts(&self, include: &Include) -> Result<bool, RouterError> {
        let there = self.parts_there()?;
        let mut parts = parts_of(&include.text).into_iter();
        Ok(parts.all(|part| {
            there
                .get(&part.file())
                .is_some_and(|text| *text == (PART_HEAD.to_owned() + &part.text).into_bytes())
        }))
    }

    /// Why calls don't come to what is ours on disk, although nginx takes it; none: they do.
    pub(super) async fn unserved(&self, config: &Path) -> Result<Option<String>, RouterError> {
        let Some(include) = Include::read(&self.settings.include)? else { return Ok(None) };
        let (parts, names) = (parts_of(&include.text), names_of(&include.text));
        if parts.is_empty() && names.is_empty() && stream_of(&include.text).is_none() {
            return Ok(None);
        }
        let (printed, warned) = process::print(&self.settings, config, &self.disk).await?;
        if let Some(why) = self.stream_unserved(&include, &printed)? {
            return Ok(Some(why));
        }
        let path = |part: &Part| self.parts().join(part.file()).display().to_string();
        if let Some(why) = parts.iter().find_map(|part| not_included(part, &path(part), &printed)) {
            return Ok(Some(why));
        }
        let says = |line: &str, name: &str, port: u16| {
            line.contains(&format!("conflicting server name \"{name}\" on "))
                && line.contains(&format!(":{port},"))
        };
        let mut warned = warned.lines();
        let conflict = warned.find(|line| names.iter().any(|(name, port)| says(line, name, *port)));
        let why =
            "a server of its operator's has a host that a service has the whole of: take that name out of it";
        Ok(conflict.map(|line| format!("{why} ({line})")))
    }

    /// Refuses to share a port with servers of the operator's where these would lose calls by it.
    pub(super) fn may_share(&self, at: Socket, how: Listens, printed: &str) -> Result<(), RouterError> {
        let include = self.settings.include.display().to_string();
        let addresses: &[IpAddr] = &self.settings.layout.listen_on;
        match keeps_apart(printed, &include, (at, how), addresses) {
            Some(said) => Err(RouterError::Refused { router: NGINX, said }),
            None => Ok(()),
        }
    }
}
