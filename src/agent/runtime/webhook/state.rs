use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use proxy::whole_file;

use super::super::{Fault, RuntimeError};
use crate::lock::Lock;

/// The generation, which grows over all lives of the agent.
#[derive(Debug)]
pub(super) struct State {
    folder: PathBuf,
    generation: Mutex<u64>,
    _lock: Lock,
}

impl State {
    /// Takes the folder, and makes it where there is none.
    pub(super) fn open(folder: &Path) -> Result<Self, RuntimeError> {
        let doing = |path: &Path| Fault::io(format!("opening {}", path.display()));
        fs::DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(doing(folder))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).append(true).mode(0o600).open(&path).map_err(doing(&path))?;
        let lock = Lock::take(lock).map_err(doing(&path))?.ok_or_else(|| Fault::Taken(folder.to_owned()))?;
        let path = folder.join("generation");
        let generation = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                // Nobody can guess it: a lower one would be refused.
                Fault::Setting { name: "folder", why: format!("{} holds no number", path.display()) }
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(doing(&path)(error).into()),
        };
        Ok(Self { folder: folder.to_owned(), generation: Mutex::new(generation), _lock: lock })
    }

    pub(super) fn generation(&self) -> u64 {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A further one. It is on disk before anybody is told.
    pub(super) fn next(&self) -> Result<u64, Fault> {
        let mut generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        let next = *generation + 1;
        let path = self.folder.join("generation");
        let written = whole_file::replace(&path, format!("{next}\n").as_bytes());
        written.map_err(Fault::io(format!("writing {}", path.display())))?;
        *generation = next;
        Ok(next)
    }
}
