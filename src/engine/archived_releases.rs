//! Releases that have left memory, read from the store for people: a page of children at a time.
//!
//! Who takes part is stored in slices of all members, so it is read and unpacked once for a whole walk ([`Past`]). What is made of rows is made
//! apart from the tasks that answer calls.

use std::{sync::Arc, time::Duration};

use super::{
    archived_calls::failed, blocking, error::EngineError, handle::Engine, load::Building, members::PackedPart,
};
use domain::release::state::{Release, Snapshot};
use model::ChildKey;
use store::{MAX_PAGE, StoreError, rows::AssignmentRow};

/// Patience with the engine, which tells which children are still known.
const PATIENCE: Duration = Duration::from_secs(10);

/// A part of a release.
#[derive(Debug)]
pub struct ReleasePage {
    /// The release; of its children only those of the page.
    pub release: Release,
    /// The last child of the page, if there are more after it.
    pub next: Option<ChildKey>,
}

/// A walk over the children of a release as the store has it.
#[derive(Debug)]
pub struct Past {
    engine: Engine,
    /// Without any children.
    head: Arc<Building>,
    /// In order of number.
    members: Arc<[(ChildKey, PackedPart)]>,
}

impl Engine {
    /// A release as the store has it; `None` if there is no such release.
    pub async fn past(&self, id: &str) -> Result<Option<Past>, EngineError> {
        let reader = self.reader();
        let Some(row) = reader.release(id).await.map_err(|e| failed(self, &e))? else { return Ok(None) };
        let slices = reader.members(row.release_key).await.map_err(|e| failed(self, &e))?;
        let read = move || -> Result<_, StoreError> {
            let mut head = Building::new(row)?;
            for slice in blocking::giving_way(slices.iter()) {
                head.members(slice)?;
            }
            let members = head.take_members();
            Ok((head, members))
        };
        let (head, members) = blocking::run(read).await?.map_err(|e| failed(self, &e))?;
        Ok(Some(Past { engine: self.clone(), head: Arc::new(head), members: members.into() }))
    }
}

impl Past {
    /// The children after `after`.
    pub async fn page(&self, after: Option<ChildKey>, limit: u32) -> Result<ReleasePage, EngineError> {
        let engine = &self.engine;
        let rows = self.rows(after, limit).await?;
        let (head, members) = (Arc::clone(&self.head), Arc::clone(&self.members));
        let work = move |state: &Snapshot| -> Result<ReleasePage, StoreError> {
            let first = after.map_or(0, |after| members.partition_point(|(key, _)| *key <= after));
            // One more than wanted tells whether there is a page after this one.
            let some = members.iter().skip(first).take((limit as usize).saturating_add(1));
            let mut building = head.with_members(some.copied());
            for row in blocking::giving_way(rows.iter()) {
                building.assignment(row)?;
            }
            let next = building.keep_page(after, limit as usize);
            Ok(ReleasePage { release: building.finish(state), next })
        };
        engine.read_apart(PATIENCE, work).await?.map_err(|e| failed(engine, &e))
    }

    pub(super) fn key(&self) -> u32 {
        self.head.release.key.0
    }

    pub(super) fn members_count(&self) -> usize {
        self.members.len()
    }

    /// The release with all its members as they were planned.
    pub(super) fn planned(&self) -> Building {
        self.head.with_members(self.members.iter().copied())
    }

    /// The rows of the first `limit` children after `after` that have one.
    pub(super) async fn rows(
        &self,
        after: Option<ChildKey>,
        limit: u32,
    ) -> Result<Vec<AssignmentRow>, EngineError> {
        let (reader, key) = (self.engine.reader(), self.key());
        // The store has pages of its own, which may be smaller: one of them that isn't full would be taken for the last.
        let (mut all, mut last, mut left) = (Vec::new(), after.map(|after| after.0), limit);
        while left > 0 {
            let asked = left.min(MAX_PAGE);
            let rows = reader.assignments(key, last, asked).await.map_err(|e| failed(&self.engine, &e))?;
            let count = rows.len() as u32;
            last = rows.last().map(|row| row.child_key).or(last);
            left = if count < asked { 0 } else { left - count };
            all.extend(rows);
        }
        Ok(all)
    }
}
