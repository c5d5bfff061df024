//! `GET /api/v1/map` and `GET /api/v1/releases/{id}/map`.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};

use super::{binary, parts::Subject, watch};
use crate::{Context, extract::Path, problem::Problem, scope::Scope};

/// Where children are, and how they are: the fleet without a release.
///
/// Little-endian. Header of 32 bytes: `CHMP`, u16 version (1), u16 flags (bit 0: of a release), u32 count, u32 generation, u64 epoch, u32
/// waves, u32 bytes of the first column. Columns of `count` values: numbers of children (LEB128 of the differences, padded with zeros to a multiple
/// of 4 bytes), i32 longitudes and i32 latitudes of the middles of their areas in 10⁻⁷ degrees (−2³¹: not known), u8 states (bits 0 to 5: 0
/// `no_part`, 1 `waiting`, 2 `held`, 3 `doing`, 4 `done`, 5 `failed`, 6 `timed_out`, 7 `unreachable`, 8 `lost`, 9 `taking_back`,
/// 10 `taken_back`, 11 `unconfirmed`, 12 `untested`, 13 `excluded`, 14 `heard`, 15 `silent`, 16 `cordoned`, 17 `drained`; bit 6: its area spans
/// half the globe; bit 7: it is a manager), waves from 0 (LEB128).
#[utoipa::path(get, path = "/api/v1/map", operation_id = "show_map", tag = "watching",
    responses((status = 200, description = "Columns.", content_type = "application/vnd.choirmaster.map", body = [u8])))]
pub(super) async fn fleet(State(ctx): State<Context>, scope: Scope) -> Result<Response, Problem> {
    answer(&ctx, Subject { release: None, scope }).await
}

/// Where children are, and where each stands in a release; the others of the fleet have no part.
///
/// The form is that of `GET /api/v1/map`. Its epoch and generation, `EPOCH-GENERATION`, are `after` of `map/changes`.
#[utoipa::path(get, path = "/api/v1/releases/{id}/map", operation_id = "show_release_map", tag = "watching",
    params(("id" = String, Path, description = "The id of the strategy.")),
    responses((status = 200, description = "Columns.", content_type = "application/vnd.choirmaster.map", body = [u8])))]
pub(super) async fn release(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    answer(&ctx, Subject { release: Some(known(&ctx, &id)?), scope }).await
}

/// The id in the manager of a release that there is. Whose it is was seen to before.
pub(super) fn known(ctx: &Context, id: &str) -> Result<String, Problem> {
    let found = ctx.view().releases.key_of(id);
    found.map(|_| id.to_owned()).ok_or_else(|| Problem::unknown_release(id))
}

async fn answer(ctx: &Context, subject: Subject) -> Result<Response, Problem> {
    let viewer = watch::watch(ctx, subject)?;
    let shown = viewer.watch.fresh(ctx).await?;
    // Long for many children, and done once for all who look.
    let body = engine::blocking::run(move || shown.body()).await?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(binary::MEDIA));
    Ok(response)
}
