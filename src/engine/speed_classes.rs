//! How fast the children of a release were before it: read from the store once, when it is first asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::OnceCell, task::spawn_blocking};

use super::json_columns;
use domain::release::speed_classes::{Begun, Classes};
use language::Strategy;
use model::{ChildKey, ReleaseKey};
use store::{MAX_PAGE, Reader, StoreError, rows::StageResultRow};

/// Functions of releases whose children's classes are remembered; 8 bytes a child each.
const MAX_REMEMBERED: usize = 16;

type Of = (ReleaseKey, Begun);
type ClassesCell = Arc<OnceCell<Arc<Classes>>>;

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct ClassesCache(Mutex<VecDeque<(Of, ClassesCell)>>);

impl ClassesCache {
    fn cell_of(&self, of: Of) -> ClassesCell {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = all.iter().find(|(known, _)| *known == of) {
            return Arc::clone(found);
        }
        if all.len() >= MAX_REMEMBERED {
            all.pop_front();
        }
        let found = ClassesCell::default();
        all.push_back((of, Arc::clone(&found)));
        found
    }

    /// The classes of the children of a release, read where they are not remembered.
    pub async fn classes(
        &self,
        reader: &dyn Reader,
        release: ReleaseKey,
        begun: Begun,
    ) -> Result<Arc<Classes>, StoreError> {
        let found = self.cell_of((release, begun.clone()));
        found.get_or_try_init(|| read(reader, release, begun)).await.cloned()
    }
}

async fn read(reader: &dyn Reader, release: ReleaseKey, begun: Begun) -> Result<Arc<Classes>, StoreError> {
    let mut classes = Classes::default();
    let Some(before) = reader.precedent(&begun.function, begun.at_ms, release.0).await? else {
        return Ok(Arc::new(classes));
    };
    let row = reader.release(&before.id).await?.filter(|row| row.release_key == before.release_key);
    let Some(row) = row else { return Ok(Arc::new(classes)) };
    let strategy = Arc::new(json_columns::strategy_of(&row)?);
    let mut after = None;
    loop {
        let children = reader.assignments(before.release_key, after, MAX_PAGE).await?;
        let (Some(first), Some(last)) = (children.first(), children.last()) else {
            return Ok(Arc::new(classes));
        };
        let rows = reader.stage_results(before.release_key, first.child_key, last.child_key).await?;
        let (strategy, begun) = (Arc::clone(&strategy), begun.clone());
        // Apart from the tasks that answer calls: reports may be long.
        let adding = spawn_blocking(move || note(&mut classes, &rows, &strategy, &begun).map(|()| classes));
        classes = adding.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        after = Some(last.child_key);
    }
}

/// Takes in what was reported before the later release began, in the order of children.
fn note(
    classes: &mut Classes,
    rows: &[StageResultRow],
    strategy: &Strategy,
    begun: &Begun,
) -> Result<(), StoreError> {
    for row in rows.iter().filter(|row| row.at_ms <= begun.at_ms) {
        let stage = json_columns::slot_of(row, strategy)?.stage_index().map(|stage| &strategy.stages[stage]);
        let is_meant =
            |function: usize| strategy.subject_key(function).is_some_and(|key| key == begun.function);
        if let Some(stage) = stage.filter(|stage| is_meant(stage.subject)) {
            classes.note(ChildKey(row.child_key), &json_columns::summary(row)?, stage.new_traffic);
        }
    }
    Ok(())
}
