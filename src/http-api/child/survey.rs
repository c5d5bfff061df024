//! The check of an area that a child reports.
//!
//! One ring takes half a millisecond at most; holes, and polygons of which each is held against each, take up to many
//! milliseconds, also where each is tiny. Small areas of few rings are checked where they come in. The others are checked
//! one at a time on a thread of their own, and for as long as a check took the next one waits: all of them together take
//! half of a core, whoever reports however many.

use std::sync::Arc;

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::refused::Refused;
use crate::{Context, context::PATIENCE};
use model::area::{self, AreaError};

/// Longest area that is checked at once, in bytes: some 60 vertices, which take some microseconds.
pub const SMALL_BYTES: usize = 2 * 1024;

/// Most rings of such an area: each is held against each other one.
const SMALL_RINGS: usize = 3;

/// The area of a child, if it reports one. What is known of it already is not checked again.
pub(super) async fn checked(ctx: &Context, id: &str, text: &str) -> Result<Option<Arc<str>>, Refused> {
    if text == "null" {
        return Ok(None);
    }
    let known = ctx.view().children.with(id, |child| child.area.clone().filter(|known| **known == *text));
    if let Some(known) = known.flatten() {
        return Ok(Some(known));
    }
    let text: Arc<str> = Arc::from(text);
    let checked = if is_small(&text) { check(&text) } else { in_turn(ctx, Arc::clone(&text)).await? };
    checked.map_err(|error| Refused::bad(format!("`geographic_area`: {error}")))?;
    Ok(Some(text))
}

pub fn is_small(text: &str) -> bool {
    text.len() <= SMALL_BYTES && rings(text) <= SMALL_RINGS
}

/// How many rings a text of GeoJSON has, at least: a ring is a list of lists in which no list begins.
pub fn rings(text: &str) -> usize {
    let (mut rings, mut opened) = (0, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if byte == b'[' {
            opened += 1;
        } else {
            rings += usize::from(opened >= 2);
            opened = 0;
        }
    }
    rings
}

pub fn check(text: &str) -> Result<(), AreaError> {
    area::parse(text).map(|_| ())
}

async fn in_turn(ctx: &Context, text: Arc<str>) -> Result<Result<(), AreaError>, Refused> {
    let turn = timeout(PATIENCE, Arc::clone(&ctx.surveying).acquire_owned()).await;
    let turn = turn.map_err(|_| Refused::unavailable(ctx))?.map_err(|_| Refused::unavailable(ctx))?;
    let (done, checked) = oneshot::channel();
    // On its own, for whoever hangs up meanwhile would take the pause along.
    tokio::spawn(async move {
        let began = Instant::now();
        match tokio::task::spawn_blocking(move || check(&text)).await {
            Ok(checked) => drop(done.send(checked)),
            Err(error) => tracing::error!(%error, "an area could not be checked"),
        }
        sleep(began.elapsed()).await;
        drop(turn);
    });
    checked.await.map_err(|_| Refused::unavailable(ctx))
}
