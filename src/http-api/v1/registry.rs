//! What releases of services name, and operators register: environments, target groups, versions, and Releases of which canaries are
//! made. They differ in what they say; how they are kept, named, shown and removed is the same.

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::IntoParams;

use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::acting,
    principals,
    problem::Problem,
    scope::Scope,
    v1::{page, tenant::tenant_of, time::rfc3339},
};
use ab_releases::{DEFAULT_TENANT, Fault, Kind, Uuid};
use engine::{By, EngineError, audit::Actor, json_columns, registering::Registration};
use protocol::{
    ab_releases::{
        Environment, EnvironmentSpec, RegisteredVersion, Registrations, TargetGroup, TargetGroupSpec,
        VersionSpec,
    },
    api::Note,
    canary_releases::{RegisteredRelease, ReleaseSpec},
};
use store::rows::RegisteredRow;

/// The largest body that registers something, in bytes.
pub(super) const MAX_SPEC_BYTES: usize = 64 * 1024;

/// Something that may be registered.
pub(super) trait Spec: Serialize + DeserializeOwned + PartialEq + Send {
    const KIND: Kind;
    /// As it is stored.
    const STORED: &'static str;
    /// As people call it.
    const CALLED: &'static str;
    /// Of the problem that it isn't there.
    const UNKNOWN: &'static str;
    /// As it is shown.
    type Shown: Serialize;

    fn name(&self) -> &str;
    fn check(&self) -> Result<(), Fault>;
    fn show(self, entry: Entry) -> Self::Shown;
}

/// What is known of everything that is registered.
#[derive(Debug)]
pub(super) struct Entry {
    id: String,
    tenant_id: String,
    created_at: String,
    created_by: Option<String>,
}

impl Spec for EnvironmentSpec {
    const KIND: Kind = Kind::Environment;
    const STORED: &'static str = "environment";
    const CALLED: &'static str = "environment";
    const UNKNOWN: &'static str = "unknown-environment";
    type Shown = Environment;

    fn name(&self) -> &str {
        &self.name
    }
    fn check(&self) -> Result<(), Fault> {
        ab_releases::check_environment(self)
    }
    fn show(self, entry: Entry) -> Environment {
        let Entry { id, tenant_id, created_at, created_by } = entry;
        Environment { id, tenant_id, created_at, created_by, spec: self }
    }
}

impl Spec for TargetGroupSpec {
    const KIND: Kind = Kind::TargetGroup;
    const STORED: &'static str = "target_group";
    const CALLED: &'static str = "target group";
    const UNKNOWN: &'static str = "unknown-target-group";
    type Shown = TargetGroup;

    fn name(&self) -> &str {
        &self.name
    }
    fn check(&self) -> Result<(), Fault> {
        ab_releases::check_group(self)
    }
    fn show(self, entry: Entry) -> TargetGroup {
        let Entry { id, tenant_id, created_at, created_by } = entry;
        TargetGroup { id, tenant_id, created_at, created_by, spec: self }
    }
}

impl Spec for VersionSpec {
    const KIND: Kind = Kind::Version;
    const STORED: &'static str = "version";
    const CALLED: &'static str = "version";
    const UNKNOWN: &'static str = "unknown-version";
    type Shown = RegisteredVersion;

    fn name(&self) -> &str {
        &self.name
    }
    fn check(&self) -> Result<(), Fault> {
        ab_releases::check_version(self)
    }
    fn show(self, entry: Entry) -> RegisteredVersion {
        let Entry { id, tenant_id, created_at, created_by } = entry;
        RegisteredVersion { id, tenant_id, created_at, created_by, spec: self }
    }
}

impl Spec for ReleaseSpec {
    const KIND: Kind = Kind::RegisteredRelease;
    const STORED: &'static str = "release";
    const CALLED: &'static str = "registered release";
    const UNKNOWN: &'static str = "unknown-registered-release";
    type Shown = RegisteredRelease;

    fn name(&self) -> &str {
        &self.name
    }
    fn check(&self) -> Result<(), Fault> {
        canary_releases::check_release(self)
    }
    fn show(self, entry: Entry) -> RegisteredRelease {
        let Entry { id, tenant_id, created_at, created_by } = entry;
        RegisteredRelease { id, tenant_id, created_at, created_by, spec: self }
    }
}

/// The UUID of something that is named by it, or by its name.
pub(super) fn id_of(kind: Kind, tenant: &str, named: &str) -> String {
    Uuid::parse(named).unwrap_or_else(|| Uuid::of(kind, &[tenant, named])).to_string()
}

/// What is registered under this UUID or name; `None`: nothing is.
pub(super) async fn find<S: Spec>(ctx: &Context, tenant: &str, named: &str) -> Result<Option<S>, Problem> {
    row_of::<S>(ctx, tenant, named).await?.map(|row| read(ctx, &row)).transpose()
}

async fn row_of<S: Spec>(ctx: &Context, tenant: &str, named: &str) -> Result<Option<RegisteredRow>, Problem> {
    let row = ctx.engine.reader().registered_one(&id_of(S::KIND, tenant, named)).await?;
    Ok(row.filter(|row| row.tenant == tenant && row.kind == S::STORED && row.removed_ms.is_none()))
}

fn read<S: Spec>(ctx: &Context, row: &RegisteredRow) -> Result<S, Problem> {
    let read = json_columns::registered(row);
    Ok(read.inspect_err(|error| ctx.engine.unreadable().note(error))?)
}

fn entry(row: &RegisteredRow) -> Entry {
    Entry {
        id: row.id.clone(),
        tenant_id: Uuid::of(Kind::Tenant, &[&row.tenant]).to_string(),
        created_at: rfc3339(row.at_ms),
        created_by: row.actor.clone(),
    }
}

pub(super) async fn show<S: Spec>(ctx: &Context, tenant: &str, named: &str) -> Result<S::Shown, Problem> {
    let row = row_of::<S>(ctx, tenant, named).await?.ok_or_else(|| unknown::<S>(named))?;
    Ok(read::<S>(ctx, &row)?.show(entry(&row)))
}

fn unknown<S: Spec>(named: &str) -> Problem {
    let named: String = named.chars().filter(|c| !c.is_control()).take(100).collect();
    Problem::new(StatusCode::NOT_FOUND, S::UNKNOWN, format!("there is no {} {named}", S::CALLED))
}

/// What a list is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only names behind this one; the `Link` of a page says it of the next.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// A page, by name, of the list at this path.
pub(super) async fn list<S: Spec>(
    ctx: &Context,
    scope: &Scope,
    parameters: Parameters,
    path: &str,
) -> Result<Response, Problem> {
    let (limit, after) = (page::limit(parameters.limit)?, parameters.after.unwrap_or_default());
    let rows = ctx.engine.reader().registered(tenant_of(scope), S::STORED, &after, limit).await?;
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.name.as_str());
    let shown = rows.iter().map(|row| Ok(read::<S>(ctx, row)?.show(entry(row))));
    let items = shown.collect::<Result<Vec<S::Shown>, Problem>>()?;
    let limit = limit.to_string();
    let query: Vec<(&str, &str)> =
        next.iter().flat_map(|next| [("after", *next), ("limit", limit.as_str())]).collect();
    Ok(page::linked(path, &items, &query))
}

/// Registers the body of a call.
pub(super) async fn register_body<S: Spec>(
    ctx: &Context,
    (caller, scope): (Option<Extension<CallingOperator>>, Scope),
    note: Note,
    body: Option<S>,
) -> Result<Response, Problem> {
    let Some(spec) = body else { return Err(Problem::bad_request("the body must be JSON")) };
    let by = acting(caller.as_deref(), note)?;
    let (status, shown) = register(ctx, tenant_of(&scope), spec, by).await?;
    Ok((status, Json(shown)).into_response())
}

/// Registers something under its name; the answer tells whether it wasn't there before.
pub(super) async fn register<S: Spec>(
    ctx: &Context,
    tenant: &str,
    spec: S,
    by: By,
) -> Result<(StatusCode, S::Shown), Problem> {
    spec.check()?;
    let before = row_of::<S>(ctx, tenant, spec.name()).await?;
    if let Some(row) = &before
        && read::<S>(ctx, row)? == spec
    {
        return Ok((StatusCode::OK, spec.show(entry(row))));
    }
    let detail = json_columns::json(&spec).map_err(|_| Problem::from(EngineError::Failed))?;
    let row = RegisteredRow {
        tenant: tenant.to_owned(),
        kind: S::STORED.to_owned(),
        name: spec.name().to_owned(),
        id: Uuid::of(S::KIND, &[tenant, spec.name()]).to_string(),
        detail,
        at_ms: ctx.engine.clock().now().wall_ms,
        actor: operator(&by),
        removed_ms: None,
    };
    let entry = entry(&row);
    write::<S>(ctx, row, by).await?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, spec.show(entry)))
}

/// Removes something that no release which is not over names. Whatever named it keeps its id.
pub(super) async fn remove<S: Spec>(
    ctx: &Context,
    tenant: &str,
    named: &str,
    by: By,
) -> Result<StatusCode, Problem> {
    let row = row_of::<S>(ctx, tenant, named).await?.ok_or_else(|| unknown::<S>(named))?;
    let removed_ms = Some(ctx.engine.clock().now().wall_ms);
    write::<S>(ctx, RegisteredRow { removed_ms, ..row }, by).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn write<S: Spec>(ctx: &Context, row: RegisteredRow, by: By) -> Result<(), Problem> {
    let name = row.name.clone();
    match ctx.engine.register(S::KIND, row, by, PATIENCE).await? {
        Registration::Stored => Ok(()),
        Registration::InUse(release) => {
            let detail =
                format!("release {release} is not over, and names {} {name}: wait until it is", S::CALLED);
            Err(Problem::new(StatusCode::CONFLICT, "in-use", detail))
        }
    }
}

/// Registers what the configuration names, and writes down whom it names. What can't be changed, as a release that is not over names it, stays as it was.
pub async fn register_all(ctx: Context, all: Registrations) {
    if let Err(error) = principals::of_configuration(&ctx).await {
        tracing::warn!(%error, "tenants and users of the configuration are not written down");
    }
    let Registrations { environments, target_groups, versions } = all;
    register_each(&ctx, environments).await;
    register_each(&ctx, target_groups).await;
    register_each(&ctx, versions).await;
}

async fn register_each<S: Spec>(ctx: &Context, all: Vec<S>) {
    for spec in all {
        let name = spec.name().to_owned();
        let by = By { actor: Actor::Operator(CONFIGURATION.to_owned()), note: None };
        if let Err(problem) = register(ctx, DEFAULT_TENANT, spec, by).await {
            tracing::warn!(?problem, name, "a {} of the configuration is not registered", S::CALLED);
        }
    }
}

/// Who registers what the configuration names.
const CONFIGURATION: &str = "configuration";

fn operator(by: &By) -> Option<String> {
    match &by.actor {
        Actor::Operator(name) => Some(name.clone()),
        Actor::Child | Actor::Timer | Actor::Analysis | Actor::Parent | Actor::Redis => None,
    }
}
