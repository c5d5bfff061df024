//! The releases of a manager below: the kinds `releases` and `release`. Where the path goes on, the manager asks the next one.

mod filter;
mod measured;
mod page;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::{
    filter::{Digests, Filter, Sort},
    measured::add_measured,
    page::{MAX_LOOKED, PageError, PageQuery, page},
};
use super::{
    kind::{LOOK_PATIENCE, PATIENCE, QuestionKind, ToAnswer, ask},
    path::next_hop,
};
use crate::{Engine, EngineError, presentation::release};
use protocol::api::{ReleaseDetail, ReleasePage};
use store::StoreError;

/// Most releases in one answer.
const MAX_LINES: usize = 100;

/// Largest answer, in bytes of JSON.
const MAX_BYTES: usize = 1024 * 1024;

/// The kind `releases`.
#[derive(Debug)]
pub struct ReleasesOf;

/// A page of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleasesWanted {
    /// The managers that lead there from the one that is asked.
    pub path: Vec<String>,
    pub filter: Filter,
    pub sort: Sort,
    /// The other way round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At least 1; at most 100 come.
    pub limit: u32,
    pub counts: bool,
}

impl QuestionKind for ReleasesOf {
    const NAME: &'static str = "releases";
    type Body = ReleasesWanted;
    type Answer = ReleasePage;

    async fn answer(asked: ToAnswer, wanted: ReleasesWanted) -> Result<ReleasePage, String> {
        if wanted.path.is_empty() {
            let ReleasesWanted { filter, sort, reverse, after, limit, counts, .. } = wanted;
            let limit = (limit as usize).clamp(1, MAX_LINES);
            let page = page(&asked.engine, PageQuery { filter, sort, reverse, after, limit, counts }).await;
            return fitting(page.map_err(|error| error.to_string())?);
        }
        below_within::<Self>(&asked.engine, wanted, asked.left_below()).await
    }
}

/// The kind `release`: one release as its manager shows it.
#[derive(Debug)]
pub struct ReleaseOf;

/// Which.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseWanted {
    /// The managers that lead there from the one that is asked.
    pub path: Vec<String>,
    /// As the manager there calls it.
    pub release: String,
}

impl QuestionKind for ReleaseOf {
    const NAME: &'static str = "release";
    type Body = ReleaseWanted;
    /// `None`: there is no such release.
    type Answer = Option<ReleaseDetail>;

    async fn answer(asked: ToAnswer, wanted: ReleaseWanted) -> Result<Option<ReleaseDetail>, String> {
        if wanted.path.is_empty() {
            let found = detail(&asked.engine, &wanted.release).await;
            return fitting(found.map_err(|error| error.to_string())?);
        }
        below_within::<Self>(&asked.engine, wanted, asked.left_below()).await
    }
}

/// What goes down a path.
trait Descends {
    fn path(&mut self) -> &mut Vec<String>;
}

impl Descends for ReleasesWanted {
    fn path(&mut self) -> &mut Vec<String> {
        &mut self.path
    }
}

impl Descends for ReleaseWanted {
    fn path(&mut self) -> &mut Vec<String> {
        &mut self.path
    }
}

/// A page of the releases of a manager below.
pub async fn ask_below(engine: &Engine, wanted: ReleasesWanted) -> Result<ReleasePage, String> {
    below_within::<ReleasesOf>(engine, wanted, PATIENCE).await
}

/// A release of a manager below; `None`: there is none of this id.
pub async fn ask_one_below(engine: &Engine, wanted: ReleaseWanted) -> Result<Option<ReleaseDetail>, String> {
    below_within::<ReleaseOf>(engine, wanted, PATIENCE).await
}

async fn below_within<K: QuestionKind<Body: Descends>>(
    engine: &Engine,
    mut wanted: K::Body,
    time: Duration,
) -> Result<K::Answer, String> {
    let (key, rest) = next_hop(engine, wanted.path())?;
    *wanted.path() = rest;
    ask::<K>(engine, key, &wanted, time).await.map_err(|why| why.to_string())
}

/// An answer that is not too large to be carried.
fn fitting<T: Serialize>(answer: T) -> Result<T, String> {
    let bytes = serde_json::to_vec(&answer).map_err(|error| error.to_string())?.len();
    if bytes > MAX_BYTES {
        return Err(format!("it has {bytes} bytes, and {MAX_BYTES} can be told: ask there"));
    }
    Ok(answer)
}

/// Why a release can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A release with its strategy, from memory or from the store.
pub async fn detail(engine: &Engine, id: &str) -> Result<Option<ReleaseDetail>, ShowError> {
    let (wanted, now) = (id.to_owned(), engine.clock().now());
    let look = move |state: &domain::release::state::Snapshot| {
        state.release_by_id(&wanted).map(|found| release::detail(state, found, now))
    };
    if let Some(found) = engine.read_apart(LOOK_PATIENCE, look).await? {
        return Ok(Some(found));
    }
    let Some(row) = engine.reader().release(id).await? else { return Ok(None) };
    let runs = engine.reader().analysis_runs(row.release_key).await?;
    Ok(Some(release::detail_from_row(&row, &runs, engine.unreadable())?))
}
