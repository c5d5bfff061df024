//! What a caller sees and may touch: everything, or what is one tenant's.
//!
//! This is the one place in which ids of a tenant's releases change their form (see [`model::tenant`]). What a tenant sends names a release as
//! the tenant does; [`Scope::release`] makes of it the id in the manager, which can't be anybody else's. What is answered has that id without
//! its mark: whatever is sent to a tenant goes through [`Unmarker`], so that no handler has to think of it. What the tenant is not to see at all,
//! handlers leave out.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};

use super::{auth::CallingOperator, problem::Problem};
use domain::{children::Child, release::state::Snapshot, traffic::Router};
use engine::{EngineError, tenants::Tenants};
use language::{MAX_TARGET_LABELS, Strategy};
use model::{ChildKey, TENANT_LABEL, TenantName, tenant};
use protocol::api;

pub use model::tenant::ANOTHERS;

/// In the manager's folder of functions, the one in which tenants have theirs.
const TENANTS: &str = "tenants";

/// What a caller sees and may touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All that the manager has.
    Everything,
    /// What is one tenant's.
    Tenant(TenantName),
}

impl Scope {
    /// Of this caller.
    pub fn of(caller: &CallingOperator) -> Self {
        caller.grant.tenant.clone().map_or(Self::Everything, Self::Tenant)
    }

    /// Of a caller who says that it acts for a tenant: somebody of the whole manager may, and a tenant for itself.
    pub fn acting_for(self, tenants: &Tenants, tenant: Option<&str>) -> Result<Self, Problem> {
        let Some(asked) = tenant else { return Ok(self) };
        let name = TenantName::parse(asked).map_err(|error| Problem::bad_request(error.to_string()))?;
        let is_own = self.tenant().is_none_or(|own| *own == name);
        if is_own && tenants.get(&name).is_some() {
            return Ok(Self::Tenant(name));
        }
        Err(Problem::unknown_tenant(name.as_str()))
    }

    /// The tenant to which it is bound.
    pub const fn tenant(&self) -> Option<&TenantName> {
        match self {
            Self::Everything => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    /// The id in the manager of the release that the caller calls so. It may not exist, and is never another tenant's.
    pub fn release(&self, said: &str) -> String {
        match self {
            Self::Everything => said.to_owned(),
            Self::Tenant(tenant) => tenant.prefix() + said,
        }
    }

    /// A strategy that the caller submits, under the id that its release has in the manager. Children take part that the caller sees, and no
    /// others. A release that is no tenant's has no id that a tenant's could have.
    pub fn bind(&self, mut strategy: Strategy) -> Result<Strategy, Problem> {
        let refused = |kind, why: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, kind, why);
        let Self::Tenant(own) = self else {
            if tenant::split(strategy.id.as_str()).is_some() {
                let why =
                    format!("the id {} is of the form ~TENANT~ID, which is kept for tenants", strategy.id);
                return Err(refused("reserved-id", why));
            }
            return Ok(strategy);
        };
        let labels = strategy.target.as_ref().map(|target| &target.labels);
        let asked = labels.and_then(|labels| labels.get(TENANT_LABEL));
        if asked.is_some_and(|asked| asked != own.as_str()) {
            let why = "target.labels names another tenant: children of this one alone can take part";
            return Err(refused("invalid-strategy", why.to_owned()));
        }
        if asked.is_none() && labels.is_some_and(|labels| labels.len() >= MAX_TARGET_LABELS) {
            let most = MAX_TARGET_LABELS - 1;
            let why = format!("the target of a tenant's release has at most {most} labels beside its own");
            return Err(refused("invalid-strategy", why));
        }
        let id =
            own.release_id(&strategy.id).map_err(|error| refused("invalid-strategy", error.to_string()))?;
        strategy.bind(id);
        Ok(strategy)
    }

    /// The folder below `root` in which the functions lie that the caller's strategies name: a tenant has one of its own.
    pub fn functions_root(&self, root: &Path) -> PathBuf {
        self.tenant().map_or_else(|| root.to_owned(), |own| root.join(TENANTS).join(own.as_str()))
    }

    /// Whether the caller sees the release that has this id in the manager.
    pub fn sees_release(&self, id: &str) -> bool {
        self.tenant().is_none_or(|own| own.owns(id))
    }

    /// Whether the caller sees a child. A child is the tenant's of whom an operator said so by a label.
    pub fn sees_child(&self, child: &Child) -> bool {
        self.tenant().is_none_or(|own| child.tenant() == Some(own.as_str()))
    }

    /// The routers of children that the caller sees, in order of birth, only keys above `after`. For a tenant it walks over its own children
    /// alone.
    pub fn routers<'s>(
        &'s self,
        state: &'s Snapshot,
        after: Option<ChildKey>,
    ) -> Box<dyn Iterator<Item = (ChildKey, &'s Child, &'s Arc<Router>)> + 's> {
        match self {
            Self::Everything => {
                let known = state.traffic.after(after);
                Box::new(known.filter_map(|(key, router)| Some((key, state.children.get(key)?, router))))
            }
            Self::Tenant(own) => {
                let own = state.children.after_of(own.as_str(), after);
                Box::new(own.filter_map(|(key, child)| Some((key, child, state.traffic.get(key)?))))
            }
        }
    }

    /// Whether the caller sees a child below a manager below, which has these labels there.
    pub fn sees_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.tenant().is_none_or(|own| labels.get(TENANT_LABEL).is_some_and(|name| name == own.as_str()))
    }

    /// A child as the caller sees it: without the releases of others in which it has a part.
    pub fn child(&self, mut child: api::Child) -> api::Child {
        if self.tenant().is_none() {
            return child;
        }
        child.releases.retain(|id| self.sees_release(id));
        let named = child.doing.strip_prefix("release ").and_then(|rest| rest.split_once(':'));
        if named.is_some_and(|(id, _)| !self.sees_release(id)) {
            child.doing = format!("takes part in {ANOTHERS} release");
        }
        child
    }

    /// The id of a release as it may be named to the caller: that, or that it is another tenant's.
    pub fn name<'a>(&self, id: &'a str) -> &'a str {
        if self.sees_release(id) { id } else { ANOTHERS }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Scope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Whoever is let in is known. A route that forgot to ask who calls answers nobody.
        let caller = parts.extensions.get::<CallingOperator>();
        caller.map(Self::of).ok_or_else(|| EngineError::Failed.into())
    }
}

/// Takes the mark off the ids of a tenant's releases, wherever they stand in a text that comes in pieces.
#[derive(Debug)]
pub struct Unmarker {
    mark: Vec<u8>,
    /// The two bytes before `held`; 0 where there are none.
    before: [u8; 2],
    /// Bytes at the end of what came that may be the beginning of a mark.
    held: Vec<u8>,
}

impl Unmarker {
    pub fn new(tenant: &TenantName) -> Self {
        Self { mark: tenant.prefix().into_bytes(), before: [0; 2], held: Vec::new() }
    }

    /// What may be passed on, now that this has come.
    pub fn push(&mut self, more: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(more);
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some((first, others)) = rest.split_first() {
            if self.begins_id() {
                if let Some(after) = rest.strip_prefix(self.mark.as_slice()) {
                    rest = after;
                    // What follows belongs to the id: a second mark there is part of it.
                    if let Some((first, others)) = rest.split_first() {
                        out.push(*first);
                        self.note(*first);
                        rest = others;
                    } else {
                        self.note(b'~');
                    }
                    continue;
                }
                if self.mark.starts_with(rest) {
                    rest.clone_into(&mut self.held);
                    break;
                }
            }
            out.push(*first);
            self.note(*first);
            rest = others;
        }
        out
    }

    /// What is left at the end of the text.
    pub fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// All of a text.
    pub fn whole(tenant: &TenantName, text: &[u8]) -> Vec<u8> {
        let mut unmarker = Self::new(tenant);
        let mut out = unmarker.push(text);
        out.extend(unmarker.end());
        out
    }

    fn note(&mut self, byte: u8) {
        self.before = [self.before[1], byte];
    }

    /// Whether an id may begin here. In a string of JSON a letter behind a backslash is no letter.
    fn begins_id(&self) -> bool {
        let [one, two] = self.before;
        let is_of_id = two.is_ascii_alphanumeric() || matches!(two, b'.' | b'_' | b'~' | b'-');
        !is_of_id || (one == b'\\' && matches!(two, b'n' | b'r' | b't' | b'b' | b'f'))
    }
}
