//! `GET /api/v1/audit`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    form::{self, AuditPlace},
    visibility,
};
use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::page::{self, MAX_LIMIT},
};
use engine::audit::is_step;
use protocol::api::{AuditEntry, Page};
use store::{AuditFilter, AuditOrder};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only what concerns this release.
    release: Option<String>,
    /// The newest first, and without what single children did on their way, which is most of what there is.
    told: bool,
    /// Only what comes after this entry in that order: `SEQ-IDX`.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists the audit trail, oldest first unless asked otherwise.
#[utoipa::path(get, path = "/api/v1/audit", operation_id = "list_audit", tag = "watching",
    params(Parameters), responses((status = 200, body = Page<AuditEntry>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    let limit = page::limit(parameters.limit)?;
    let release_key = match parameters.release {
        None => None,
        Some(id) => {
            let id = scope.release(&id);
            Some(ctx.view().releases.key_of(&id).ok_or_else(|| Problem::unknown_release(&id))?.0)
        }
    };
    let after: Option<AuditPlace> = page::after(parameters.after.as_deref())?;
    let order = if parameters.told { AuditOrder::ToldNewestFirst } else { AuditOrder::OldestFirst };
    if scope.tenant().is_some() {
        return of_tenant(&ctx, &scope, order, release_key, after, limit).await.map(Json);
    }
    // One more than wanted tells whether there is a page after this one.
    let filter = AuditFilter { order, after: columns(order, after), release_key, limit: limit + 1 };
    let mut rows = ctx.engine.reader().audit(&filter).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| AuditPlace::of(row).to_string());
    let entry = |row| shown(order, form::entry(row, ctx.engine.unreadable()));
    Ok(Json(Page { items: rows.iter().filter_map(entry).collect(), next }))
}

/// Rows that are looked at for one page of a tenant's, in pages of the store: others may have filled the trail.
const MAX_LOOKED_PAGES: u32 = 10;

/// A page of what a tenant sees of the trail. It may be short and go on all the same.
async fn of_tenant(
    ctx: &Context,
    scope: &Scope,
    order: AuditOrder,
    release_key: Option<u32>,
    mut after: Option<AuditPlace>,
    limit: u32,
) -> Result<Page<AuditEntry>, Problem> {
    let mut items = Vec::new();
    for _ in 0..MAX_LOOKED_PAGES {
        let filter = AuditFilter { order, after: columns(order, after), release_key, limit: MAX_LIMIT };
        let rows = ctx.engine.reader().audit(&filter).await?;
        for row in &rows {
            let place = AuditPlace::of(row);
            items.extend(visibility::of_row(ctx, scope, row).and_then(|entry| shown(order, entry)));
            after = Some(place);
            if items.len() >= limit as usize {
                return Ok(Page { items, next: Some(place.to_string()) });
            }
        }
        if rows.len() < MAX_LIMIT as usize {
            return Ok(Page { items, next: None });
        }
    }
    Ok(Page { items, next: after.map(|after| after.to_string()) })
}

/// The columns of a place. The one before all rows is no row's: all come after it, and backwards none.
fn columns(order: AuditOrder, after: Option<AuditPlace>) -> Option<(u64, u32)> {
    match order {
        AuditOrder::OldestFirst => after?.columns(),
        AuditOrder::ToldNewestFirst => after.map(|after| after.columns().unwrap_or_default()),
    }
}

/// A row may tell of single children beside what concerns all; one that tells of nothing else isn't shown.
fn shown(order: AuditOrder, mut entry: AuditEntry) -> Option<AuditEntry> {
    match order {
        AuditOrder::OldestFirst => return Some(entry),
        AuditOrder::ToldNewestFirst => entry.events.retain(|event| !is_step(event)),
    }
    (!entry.events.is_empty()).then_some(entry)
}
