//! `POST /api/v1/ab-releases`.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{content, lookup::find};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, Query, acting},
    problem::Problem,
    quota,
    scope::Scope,
    v1::{
        registry,
        releases::{submit, upload::Upload},
        tenant::tenant_of,
    },
};
use ab_releases::{Bound, Fault, translate};
use domain::release::command::Reply;
use engine::EngineError;
use model::{MAX_RELEASE_ID_LEN, TenantName};
use protocol::{
    ab_releases::{ABRelease, EnvironmentSpec, NewABRelease, TargetGroupSpec, VersionSpec},
    api::{self, Note},
};

/// Creates an A/B release. It begins when it is started.
///
/// The same name with the same content is answered 200 and changes nothing; with other content it is refused.
#[utoipa::path(post, path = "/api/v1/ab-releases", operation_id = "create_ab_release", tag = "progressive delivery",
    params(
        ("by" = Option<String>, Query, description = "Who acts, for the audit trail; a token's name wins."),
        ("note" = Option<String>, Query, description = "Why."),
    ),
    request_body(content = NewABRelease),
    responses(
        (status = 201, body = ABRelease, description = "Created.", headers(("Location" = String))),
        (status = 200, body = ABRelease, description = "It was there already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "The name has other content, or a release is in the way."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "A field can't be taken; it is named."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Option<Extension<CallingOperator>>,
    scope: Scope,
    Query(note): Query<Note>,
    OptionalJson(body): OptionalJson<NewABRelease>,
) -> Result<Response, Problem> {
    let Some(body) = body else { return Err(Problem::bad_request("the body must be JSON")) };
    let by = acting(caller.as_deref(), note)?;
    let bound = bind(&ctx, &scope, &body).await?;
    let translated = translate(&body, &bound, &ctx.settings.site.strategies)?;
    let files = content::of(&ctx, &scope, &bound, translated.at_agents).await?;
    let (upload, preparing, binding) = (Upload::made(translated.text, files), ctx.clone(), scope.clone());
    let prepared = ctx.in_turn(move || submit::prepare(&upload, &preparing, &binding)).await??;
    let mut submission = prepared.submission;
    submission.deferred = true;
    let id = submission.id.clone();
    // Held until it is there.
    let _turn = match scope.tenant().filter(|_| ctx.view().releases.key_of(id.as_str()).is_none()) {
        Some(tenant) => {
            let bytes = submission.text.len() + prepared.archive.bytes.len();
            Some(quota::for_release(&ctx, tenant, bytes as u64).await?)
        }
        None => None,
    };
    let reply = ctx.engine.submit(Box::new(submission), prepared.archive.bytes, false, by, PATIENCE).await?;
    let Reply::Submitted { created, .. } = reply else { return Err(EngineError::Failed.into()) };
    let found = find(&ctx, &Scope::Everything, id.as_str()).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(found.whole(&ctx).await?)).into_response();
    if let Ok(location) = HeaderValue::try_from(format!("/api/v1/ab-releases/{}", found.row.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Looks up what a body names.
async fn bind(ctx: &Context, scope: &Scope, body: &NewABRelease) -> Result<Bound, Problem> {
    let tenant = tenant_of(scope);
    let unknown = |field: String, what: &str, named: &str| {
        let named: String = named.chars().filter(|c| !c.is_control()).take(100).collect();
        Problem::from(Fault::new(field, format!("there is no {what} {named:?}")))
    };
    let environment = registry::find::<EnvironmentSpec>(ctx, tenant, &body.environment_id).await?;
    let environment = environment
        .ok_or_else(|| unknown("environmentId".to_owned(), "environment", &body.environment_id))?;
    let (mut versions, mut groups) = (Vec::new(), Vec::new());
    // More are refused, but not before the first is looked up.
    for (at, variation) in body.variations.iter().enumerate().take(traffic::MAX_VARIATIONS) {
        let field = |name: &str| format!("variations[{at}].{name}");
        let version = registry::find::<VersionSpec>(ctx, tenant, &variation.release_id).await?;
        versions.push(version.ok_or_else(|| unknown(field("releaseId"), "version", &variation.release_id))?);
        groups.push(match &variation.target_group_id {
            None => None,
            Some(named) => {
                let group = registry::find::<TargetGroupSpec>(ctx, tenant, named).await?;
                Some(group.ok_or_else(|| unknown(field("targetGroupId"), "target group", named))?)
            }
        });
    }
    let longest_id = scope.tenant().map_or(MAX_RELEASE_ID_LEN, TenantName::max_release_id_len);
    Ok(Bound { environment, versions, groups, longest_id })
}
