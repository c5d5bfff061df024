//! The check of an area that a child reports.
//!
//! One ring takes half a millisecond at most; holes, and polygons of which each is held against each, take up to many
//! milliseconds. Small areas are checked where they come in. The others are checked one at a time on a thread of their
//! own, and for as long as a check took the next one waits: all of them together take half of a core, whoever reports
//! however many.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use super::Refused;
use crate::{
    http::{Context, context::PATIENCE},
    model::area::{self, AreaError},
};

/// Longest area that is checked at once, in bytes: some 60 vertices, which take some microseconds.
const SMALL_BYTES: usize = 2 * 1024;

/// The area of a child, if it reports one. What is known of it already is not checked again.
pub(super) async fn checked(ctx: &Context, id: &str, text: &str) -> Result<Option<Arc<str>>, Refused> {
    if text == "null" {
        return Ok(None);
    }
    let known = ctx.view().with_child(id, |child| child.area.clone().filter(|known| **known == *text));
    if let Some(known) = known.flatten() {
        return Ok(Some(known));
    }
    let text: Arc<str> = Arc::from(text);
    let checked =
        if text.len() <= SMALL_BYTES { check(&text) } else { in_turn(ctx, Arc::clone(&text)).await? };
    checked.map_err(|error| Refused::bad(format!("`geographic_area`: {error}")))?;
    Ok(Some(text))
}

fn check(text: &str) -> Result<(), AreaError> {
    area::parse(text).map(|_| ())
}

async fn in_turn(ctx: &Context, text: Arc<str>) -> Result<Result<(), AreaError>, Refused> {
    let turn = timeout(PATIENCE, Arc::clone(&ctx.surveying).acquire_owned()).await;
    let turn = turn.map_err(|_| Refused::unavailable(ctx))?.map_err(|_| Refused::unavailable(ctx))?;
    let checking = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let checked = check(&text);
        (checked, began.elapsed(), turn)
    });
    let (checked, took, turn) = checking.await.map_err(|error| {
        tracing::error!(%error, "an area could not be checked");
        Refused::unavailable(ctx)
    })?;
    tokio::spawn(async move {
        sleep(took).await;
        drop(turn);
    });
    Ok(checked)
}
