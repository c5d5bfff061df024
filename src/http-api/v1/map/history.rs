//! `GET /api/v1/releases/{id}/map/history`.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use tokio::time::timeout;

use super::{binary::leb128, show::known};
use crate::{Context, context::PATIENCE, extract::Path, problem::Problem};
use engine::{EngineError, blocking, replay::Replay};

/// The media type.
pub const MEDIA: &str = "application/vnd.choirmaster.map-history";

const MAGIC: &[u8; 4] = b"CHMH";
const VERSION: u16 = 1;
const CUT: u16 = 1;

/// What a release was for each child from its start on, for a slider.
///
/// Little-endian. Header of 32 bytes: `CHMH`, u16 version (1), u16 flags (bit 0: there was more than is told), u32 groups, u32 children whose last
/// state does not follow from the trail and was taken from what is stored, i64 start in milliseconds since 1970, u64 milliseconds from there to the last
/// group. Then groups, in order: LEB128 milliseconds since the group before, u8 state (as in the map, without its bits), LEB128 count, and so many
/// numbers of children, each as the LEB128 of its difference to the one before in zigzag form (0, -1, 1, -2 … are 0, 1, 2, 3 …; the first to
/// 0). Who is in no group yet has no part. Of releases of more than 200,000 children nothing is told, and after 2,000,000 changes no more.
#[utoipa::path(get, path = "/api/v1/releases/{id}/map/history", operation_id = "release_map_history", tag = "watching",
    params(("id" = String, Path, description = "The id of the strategy.")),
    responses((status = 200, description = "Groups.", content_type = "application/vnd.choirmaster.map-history",
        body = [u8])))]
pub(super) async fn handle(State(ctx): State<Context>, Path(id): Path<String>) -> Result<Response, Problem> {
    let id = known(&ctx, &id)?;
    // One at a time: each reads a whole trail.
    let turn = Turn::taken(&ctx).await?;
    let replay = ctx.engine.replay(&id, turn).await?.ok_or_else(|| Problem::unknown_release(&id))?;
    let body = blocking::run(move || written(&replay)).await?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    Ok(response)
}

/// Whose turn it is. It goes with the work, which goes on for a while where the caller hangs up.
struct Turn(Context);

impl Turn {
    async fn taken(ctx: &Context) -> Result<Self, EngineError> {
        let turn = timeout(PATIENCE, ctx.maps.replaying.acquire()).await.map_err(|_| EngineError::Busy)?;
        // Given back when it ends.
        turn.map_err(|_| EngineError::Stopped)?.forget();
        Ok(Self(ctx.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.maps.replaying.add_permits(1);
    }
}

fn written(replay: &Replay) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((if replay.is_cut { CUT } else { 0 }).to_le_bytes());
    out.extend((replay.groups.len() as u32).to_le_bytes());
    out.extend(replay.corrected.to_le_bytes());
    out.extend(replay.started_ms.to_le_bytes());
    out.extend(replay.groups.last().map_or(0, |group| group.ms).to_le_bytes());
    let mut before = 0;
    for group in &replay.groups {
        leb128(&mut out, group.ms - before);
        before = group.ms;
        out.push(group.state.number());
        leb128(&mut out, group.numbers.len() as u64);
        let mut last = 0;
        for number in &group.numbers {
            let difference = i64::from(*number) - last;
            leb128(&mut out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
            last = i64::from(*number);
        }
    }
    out
}
