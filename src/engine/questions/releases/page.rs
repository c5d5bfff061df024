//! A page of this manager's own releases.
//!
//! One call looks at a bounded number of releases and reads a bounded number of bytes of strategies; what it has not come to is left
//! to the next page, so a page may hold fewer than were asked for, or none, and go on.
//!
//! Sorted otherwise than by age, the newest first, releases come in windows: the newest that one call can look at, sorted, then those before them.
//! What is not over is in memory, and fits into one window.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    ops::Bound,
    sync::Arc,
};

use super::filter::{Digest, Filter, Prepared, Sort, rank};
use crate::{
    Engine, EngineError, blocking,
    presentation::{line, release},
    questions::kind::LOOK_PATIENCE,
    unreadable::Unreadable,
};
use domain::release::state::{Release, Snapshot};
use model::{Now, ReleaseKey};
use protocol::api::{ReleaseLine, ReleasePage};
use store::{ReleaseFilter, StoreError, rows::ReleaseRow};

/// Most releases that one call looks at.
pub const MAX_LOOKED: usize = 2_000;

/// Most bytes of strategies that one call reads, beyond the first: to read as much takes some 70 ms.
pub const MAX_READ_BYTES: usize = 512 * 1024;

/// Rows that are asked of the store at once.
const CHUNK: u32 = 250;

/// Why a page can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("`after` must be what `next` of the page before said")]
    Place,
}

/// Where a page begins: `KEY`, or `FROM-TO:AT` of one that is sorted otherwise than by age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    /// Only releases of lower numbers.
    before: Option<u32>,
    /// Where the window ends: releases of this number and above. `None`: it has yet to be looked at.
    last: Option<u32>,
    /// So many of the window were shown.
    shown: usize,
}

impl Place {
    fn read(text: Option<&str>) -> Result<Self, PageError> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Self::default()) };
        let number = |text: &str| text.parse().map_err(|_| PageError::Place);
        let Some((window, shown)) = text.split_once(':') else {
            return Ok(Self { before: Some(number(text)?), ..Self::default() });
        };
        let (before, last) = window.split_once('-').ok_or(PageError::Place)?;
        let shown = shown.parse().map_err(|_| PageError::Place)?;
        Ok(Self { before: Some(number(before)?), last: Some(number(last)?), shown })
    }
}

/// What is asked of a manager of its own.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    pub filter: Filter,
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// `next` of the page before.
    pub after: Option<String>,
    pub limit: usize,
    /// Whether to count what is open, by state.
    pub counts: bool,
}

/// A page of this manager's own releases.
pub async fn page(engine: &Engine, asked: PageQuery) -> Result<ReleasePage, PageError> {
    let state = engine.snapshot(LOOK_PATIENCE).await?;
    let place = Place::read(asked.after.as_deref())?;
    let is_sorted = asked.sort != Sort::Submitted || asked.reverse;
    let limit = if is_sorted { MAX_LOOKED } else { asked.limit };
    let mut walk = Walk { lines: Vec::new(), looked: 0, read_bytes: 0, limit, stopped: None, top: None };
    let mut before = place.before;
    let filter = asked.filter.clone();
    let prepared = Arc::new(blocking::run(move || filter.prepared()).await?);
    loop {
        let chunk = chunk(engine, &state, &asked.filter, before, CHUNK).await?;
        let is_last = chunk.len() < CHUNK as usize;
        let (engine_apart, state, prepared) = (engine.clone(), Arc::clone(&state), Arc::clone(&prepared));
        let now = engine.clock().now();
        let work = move || {
            let look = Looking { state: &state, now, engine: &engine_apart, prepared: &prepared };
            let walked = look.walk(&mut walk, chunk, place.last);
            walked.map(|end| (walk, end))
        };
        let (walked, end) = blocking::run(work).await??;
        walk = walked;
        before = end;
        if walk.stopped.is_some() || is_last || walk.looked >= MAX_LOOKED {
            if walk.stopped.is_none() && !is_last {
                walk.stopped = before;
            }
            break;
        }
    }
    let open = asked.counts.then(|| count_open(&state, asked.filter.prefix.as_deref()));
    let page = if is_sorted { walk.window(place, &asked) } else { walk.in_order() };
    Ok(ReleasePage { open, ..page })
}

/// Those that are not over, by state.
fn count_open(state: &Snapshot, prefix: Option<&str>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    // Some that are over stay in memory, for somebody still owes a way back.
    let seen = state.releases.values().filter(|release| !release.state.is_over());
    for release in seen.filter(|release| prefix.is_none_or(|prefix| release.id.as_str().starts_with(prefix)))
    {
        *counts.entry(release.state.name().to_owned()).or_default() += 1;
    }
    counts
}

/// One to look at.
enum Candidate {
    InMemory(ReleaseKey),
    Stored(Box<ReleaseRow>),
}

impl Candidate {
    fn key(&self) -> u32 {
        match self {
            Self::InMemory(key) => key.0,
            Self::Stored(row) => row.release_key,
        }
    }
}

/// The newest below `before`, at most so many.
async fn chunk(
    engine: &Engine,
    state: &Snapshot,
    filter: &Filter,
    before: Option<u32>,
    limit: u32,
) -> Result<Vec<Candidate>, StoreError> {
    if filter.wants_open_only() {
        let below = before.map_or(Bound::Unbounded, |key| Bound::Excluded(ReleaseKey(key)));
        let keys: Vec<ReleaseKey> =
            state.releases.range((Bound::Unbounded, below)).map(|(key, _)| *key).collect();
        return Ok(keys.into_iter().rev().take(limit as usize).map(Candidate::InMemory).collect());
    }
    let filter = ReleaseFilter {
        before,
        states: filter.states.clone(),
        function: filter.function.clone(),
        prefix: filter.prefix.clone(),
        limit,
    };
    let rows = engine.reader().releases(&filter).await?;
    let candidate = |row: ReleaseRow| match state.release(ReleaseKey(row.release_key)) {
        Some(found) if row.open => Candidate::InMemory(found.key),
        Some(_) | None => Candidate::Stored(Box::new(row)),
    };
    Ok(rows.into_iter().map(candidate).collect())
}

/// What was found so far.
struct Walk {
    lines: Vec<(u32, ReleaseLine)>,
    looked: usize,
    read_bytes: usize,
    limit: usize,
    /// The last that was looked at, where it stopped before the end.
    stopped: Option<u32>,
    /// The first that was looked at.
    top: Option<u32>,
}

struct Looking<'a> {
    state: &'a Snapshot,
    now: Now,
    engine: &'a Engine,
    prepared: &'a Prepared,
}

impl Looking<'_> {
    /// Takes what is wanted. Gives the last that was looked at. `last`: nothing below this number.
    fn walk(
        &self,
        walk: &mut Walk,
        chunk: Vec<Candidate>,
        last: Option<u32>,
    ) -> Result<Option<u32>, StoreError> {
        let mut end = None;
        for candidate in blocking::giving_way(chunk.into_iter()) {
            let key = candidate.key();
            if last.is_some_and(|last| key < last) || walk.read_bytes > MAX_READ_BYTES {
                walk.stopped = end.or(walk.stopped).or(Some(key.saturating_add(1)));
                break;
            }
            walk.top.get_or_insert(key);
            walk.looked += 1;
            end = Some(key);
            let line = self.line(&mut walk.read_bytes, candidate)?;
            walk.lines.extend(line.map(|line| (key, line)));
            if walk.lines.len() >= walk.limit {
                walk.stopped = end;
                break;
            }
        }
        Ok(end)
    }

    fn line(&self, read: &mut usize, candidate: Candidate) -> Result<Option<ReleaseLine>, StoreError> {
        match candidate {
            Candidate::InMemory(key) => {
                let wants = |found: &&Release| {
                    self.prepared.wants_open(found, || self.digest_of(key.0, || Digest::of(&found.strategy)))
                };
                let found = self.state.release(key).filter(wants);
                Ok(found.map(|found| line::in_memory(self.state, found, self.now)))
            }
            Candidate::Stored(row) => {
                let digest = self.digest(&row, read);
                let wanted = self.prepared.wants_stored(&row.id, &digest);
                let unreadable = self.engine.unreadable();
                wanted.then(|| line::from_row(&row, digest.name.clone(), unreadable)).transpose()
            }
        }
    }

    /// A release is listed also where its strategy can't be read: without what would come from it.
    fn digest(&self, row: &ReleaseRow, read: &mut usize) -> Arc<Digest> {
        self.digest_of(row.release_key, || {
            *read += row.strategy.len();
            digest(row, self.engine.unreadable())
        })
    }

    /// Made only where it isn't kept.
    fn digest_of(&self, key: u32, make: impl FnOnce() -> Digest) -> Arc<Digest> {
        let kept = &self.engine.view().digests;
        kept.get(key).unwrap_or_else(|| {
            let digest = Arc::new(make());
            kept.keep(key, &digest);
            digest
        })
    }
}

fn digest(row: &ReleaseRow, unreadable: &Unreadable) -> Digest {
    release::strategy_of(row, unreadable).as_ref().map(Digest::of).unwrap_or_default()
}

impl Walk {
    fn in_order(self) -> ReleasePage {
        let items = self.lines.into_iter().map(|(_, line)| line).collect();
        ReleasePage { items, next: self.stopped.map(|key| key.to_string()), open: None }
    }

    /// A page of a window.
    fn window(mut self, place: Place, asked: &PageQuery) -> ReleasePage {
        self.lines.sort_by(|one, other| {
            let order = ordered(asked.sort, one, other);
            if asked.reverse { order.reverse() } else { order }
        });
        let count = self.lines.len();
        let lines = self.lines.into_iter().skip(place.shown).take(asked.limit);
        let items: Vec<ReleaseLine> = lines.map(|(_, line)| line).collect();
        let shown = place.shown + items.len();
        // What comes in later has a higher number than all of the window.
        let before = place.before.or(self.top.map(|top| top.saturating_add(1))).unwrap_or_default();
        let next = if shown < count {
            Some(format!("{before}-{}:{shown}", self.stopped.unwrap_or_default()))
        } else {
            self.stopped.map(|key| key.to_string())
        };
        ReleasePage { items, next, open: None }
    }
}

fn ordered(sort: Sort, one: &(u32, ReleaseLine), other: &(u32, ReleaseLine)) -> Ordering {
    let newest = || Reverse(one.0).cmp(&Reverse(other.0));
    let (a, b) = (&one.1, &other.1);
    let by = match sort {
        Sort::Submitted => Ordering::Equal,
        Sort::State => rank(&a.release.state).cmp(&rank(&b.release.state)),
        Sort::Name => a.release.name.to_lowercase().cmp(&b.release.name.to_lowercase()),
        Sort::Progress => part(a).total_cmp(&part(b)),
    };
    by.then_with(newest)
}

/// How far it has come, from 0 to 1. One for which nobody was planned has not begun, or is over.
fn part(line: &ReleaseLine) -> f64 {
    match line.progress.of {
        0 => f64::from(u8::from(line.release.ended.is_some())),
        of => f64::from(line.progress.ended) / f64::from(of),
    }
}
