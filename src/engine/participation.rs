//! Whether a child has a part in a release, in memory or over.

use std::time::Duration;

use super::{archived_calls::failed, error::EngineError, handle::Engine, json_columns, view::Mode};
use model::{ChildKey, ReleaseKey};

impl Engine {
    /// Whether the child is among those that the release was planned for, or came to it later.
    pub async fn takes_part(
        &self,
        child: &str,
        release: ReleaseKey,
        time_limit: Duration,
    ) -> Result<bool, EngineError> {
        let published = self.view().children.with(child, |entry| (entry.key, entry.turn()));
        let Some((key, turn)) = published else { return Ok(false) };
        if turn.release == release && matches!(turn.mode, Mode::Offer | Mode::InHand | Mode::Leads) {
            return Ok(true);
        }
        let in_memory = self
            .read(time_limit, move |state| {
                state.release(release).map(|release| release.assignments.contains_key(&key))
            })
            .await?;
        match in_memory {
            Some(found) => Ok(found),
            None => self.took_part(key, release).await,
        }
    }

    async fn took_part(&self, child: ChildKey, release: ReleaseKey) -> Result<bool, EngineError> {
        let reader = self.reader();
        if reader.assignment(release.0, child.0).await.map_err(|error| failed(self, &error))?.is_some() {
            return Ok(true);
        }
        // Members that never acted have no row of their own.
        let slices = reader.members(release.0).await.map_err(|error| failed(self, &error))?;
        for slice in slices {
            let members = json_columns::members(&slice).map_err(|error| failed(self, &error))?;
            if members.binary_search(&child).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
