//! `GET /api/v1/status`.

use std::time::Duration;

use axum::{Json, extract::State};

use super::{
    fleet::FleetInputs,
    items::{About, Item, Items, Severity},
    manager, releases,
};
use crate::{
    Context,
    scope::Scope,
    v1::time::{of_served, rfc3339},
};
use domain::release::state::Snapshot;
use engine::view::FleetCheck;
use model::Now;
use protocol::api::{CheckedChildren, CheckedRouters, ManagerStatus, OpenReleases};

/// How long the engine may take for a look at the state.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same while nothing can be stored: it waits for that, too.
const PATIENCE_IN_OUTAGE: Duration = Duration::from_millis(100);

/// Shows how the manager stands: what somebody has to look at, the most urgent first, and what goes on.
#[utoipa::path(get, path = "/api/v1/status", operation_id = "show_status", tag = "watching",
    responses((status = 200, body = ManagerStatus, description = "Also while the store is away. A tenant is told of what is its own.")))]
pub(super) async fn handle(State(ctx): State<Context>, scope: Scope) -> Json<ManagerStatus> {
    let is_away = ctx.view().store_outage().is_some();
    let patience = if is_away { PATIENCE_IN_OUTAGE } else { PATIENCE };
    let check = ctx.view().fleet_checks.latest(patience).await;
    let state = ctx.engine.snapshot(patience).await.ok();
    let now = ctx.engine.clock().now();
    let found = state.map(|state| Found::of(&ctx, &scope, &state, check.as_deref(), now));
    let mut items = Items::default();
    let is_whole = scope.tenant().is_none();
    let (store, parent) = if is_whole {
        manager::callers(&ctx, &mut items);
        (Some(manager::store(&ctx, &mut items)), manager::parent(&ctx, now, &mut items))
    } else {
        (None, None)
    };
    let manager_state = manager::state(&ctx);
    manager::look_at_itself(manager_state, &mut items);
    // Looked at last: what was read of the state may be another manager's to say by now.
    let found = found.filter(|_| ctx.is_serving());
    let checked = check.filter(|_| found.is_some()).map(|check| of_served(check.served_ms, now));
    let (mut releases, mut routers, mut children) = (None, None, None);
    if let Some(found) = found {
        items.extend(found.items);
        (releases, routers, children) = (Some(found.releases), found.routers, found.children);
    }
    let (items, more_items) = items.finish();
    Json(ManagerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: manager_state.to_owned(),
        since: rfc3339(ctx.engine.clock().began_wall_ms()),
        store,
        parent,
        items,
        more_items,
        releases,
        routers,
        children,
        checked,
    })
}

/// What the state says.
struct Found {
    items: Items,
    releases: OpenReleases,
    routers: Option<CheckedRouters>,
    children: Option<CheckedChildren>,
}

impl Found {
    fn of(ctx: &Context, scope: &Scope, state: &Snapshot, check: Option<&FleetCheck>, now: Now) -> Self {
        let mut items = Items::default();
        let releases = releases::look(state, scope, now, &mut items);
        let waiting = state.workflows.waiting();
        if waiting > 0 && scope.tenant().is_none() {
            let parts = if waiting == 1 {
                "a part of a workflow has".to_owned()
            } else {
                format!("{waiting} parts of workflows have")
            };
            let text = format!("{parts} no node that may run them");
            items.push(Item::new((Severity::Action, About::Workflows), text, "choirmaster workflow list"));
        }
        let known = match scope.tenant() {
            None => state.children.len() as u32,
            Some(tenant) => state.children.of_tenant(tenant.as_str()),
        };
        let known_routers = scope.tenant().is_none().then(|| state.traffic.len() as u32);
        let part = check.map(|check| check.of(scope.tenant()));
        if let Some(part) = &part {
            let seen = &*ctx.view().children;
            FleetInputs { state, seen, scope, now }.look(part, &mut items);
        }
        Self {
            items,
            releases,
            routers: part
                .as_ref()
                .map(|part| CheckedRouters { known: known_routers, troubled: part.routers.count }),
            children: part.as_ref().map(|part| CheckedChildren { known, silent: part.silent }),
        }
    }
}
