//! What a caller sees of the trail.
//!
//! A tenant sees what concerns its releases, and what its own operators did. That follows from what the entry says and stays so: what a child
//! did before it was this tenant's, and whatever it does in a release of somebody else, is not shown.

use super::form;
use crate::{Context, scope::Scope};
use engine::audit::Actor;
use protocol::api::AuditEntry;
use store::rows::AuditRow;

/// The entry of a row, if the caller sees it.
pub fn of_row(ctx: &Context, scope: &Scope, row: &AuditRow) -> Option<AuditEntry> {
    let entry = || form::entry(row, ctx.engine.unreadable());
    let Some(tenant) = scope.tenant() else { return Some(entry()) };
    if row.release_key.is_some() {
        let entry = entry();
        let sees = |event: &serde_json::Value| {
            event.get("release").and_then(|id| id.as_str()).is_some_and(|id| scope.sees_release(id))
        };
        return (!entry.events.is_empty() && entry.events.iter().all(sees)).then_some(entry);
    }
    let own = Actor::Operator(format!("{tenant}/")).name();
    row.actor.starts_with(&own).then(entry)
}
