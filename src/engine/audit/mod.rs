//! The audit trail: what happened, in words that an operator can read, stored in the commit in which it happened.

mod ab_releases;
mod analysis;
mod children;
mod event;
mod lifecycle;
mod members;
mod parent;
mod rollout;
mod stages;
pub(crate) mod step;
mod traffic;
mod words;
mod workflows;

use serde::Serialize;

use self::event::Event;
use crate::{
    json_columns::{self, EventVersion},
    settings::{Limits, Tenant, TenantChange},
};
use domain::{
    children::Change as OfChild,
    release::{change::Change, state::State},
};
use model::{ChildKey, ChildKind, ReleaseKey};
use store::StoreError;

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    Child,
    Timer,
    /// Whoever looks at the data of analyses.
    Analysis,
    /// The parent.
    Parent,
    /// Whoever put an intent into the database of the mirror.
    Redis,
    Operator(String),
}

impl Actor {
    pub fn name(&self) -> String {
        match self {
            Self::Child => "child".to_owned(),
            Self::Timer => "timer".to_owned(),
            Self::Analysis => "analysis".to_owned(),
            Self::Parent => "parent".to_owned(),
            Self::Redis => "redis".to_owned(),
            Self::Operator(name) => format!("operator:{name}"),
        }
    }
}

/// An event as it is stored: what happened, beside a note of whoever did it.
#[derive(Serialize)]
struct Noted<'a> {
    #[serde(skip_serializing_if = "EventVersion::is_first")]
    version: EventVersion,
    #[serde(flatten)]
    event: Event<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// JSON.
    pub text: String,
    /// What a single child did on its way through a release: most of what there is, and what people look for last.
    pub is_step: bool,
}

/// The events of the changes that one command came to, each with its release. The changes are applied already.
pub fn events(
    state: &State,
    changes: &[Change],
    note: Option<&str>,
) -> Result<Vec<(Option<ReleaseKey>, StoredEvent)>, StoreError> {
    // A child that was forgotten is no longer in the state; its last change has its id.
    let gone: Vec<(ChildKey, &str)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Children(OfChild::Forgotten { child, id, .. }) => Some((*child, id.as_str())),
            _ => None,
        })
        .collect();
    let id = |key: ChildKey| {
        let known = state.children.get(key).map(|child| child.id.as_str());
        known.or_else(|| gone.iter().find(|(child, _)| *child == key).map(|(_, id)| *id)).unwrap_or("?")
    };
    changes
        .iter()
        .flat_map(|change| {
            let child_id = change.child().map_or("?", id);
            let release = change.release().and_then(|key| state.find(key));
            let of_service = release.map(|release| ab_releases::events(change, release)).unwrap_or_default();
            event(state, change, child_id).into_iter().chain(of_service).map(move |event| {
                let is_step = event.is_step();
                let text = json_columns::json(&Noted { version: EventVersion::NOW, event, note });
                text.map(|text| (change.trail(), StoredEvent { text, is_step }))
            })
        })
        .collect()
}

/// Whether a stored event tells what a single child did on its way through a release.
pub fn is_step(event: &serde_json::Value) -> bool {
    let name = event.get("event").and_then(serde_json::Value::as_str);
    name.is_some_and(|name| event::STEPS.contains(&name))
}

/// The event of a child that has joined.
pub fn enrolled(child: &str, name: Option<&str>, kind: ChildKind, door: &str) -> Result<String, StoreError> {
    let event = Event::ChildEnrolled { child, name, kind: kind.name(), join_token: door };
    json_columns::json(&Noted { version: EventVersion::NOW, event, note: None })
}

/// The event of what releases of services may name.
pub fn registered(
    kind: &str,
    name: &str,
    is_removed: bool,
    note: Option<&str>,
) -> Result<String, StoreError> {
    let event =
        if is_removed { Event::Unregistered { kind, name } } else { Event::Registered { kind, name } };
    json_columns::json(&Noted { version: EventVersion::NOW, event, note })
}

/// The event of what was done to a tenant.
pub fn tenant(tenant: &Tenant, done: TenantChange, note: Option<&str>) -> Result<String, StoreError> {
    let name = tenant.name.as_str();
    let Limits { children, releases, bytes } = tenant.limits;
    let event = match done {
        TenantChange::Created => Event::TenantCreated { tenant: name, children, releases, bytes },
        TenantChange::Limited => Event::TenantLimited { tenant: name, children, releases, bytes },
        TenantChange::Deleted => Event::TenantDeleted { tenant: name },
    };
    json_columns::json(&Noted { version: EventVersion::NOW, event, note })
}

/// The event of an intent: what became of it.
pub fn intent(
    intent: &str,
    value: &str,
    refused: Option<&str>,
    note: Option<&str>,
) -> Result<String, StoreError> {
    let event = Event::IntentAnswered { intent, value, refused };
    json_columns::json(&Noted { version: EventVersion::NOW, event, note })
}

/// The event of a token that was revoked.
pub fn token_revoked(child: &str, note: Option<&str>) -> Result<String, StoreError> {
    let event = Event::ChildTokenRevoked { child };
    json_columns::json(&Noted { version: EventVersion::NOW, event, note })
}

/// What a change is called in the trail; `None` for what is bookkeeping.
fn event<'a>(state: &'a State, change: &'a Change, child_id: &'a str) -> Option<Event<'a>> {
    let release = change.release().and_then(|key| state.find(key));
    let release_id = release.map_or("?", |release| release.id.as_str());
    match change {
        Change::Children(change) => children::event(change, state, child_id),
        Change::Lifecycle(change) => lifecycle::event(change, release, release_id),
        Change::Parent(change) => parent::event(change, release, release_id),
        Change::Members(change) => members::event(change, child_id, release, release_id),
        Change::Rollout(change) => rollout::event(change, release, release_id),
        Change::Analysis(change) => Some(analysis::event(change, release, release_id)),
        Change::Stages(change) => stages::event(change, release, release_id),
        Change::Traffic(change) => traffic::event(change, child_id),
        Change::Workflows(change) => workflows::event(change, state),
    }
}
