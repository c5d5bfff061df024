//! The tenants of this manager: their names, and how much of it each may take.
//!
//! Each is a setting of the store, written with the event that says so, and comes back at a start. One that was deleted stays known as
//! such and its name is never given again: what is said of it in the trail, and the ids of its releases, stay its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use tokio::sync::Mutex;

use super::{
    json_columns,
    settings::{Tenant, tenant_of},
};
use domain::release::state::Snapshot;
use model::TenantName;
use store::{StoreError, rows::SettingRow};

/// All that there are, and were.
#[derive(Debug, Default)]
pub struct Tenants {
    all: RwLock<BTreeMap<TenantName, Known>>,
}

#[derive(Debug)]
struct Known {
    /// `None`: its row can't be read, so nobody acts as this tenant and nobody else gets the name.
    tenant: Option<Tenant>,
    /// Held from the look at a limit until what is limited is stored.
    turn: Arc<Mutex<()>>,
}

impl Tenants {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<TenantName, Known>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tenant that is there.
    pub fn get(&self, name: &TenantName) -> Option<Tenant> {
        self.read().get(name)?.tenant.clone().filter(|tenant| !tenant.is_deleted)
    }

    /// Whether the name was ever given.
    pub fn was_given(&self, name: &TenantName) -> bool {
        self.read().contains_key(name)
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.read().is_empty()
    }

    /// Those that are there, by name.
    pub fn list(&self) -> Vec<Tenant> {
        let all = self.read();
        all.values().filter_map(|known| known.tenant.clone()).filter(|tenant| !tenant.is_deleted).collect()
    }

    /// Whose turn it is to take of what a tenant has left.
    pub fn turn(&self, name: &TenantName) -> Option<Arc<Mutex<()>>> {
        self.read().get(name).map(|known| Arc::clone(&known.turn))
    }

    /// Takes a setting of the store in, if it is a tenant. The error is about one that can't be read.
    pub(super) fn note(&self, row: &SettingRow) -> Result<(), StoreError> {
        let Some(name) = tenant_of(row) else { return Ok(()) };
        let name = TenantName::parse(name)
            .map_err(|error| json_columns::bad("settings", &row.name, "name", error))?;
        let read = json_columns::tenant(row);
        let (tenant, error) = match read {
            Ok(tenant) => (Some(tenant), None),
            Err(error) => (None, Some(error)),
        };
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(name).or_insert_with(|| Known { tenant: None, turn: Arc::default() });
        known.tenant = tenant;
        error.map_or(Ok(()), Err)
    }
}

/// How many releases of a tenant are not over. Looks through those that are in memory.
pub fn unfinished(state: &Snapshot, name: &TenantName) -> u64 {
    let own = |id: &model::ReleaseId| id.tenant() == Some(name.as_str());
    let open = state.releases.values().filter(|release| !release.state.is_over() && own(&release.id));
    open.count() as u64
}
