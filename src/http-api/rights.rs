//! Which roles each call takes, route by route. The documentation has this table, and a test walks over every route of the description
//! of the API: one without a line here fails it, and is closed to every token that is not good for everything.

use axum::http::{Method, StatusCode};

use super::{auth::CallingOperator, problem::Problem};
use model::Role;

/// What a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it tells nothing of anybody.
    Anybody,
    /// One of these roles; who is bound to a tenant calls it for what is the tenant's.
    Any(&'static [Role]),
    /// One of these roles, and no tenant: it is about the whole manager.
    Whole(&'static [Role]),
}

use Right::{Any, Anybody, Whole};

/// Every role looks.
const LOOK: &[Role] = &[Role::Viewer, Role::Operator, Role::Approver];
const STEER: &[Role] = &[Role::Operator];
const APPROVE: &[Role] = &[Role::Approver];

/// A route, as the description of the API has it.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub right: Right,
}

const fn route(method: &'static str, path: &'static str, right: Right) -> Route {
    Route { method, path, right }
}

/// Every call of developers and operators.
pub const ROUTES: &[Route] = &[
    route("GET", "/healthz", Anybody),
    route("GET", "/readyz", Anybody),
    route("GET", "/openapi.json", Any(LOOK)),
    route("GET", "/metrics", Whole(LOOK)),
    route("GET", "/events", Any(LOOK)),
    route("GET", "/api/v1/audit", Any(LOOK)),
    route("GET", "/api/v1/status", Any(LOOK)),
    route("GET", "/api/v1/callers/unknown", Whole(LOOK)),
    route("GET", "/api/v1/canary-releases/folder", Whole(LOOK)),
    route("POST", "/release", Any(STEER)),
    route("POST", "/api/v1/plan", Any(LOOK)),
    route("GET", "/api/v1/ab-releases", Any(LOOK)),
    route("POST", "/api/v1/ab-releases", Any(STEER)),
    route("GET", "/api/v1/ab-releases/{id}", Any(LOOK)),
    route("GET", "/api/v1/ab-releases/{id}/traffic", Any(LOOK)),
    route("GET", "/api/v1/ab-releases/{id}/health", Any(LOOK)),
    route("POST", "/api/v1/ab-releases/{id}/start", Any(STEER)),
    route("POST", "/api/v1/ab-releases/{id}/advance", Any(APPROVE)),
    route("POST", "/api/v1/ab-releases/{id}/promote", Any(APPROVE)),
    route("POST", "/api/v1/ab-releases/{id}/rollback", Any(STEER)),
    route("GET", "/api/v1/rollout-strategies", Any(LOOK)),
    route("GET", "/api/v1/rollout-strategies/{id}", Any(LOOK)),
    route("GET", "/api/v1/environments", Any(LOOK)),
    route("POST", "/api/v1/environments", Any(STEER)),
    route("GET", "/api/v1/environments/{id}", Any(LOOK)),
    route("DELETE", "/api/v1/environments/{id}", Any(STEER)),
    route("GET", "/api/v1/target-groups", Any(LOOK)),
    route("POST", "/api/v1/target-groups", Any(STEER)),
    route("GET", "/api/v1/target-groups/{id}", Any(LOOK)),
    route("DELETE", "/api/v1/target-groups/{id}", Any(STEER)),
    route("GET", "/api/v1/versions", Any(LOOK)),
    route("POST", "/api/v1/versions", Any(STEER)),
    route("GET", "/api/v1/versions/{id}", Any(LOOK)),
    route("DELETE", "/api/v1/versions/{id}", Any(STEER)),
    route("GET", "/api/v1/canary-releases", Any(LOOK)),
    route("GET", "/api/v1/canary-releases/{id}", Any(LOOK)),
    route("DELETE", "/api/v1/canary-releases/{id}", Any(STEER)),
    route("GET", "/api/v1/registered-releases", Any(LOOK)),
    route("GET", "/api/v1/registered-releases/{name}", Any(LOOK)),
    route("DELETE", "/api/v1/registered-releases/{name}", Any(STEER)),
    route("GET", "/api/v1/releases", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/strategy", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/actions", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/children", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/children/{child}/offer", Any(LOOK)),
    route("POST", "/api/v1/releases/{id}/children/{child}/retry", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/children/{child}/skip", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/pause", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/resume", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/abort", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/retry", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/rollback", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/extend", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/extend-analysis", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/stages/{stage}/end", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/stages/{stage}/skip", Any(STEER)),
    route("POST", "/api/v1/releases/{id}/approve", Any(APPROVE)),
    route("POST", "/api/v1/releases/{id}/promote", Any(APPROVE)),
    route("GET", "/api/v1/children", Any(LOOK)),
    route("GET", "/api/v1/children/{id}", Any(LOOK)),
    route("DELETE", "/api/v1/children/{id}", Any(STEER)),
    route("POST", "/api/v1/children/{id}/cordon", Any(STEER)),
    route("POST", "/api/v1/children/{id}/uncordon", Any(STEER)),
    route("POST", "/api/v1/children/{id}/drain", Any(STEER)),
    route("PUT", "/api/v1/children/{id}/labels/{key}", Any(STEER)),
    route("DELETE", "/api/v1/children/{id}/labels/{key}", Any(STEER)),
    route("DELETE", "/api/v1/children/{id}/token", Any(STEER)),
    route("GET", "/api/v1/deployments", Any(LOOK)),
    route("GET", "/api/v1/map", Any(LOOK)),
    route("GET", "/api/v1/map/cells", Any(LOOK)),
    route("GET", "/api/v1/map/changes", Any(LOOK)),
    route("GET", "/api/v1/map/areas", Any(LOOK)),
    route("GET", "/api/v1/map/children/{number}", Any(LOOK)),
    route("GET", "/api/v1/tree", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/map", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/map/cells", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/map/areas", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/map/changes", Any(LOOK)),
    route("GET", "/api/v1/releases/{id}/map/history", Any(LOOK)),
    route("GET", "/api/v1/tenants", Any(LOOK)),
    route("POST", "/api/v1/tenants", Whole(STEER)),
    route("GET", "/api/v1/tenants/{name}", Any(LOOK)),
    route("DELETE", "/api/v1/tenants/{name}", Whole(STEER)),
    route("PUT", "/api/v1/tenants/{name}/limits", Whole(STEER)),
    route("GET", "/api/v1/releases/{id}/traffic", Any(LOOK)),
    route("GET", "/api/v1/routers", Any(LOOK)),
    route("GET", "/api/v1/routers/{id}", Any(LOOK)),
    route("GET", "/api/v1/routers/{id}/routes", Any(LOOK)),
    route("GET", "/api/v1/routers/{id}/orders/{number}", Any(LOOK)),
    route("POST", "/api/v1/routers/{id}/check", Any(STEER)),
    route("POST", "/api/v1/routers/{id}/reload", Any(STEER)),
    route("POST", "/api/v1/routers/{id}/repair", Any(STEER)),
    route("POST", "/api/v1/routers/{id}/adopt", Whole(STEER)),
    route("GET", "/api/v1/services", Any(LOOK)),
    route("GET", "/api/v1/services/{name}", Any(LOOK)),
    route("POST", "/api/v1/services/{name}/retire", Whole(STEER)),
    route("POST", "/api/v1/workflows/plan", Any(LOOK)),
    route("GET", "/api/v1/workflows", Any(LOOK)),
    route("POST", "/api/v1/workflows", Any(STEER)),
    route("GET", "/api/v1/workflows/{name}", Any(LOOK)),
    route("DELETE", "/api/v1/workflows/{name}", Any(STEER)),
    route("POST", "/api/v1/workflows/{name}/move", Any(STEER)),
    route("PUT", "/api/v1/workflows/{name}/strategy", Any(STEER)),
    route("POST", "/api/v1/intents", Any(STEER)),
];

/// What a route takes; `None`: the table doesn't have it.
pub fn of(method: &Method, path: &str) -> Option<Right> {
    // What is asked about without the answer's body takes the same.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    ROUTES.iter().find(|route| route.method == method && route.path == path).map(|route| route.right)
}

/// Refuses a call for which the token is not good. What it says depends on the route and the token alone.
pub fn check(caller: &CallingOperator, method: &Method, path: Option<&str>) -> Result<(), Problem> {
    let grant = &caller.grant;
    if grant.is_whole() {
        return Ok(());
    }
    let roles = match path.and_then(|path| of(method, path)) {
        Some(Anybody) => return Ok(()),
        Some(Any(roles)) => roles,
        Some(Whole(roles)) if grant.tenant.is_none() => roles,
        Some(Whole(_)) | None => {
            let detail = "this is about the whole manager, and takes a token that is bound to no tenant";
            return Err(Problem::new(StatusCode::FORBIDDEN, "whole-manager", detail));
        }
    };
    if grant.has_any(roles) {
        return Ok(());
    }
    let names = |roles: &[Role]| roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ");
    let who = caller.name.as_deref().unwrap_or("that was sent");
    let (needed, has) =
        (roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(" or "), names(&grant.roles));
    let detail = format!("this takes the role {needed}; the token {who} has {has}");
    Err(Problem::new(StatusCode::FORBIDDEN, "missing-role", detail))
}
