//! How a store is opened.

use super::lease_holder::LeaseHolder;

/// What an adapter's `open` needs beside the place of the store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Who takes the lease.
    pub holder: LeaseHolder,
    /// As a standby: wait until the lease is free instead of failing with [`Held`](super::StoreError::Held).
    pub wait: bool,
    /// SQLite: the file may not grow beyond this many bytes; a commit that would is `Full`, as if the disk
    /// were full. What is deleted makes room.
    pub max_bytes: Option<u64>,
}

impl OpenOptions {
    /// For this process, without waiting.
    pub fn new() -> Self {
        Self { holder: LeaseHolder::this_process(), wait: false, max_bytes: None }
    }

    /// As a standby.
    pub fn standby() -> Self {
        Self { wait: true, ..Self::new() }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
