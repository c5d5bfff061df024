//! Who leads a router beside which nothing of ours has to lie, and by which number it was led last: in a folder of ours, the files
//! `lock` and `newest`.

use std::{
    io,
    path::{Path, PathBuf},
};

use tokio::sync::{Mutex, MutexGuard};
use traffic::desired::Number;

use crate::{
    RouterError,
    disk::{self, Disk, Lock},
};

#[derive(Debug)]
pub(crate) struct Leadership {
    folder: PathBuf,
    disk: Disk,
    /// One change at a time; with the lock since the first.
    leader: Mutex<Option<Lock>>,
}

impl Leadership {
    /// Makes the folder where there is none.
    pub(crate) fn open(folder: PathBuf, disk: Disk) -> Result<Self, RouterError> {
        if !folder.is_dir() {
            disk.create_folder(&folder)?;
        }
        Ok(Self { folder, disk, leader: Mutex::default() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Waits for its turn among those of this process, and takes the lock against all others.
    pub(crate) async fn lead(&self) -> Result<MutexGuard<'_, Option<Lock>>, RouterError> {
        let mut leader = self.leader.lock().await;
        if leader.is_none() {
            *leader = Some(Lock::take(self.folder.join("lock"))?);
        }
        Ok(leader)
    }

    /// Notes by which number it is led from now on, unless it was led by a newer one.
    pub(crate) fn lead_by(&self, asked: Number) -> Result<(), RouterError> {
        let path = self.folder.join("newest");
        match newest_in(&path)? {
            Some(newest) if newest > asked => Err(RouterError::Older { asked, newest }),
            Some(newest) if newest == asked => Ok(()),
            Some(_) | None => self.disk.replace(&path, format!("{asked}\n").as_bytes()),
        }
    }
}

/// The number that a file holds; none where there is no such file.
pub(crate) fn newest_in(path: &Path) -> Result<Option<Number>, RouterError> {
    let Some(bytes) = disk::read(path)? else { return Ok(None) };
    let number = str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
    let fault = || io::Error::other("it holds no number of a wanted state, as in 3.42");
    number.map(Some).ok_or_else(|| disk::at(path)(fault()))
}
