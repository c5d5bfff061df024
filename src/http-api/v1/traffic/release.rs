//! `GET /api/v1/releases/{id}/traffic`.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form;
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    v1::{audit::form::AuditPlace, page},
};
use domain::{release::state::Snapshot, traffic};
use engine::json_columns;
use model::ReleaseKey;
use protocol::api::{ReleaseTraffic, ServiceTraffic};
use store::TrafficFilter;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only this service.
    service: Option<String>,
    /// `next` of the part before: entries of the history that are older.
    after: Option<String>,
    /// Entries of the history, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Shows who gets what by a release: as wanted, as read back and as measured, over all routers and at each, with the history.
#[utoipa::path(get, path = "/api/v1/releases/{id}/traffic", operation_id = "show_release_traffic", tag = "traffic",
    params(("id" = String, Path, description = "The id of the release."), Parameters),
    responses((status = 200, body = ReleaseTraffic, description = "Where routers have a service from another release by now, \
        only the history tells of this one.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<ReleaseTraffic>, Problem> {
    let limit = page::limit(parameters.limit)?;
    let after: Option<AuditPlace> = page::after(parameters.after.as_deref())?;
    let key = ctx.view().releases.key_of(&id).ok_or_else(|| Problem::unknown_release(&id))?;
    let wanted = parameters.service.clone();
    let services = ctx.engine.read_apart(PATIENCE, move |state| services(state, key, wanted.as_deref()));
    let services = services.await?;
    let filter = TrafficFilter {
        before: after.and_then(AuditPlace::columns),
        release_key: Some(key.0),
        service: parameters.service.as_deref(),
        limit: limit + 1,
    };
    let mut rows = ctx.engine.reader().traffic_history(filter).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| AuditPlace::at(row.seq, row.idx).to_string());
    let read = |row| match json_columns::traffic::entry(row) {
        Ok(entry) => Some(form::entry(entry)),
        Err(error) => {
            ctx.engine.unreadable().note(&error);
            None
        }
    };
    Ok(Json(ReleaseTraffic { release: id, services, history: rows.iter().filter_map(read).collect(), next }))
}

/// What routers have from a release.
fn services(state: &Snapshot, release: ReleaseKey, only: Option<&str>) -> Vec<ServiceTraffic> {
    let mut by_name: BTreeMap<&str, Vec<(&str, &traffic::Service)>> = BTreeMap::new();
    for (key, service) in state.traffic.of_release(release) {
        let Some(child) = state.children.get(key) else { continue };
        if only.is_none_or(|only| only == service.name) {
            by_name.entry(&service.name).or_default().push((child.id.as_str(), service));
        }
    }
    let shown = |(name, of): (&str, Vec<(&str, &traffic::Service)>)| ServiceTraffic {
        service: name.to_owned(),
        variations: form::variations(of.iter().map(|(_, service)| *service)),
        routers: of.iter().map(|(router, service)| form::routed(router, service)).collect(),
    };
    by_name.into_iter().map(shown).collect()
}
