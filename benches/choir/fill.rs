//! Fills a store with registered children by way of the store's own import, which works on both kinds.

use anyhow::Context as _;
use store::{
    options::OpenOptions,
    rows::{ChildRow, Writes},
    transfer::{Progress, Slice},
    url,
};

use crate::bodies::{self, Caller};

/// Children in one write.
const SLICE: usize = 4_096;

/// 2026-01-01.
const BORN_MS: i64 = 1_767_225_600_000;

/// Fills an empty store; answers the children in the order in which they call.
pub async fn children(store: &str, count: usize) -> anyhow::Result<Vec<Caller>> {
    children_at(store, count, bodies::area).await
}

/// The same with other areas.
pub async fn children_at(
    store: &str,
    count: usize,
    area: impl Fn(usize) -> String + Send + Sync,
) -> anyhow::Result<Vec<Caller>> {
    let mut target = url::open_target(store, &OpenOptions::new()).await?;
    let mut next = 0;
    let mut ended = false;
    let mut slices = || {
        if ended {
            return Ok(None);
        }
        let until = (next + SLICE).min(count);
        let writes = Writes {
            children: (next..until).map(|index| row(index, area(index))).collect(),
            ..Writes::default()
        };
        next = until;
        ended = next == count;
        Ok(Some(Slice { writes, progress: ended.then_some(Progress { seq: 1_000_000, served_ms: 0 }) }))
    };
    target.fill(&mut slices).await.context("the store could not be filled")?;
    target.finish().await?;
    let callers = (0..count).map(|index| Caller { index, id: bodies::child_id(index) });
    Ok(bodies::shuffle(callers.collect()))
}

fn row(index: usize, area: String) -> ChildRow {
    ChildRow {
        child_key: index as u32,
        id: bodies::child_id(index),
        kind: "agent".to_owned(),
        name: None,
        area: Some(area),
        agents: 0,
        born_ms: BORN_MS,
        seen_ms: BORN_MS,
        detail: "{\"called_again\":true,\"plain\":true,\"address\":\"127.0.0.1\"}".to_owned(),
    }
}
