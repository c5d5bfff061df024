//! A lock on a file, by which a folder is one agent's alone.

use std::{
    fs::{File, TryLockError},
    io,
};

/// A file that is locked as long as this lives.
///
/// It is unlocked then, not only closed: a process that is being started has a copy of each open file until it runs its program, and
/// would have the lock for as long.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file, unless somebody has it locked (`None`).
    pub fn take(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever closes it last unlocks it then.
        let _ = self.0.unlock();
    }
}
