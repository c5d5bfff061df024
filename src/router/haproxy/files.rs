//! What of ours is on disk.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    str,
};

use crate::haproxy::config::{Folder, Maps, STATE, Structure, file_of, structure_of};
use traffic::desired::Number;

use crate::{
    RouterError,
    disk::{self, Disk, beside},
    leadership::newest_in,
};

/// The files of one router. The operator's are never among them.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: Folder,
}

impl Files {
    /// A section that is to be checked.
    pub(super) fn candidate(&self) -> PathBuf {
        beside(&self.folder.section(), "candidate")
    }

    /// The section that was last seen in force, while another is in its place.
    pub(super) fn before(&self) -> PathBuf {
        beside(&self.folder.section(), "before")
    }

    fn newest_path(&self) -> PathBuf {
        beside(&self.folder.section(), "newest")
    }

    pub(super) fn lock(&self) -> PathBuf {
        beside(&self.folder.section(), "lock")
    }

    fn maps(&self, structure: &Structure) -> PathBuf {
        self.folder.maps(structure).into()
    }

    /// The section as it is on disk.
    pub(super) fn section(&self) -> Result<Option<String>, RouterError> {
        let bytes = disk::read(&self.folder.section())?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The structure of a section.
    pub(super) fn structure_in(&self, path: &Path) -> Result<Option<Structure>, RouterError> {
        let bytes = disk::read(path)?;
        Ok(bytes.and_then(|bytes| structure_of(&String::from_utf8_lossy(&bytes), &self.folder)))
    }

    /// The newest number by which this router was ever led.
    pub(super) fn newest(&self) -> Result<Option<Number>, RouterError> {
        newest_in(&self.newest_path())
    }

    pub(super) fn note_newest(&self, disk: &Disk, number: Number) -> Result<(), RouterError> {
        if self.newest()?.is_some_and(|newest| newest >= number) {
            return Ok(());
        }
        disk.replace(&self.newest_path(), format!("{number}\n").as_bytes())
    }

    /// Has the maps' files hold what is wanted. What names the number is the last.
    pub(super) fn write_maps(
        &self,
        disk: &Disk,
        structure: &Structure,
        maps: &Maps,
    ) -> Result<(), RouterError> {
        let folder = self.maps(structure);
        if !folder.is_dir() {
            disk.create_folder(&folder)?;
        }
        let (state, others): (Vec<_>, Vec<_>) = maps.iter().partition(|(name, _)| *name == STATE);
        for (name, map) in others.into_iter().chain(state) {
            let (path, text) = (folder.join(name), file_of(map));
            if disk::read(&path)?.as_deref() != Some(text.as_bytes()) {
                disk.replace(&path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_maps(&self, disk: &Disk, structure: &Structure) -> Result<(), RouterError> {
        disk.remove_folder(&self.maps(structure))
    }

    /// What is ours in the folder and belongs to no section in force: names below it.
    pub(super) fn left_over(&self) -> Result<Vec<PathBuf>, RouterError> {
        let section = self.section()?;
        let in_force = section.as_deref().and_then(|text| structure_of(text, &self.folder));
        let own = self.folder.section();
        let own = own.file_name().map(|name| format!("{}.", name.to_string_lossy())).unwrap_or_default();
        let notes = [self.newest_path(), self.lock()];
        let mut left_over = Vec::new();
        for name in disk::names(self.folder.path())? {
            let path = self.folder.path().join(&name);
            let is_folder_of_maps = name.parse::<Structure>().is_ok();
            let is_in_force = in_force.as_ref().is_some_and(|structure| structure.as_str() == name);
            if (is_folder_of_maps && !is_in_force) || (name.starts_with(&own) && !notes.contains(&path)) {
                left_over.push(path);
            } else if is_in_force {
                left_over.extend(self.strange_maps(&name, section.as_deref().unwrap_or_default())?);
            }
        }
        left_over.sort_unstable();
        Ok(left_over)
    }

    /// What is in the folder of the maps in force and isn't named by the section.
    fn strange_maps(&self, folder: &str, section: &str) -> Result<Vec<PathBuf>, RouterError> {
        let folder = self.folder.path().join(folder);
        let before = format!("{}/", folder.display());
        let named: BTreeSet<&str> =
            section.split(&before).skip(1).filter_map(|rest| rest.split([')', ',']).next()).collect();
        let names = disk::names(&folder)?.into_iter().filter(|name| !named.contains(name.as_str()));
        Ok(names.map(|name| folder.join(name)).collect())
    }

    /// Takes all of that away.
    pub(super) fn clean(&self, disk: &Disk) -> Result<(), RouterError> {
        for path in self.left_over()? {
            if path.is_dir() {
                disk.remove_folder(&path)?;
            } else {
                disk.remove(&path)?;
            }
        }
        Ok(())
    }
}
