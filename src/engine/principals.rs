//! Who there is: tenants, and users of theirs, under ids that follow from their names.
//!
//! Each is written once, by whoever names them first: the configuration at a start, the call that makes a tenant, or the commit of
//! what somebody did. Nobody looks before whether they are there: the store keeps the first row.

use std::collections::BTreeMap;

use super::audit::Actor;
use ab_releases::{Kind, Uuid};
use store::rows::{TenantRow, UserRow, WallMs};

/// A tenant, or a user of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal {
    /// [`ab_releases::DEFAULT_TENANT`] for whoever is bound to none.
    pub tenant: String,
    /// As the audit trail names them; `None`: it is about the tenant alone.
    pub user: Option<String>,
}

impl Principal {
    /// Whoever does something for a tenant.
    pub(super) fn acting(tenant: &str, actor: &Actor) -> Self {
        let user = match actor {
            Actor::Operator(name) => Some(name.clone()),
            Actor::Child | Actor::Timer | Actor::Analysis | Actor::Parent | Actor::Redis => None,
        };
        Self { tenant: tenant.to_owned(), user }
    }
}

/// The rows of those who are named in one commit.
#[derive(Debug, Default)]
pub(super) struct PrincipalRows {
    tenants: BTreeMap<String, TenantRow>,
    users: BTreeMap<(String, String), UserRow>,
}

impl PrincipalRows {
    pub fn note(&mut self, known: Principal, at_ms: WallMs) {
        let Principal { tenant, user } = known;
        let id = Uuid::of(Kind::Tenant, &[&tenant]).to_string();
        let row = TenantRow { name: tenant.clone(), id, at_ms };
        self.tenants.entry(tenant.clone()).or_insert(row);
        if let Some(name) = user {
            let id = Uuid::of(Kind::User, &[&tenant, &name]).to_string();
            let row = UserRow { tenant: tenant.clone(), name: name.clone(), id, at_ms };
            self.users.entry((tenant, name)).or_insert(row);
        }
    }

    pub fn rows(self) -> (Vec<TenantRow>, Vec<UserRow>) {
        (self.tenants.into_values().collect(), self.users.into_values().collect())
    }
}
