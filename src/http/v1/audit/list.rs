//! `GET /api/v1/audit`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::{self, AuditPlace};
use crate::{Context, extract::Query, problem::Problem, v1::page};
use store::AuditFilter;
use wire::api::{AuditEntry, Page};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only what concerns this release.
    release: Option<String>,
    /// Only what came after this entry: `SEQ-IDX`.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists the audit trail, oldest first.
#[utoipa::path(get, path = "/api/v1/audit", operation_id = "list_audit", tag = "watching",
    params(Parameters), responses((status = 200, body = Page<AuditEntry>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    let limit = page::limit(parameters.limit)?;
    let release_key = match parameters.release {
        None => None,
        Some(id) => Some(ctx.view().releases.key_of(&id).ok_or_else(|| Problem::unknown_release(&id))?.0),
    };
    let after: AuditPlace = page::after(parameters.after.as_deref())?.unwrap_or_default();
    // One more than wanted tells whether there is a page after this one.
    let filter = AuditFilter { after: after.columns(), release_key, limit: limit + 1 };
    let mut rows = ctx.engine.reader().audit(&filter).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| AuditPlace::of(row).to_string());
    let entry = |row| form::entry(row, ctx.engine.unreadable());
    Ok(Json(Page { items: rows.iter().map(entry).collect(), next }))
}
