//! `POST /api/v1/tenants`.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::form;
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, acting},
    principals,
    problem::Problem,
    v1::MAX_LIMIT as MAX_TENANTS,
};
use engine::settings::{Limits, Tenant, TenantChange};
use model::{TenantName, tenant};
use protocol::api::{self, NewTenant, Note};

/// Makes a tenant. A name is given once: what was ever said of it stays its own.
#[utoipa::path(post, path = "/api/v1/tenants", operation_id = "create_tenant", tag = "tenants",
    request_body(content = NewTenant),
    responses(
        (status = 201, body = api::Tenant, description = "Created.", headers(("Location" = String))),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "The name was given, or a release has an id of this tenant's form."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    operator: Option<Extension<CallingOperator>>,
    OptionalJson(body): OptionalJson<NewTenant>,
) -> Result<Response, Problem> {
    let Some(NewTenant { name, limits, by, note }) = body else {
        return Err(Problem::bad_request("the body must be JSON: {\"name\": \"acme\"}"));
    };
    let by = acting(operator.as_deref(), Note { by, note })?;
    let name = TenantName::parse(&name).map_err(|error| Problem::bad_request(error.to_string()))?;
    let limits = form::limits(Limits::default(), limits)?;
    // One at a time, so that no name is given twice.
    let _turn = ctx.tenancy.lock().await;
    let taken = |why: String| Err(Problem::new(StatusCode::CONFLICT, "tenant-taken", why));
    if ctx.view().tenants.was_given(&name) {
        return taken(format!("the name {name} was given; choose another"));
    }
    if ctx.view().tenants.list().len() >= MAX_TENANTS as usize {
        let why = format!("there are {MAX_TENANTS} tenants, and no more are possible");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", why));
    }
    let is_of_form = |id: &str| tenant::split(id).is_some_and(|(tenant, _)| tenant == name.as_str());
    if ctx.view().releases.any_id(is_of_form) {
        let prefix = name.prefix();
        return taken(format!(
            "a release that is no tenant's has an id that begins with {prefix}; choose another name"
        ));
    }
    let created_ms = ctx.engine.clock().now().wall_ms;
    let tenant = Tenant { name, created_ms, limits, is_deleted: false };
    ctx.engine.keep_tenant(tenant.clone(), TenantChange::Created, by, PATIENCE).await?;
    principals::of_tenant(&ctx, &tenant.name).await?;
    let location = HeaderValue::try_from(format!("/api/v1/tenants/{}", tenant.name));
    let mut response = (StatusCode::CREATED, Json(form::shown(&ctx, tenant).await?)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}
