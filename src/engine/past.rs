//! Releases that have left memory, read from the store for people: a page of children at a time.

use std::time::Duration;

use super::{handle::Engine, load::Building, mailbox::EngineError, recall::failed};
use heart::release::state::Release;
use model::ChildKey;

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

impl Engine {
    /// The children after `after` of a release as the store has it; `None` if there is no such release.
    pub async fn past(
        &self,
        id: &str,
        after: Option<ChildKey>,
        limit: u32,
    ) -> Result<Option<ReleasePage>, EngineError> {
        let reader = self.reader();
        let Some(row) = reader.release(id).await.map_err(|e| failed(self, &e))? else { return Ok(None) };
        let mut building = Building::new(row).map_err(|e| failed(self, &e))?;
        let key = building.release.key.0;
        for row in reader.members(key).await.map_err(|e| failed(self, &e))? {
            building.members(&row).map_err(|e| failed(self, &e))?;
        }
        let rows =
            reader.assignments(key, after.map(|after| after.0), limit).await.map_err(|e| failed(self, &e))?;
        for row in &rows {
            building.assignment(row).map_err(|e| failed(self, &e))?;
        }
        let next = building.keep_page(after, limit as usize);
        let release = self.read(PATIENCE, move |state| building.finish(state)).await?;
        Ok(Some(ReleasePage { release, next }))
    }
}
