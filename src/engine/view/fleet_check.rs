//! What the last look over all children and routers found, and the disk of the store. Whoever asks how the manager stands reads this: the
//! question itself costs no walk.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use model::{ChildKey, TenantName};
use store::DiskSpace;

/// Most children of a kind that are named, of all together and of each tenant.
pub const MAX_NAMED: usize = 100;

/// The latest of what is looked for again and again.
#[derive(Debug, Default)]
pub struct FleetChecks {
    latest: watch::Sender<Option<Arc<FleetCheck>>>,
    disk: Mutex<Option<DiskSpace>>,
}

/// What one look found.
#[derive(Debug, Default)]
pub struct FleetCheck {
    /// When it was, in serving time, in milliseconds.
    pub served_ms: u64,
    all: FleetPart,
    /// Of the tenants of whose children somebody has to look at one.
    of_tenants: HashMap<Box<str>, FleetPart>,
}

/// Of all children, or of those of a tenant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FleetPart {
    /// Children that were not heard of for so long that people are told; also those that an operator keeps releases away from.
    pub silent: u32,
    /// Those of them that nobody keeps releases away from.
    pub missed: Named,
    /// Routers at which somebody has to look.
    pub routers: Named,
}

/// Children, of which some are named.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Named {
    pub count: u32,
    /// At most [`MAX_NAMED`], the most urgent first.
    pub keys: Vec<ChildKey>,
}

impl FleetChecks {
    /// The latest look. Before the first one has ended, it is waited for, at most for `limit`.
    pub async fn latest(&self, limit: Duration) -> Option<Arc<FleetCheck>> {
        let mut looks = self.latest.subscribe();
        let found = timeout(limit, looks.wait_for(Option::is_some)).await.ok()?.ok()?;
        found.clone()
    }

    /// The space on the disk of the store, as far as it is this machine's and was looked at.
    pub fn disk(&self) -> Option<DiskSpace> {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, found: FleetCheck) {
        self.latest.send_replace(Some(Arc::new(found)));
    }

    pub(crate) fn keep_disk(&self, disk: Option<DiskSpace>) {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = disk;
    }
}

impl FleetCheck {
    pub(crate) fn new(served_ms: u64, all: FleetPart, of_tenants: HashMap<Box<str>, FleetPart>) -> Self {
        Self { served_ms, all, of_tenants }
    }

    /// What was found of the children of a tenant, or of all.
    pub fn of(&self, tenant: Option<&TenantName>) -> FleetPart {
        match tenant {
            None => self.all.clone(),
            Some(tenant) => self.of_tenants.get(tenant.as_str()).cloned().unwrap_or_default(),
        }
    }
}
