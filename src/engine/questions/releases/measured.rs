//! What the stages of a release have come to, for people: calls, and what was measured of each condition, of all children together.

use std::{collections::BTreeMap, sync::Arc};

use super::{super::kind::LOOK_PATIENCE, ShowError};
use crate::{Engine, blocking, json_columns, presentation::release};
use domain::release::{parent::aggregate, summary::Summary};
use language::Strategy;
use model::StageStatus;
use protocol::api::{ReleaseDetail, StageMeasured};
use store::{MAX_PAGE, StoreError, rows::StageResultRow};

/// Most reports of one release that are added up: whoever has more children asks for them one by one.
const MAX_REPORTS: usize = 10_000;

/// Adds to each stage of a release what its children measured there. Where too many of them reported, nothing is added.
///
/// # Errors
///
/// The store's, rows that can't be read, and an engine that doesn't answer.
pub async fn add_measured(engine: &Engine, found: &mut ReleaseDetail) -> Result<(), ShowError> {
    let id = found.release.id.clone();
    let in_memory = engine.read(LOOK_PATIENCE, move |state| {
        state.release_by_id(&id).map(|release| (release.key.0, Arc::clone(&release.strategy)))
    });
    let kept = match in_memory.await? {
        kept @ Some(_) => kept,
        None => of_store(engine, &found.release.id).await?,
    };
    let Some((key, strategy)) = kept else { return Ok(()) };
    let Some(reports) = reports(engine, key, &strategy).await? else { return Ok(()) };
    let measured = blocking::run(move || {
        let of_stage =
            |(at, summaries): (usize, Vec<Summary>)| Some((at, of_stage(&strategy, at, &summaries)?));
        reports.into_iter().filter_map(of_stage).collect::<Vec<_>>()
    });
    for (at, measured) in measured.await? {
        if let Some(stage) = found.stages.get_mut(at) {
            stage.measured = Some(measured);
        }
    }
    Ok(())
}

async fn of_store(engine: &Engine, id: &str) -> Result<Option<(u32, Arc<Strategy>)>, StoreError> {
    let row = engine.reader().release(id).await?;
    Ok(row
        .and_then(|row| Some((row.release_key, Arc::new(release::strategy_of(&row, engine.unreadable())?)))))
}

/// The last report of each child of each stage, without its parts; `None`: there are too many.
async fn reports(
    engine: &Engine,
    release_key: u32,
    strategy: &Arc<Strategy>,
) -> Result<Option<BTreeMap<usize, Vec<Summary>>>, ShowError> {
    let (mut found, mut left, mut after) = (BTreeMap::<usize, Vec<Summary>>::new(), MAX_REPORTS, None);
    loop {
        let page = engine.reader().assignments(release_key, after, MAX_PAGE).await?;
        let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(Some(found)) };
        let rows = engine.reader().stage_results(release_key, first.child_key, last.child_key).await?;
        let of = Arc::clone(strategy);
        let Some(reports) = blocking::run(move || reports_of(&rows, &of, left)).await?? else {
            return Ok(None);
        };
        left -= reports.len();
        for (stage, summary) in reports {
            found.entry(stage).or_default().push(summary);
        }
        after = Some(last.child_key);
    }
}

/// Those of these rows, each with its stage; `None`: they are more than `most`.
fn reports_of(
    rows: &[StageResultRow],
    strategy: &Strategy,
    most: usize,
) -> Result<Option<Vec<(usize, Summary)>>, StoreError> {
    let mut latest = BTreeMap::new();
    for row in rows {
        if let Some(stage) = json_columns::slot_of(row, strategy)?.stage_index() {
            // They come in the order of attempts.
            latest.insert((row.child_key, stage), row);
        }
    }
    if latest.len() > most {
        return Ok(None);
    }
    let read = |((_, stage), row): ((u32, usize), &StageResultRow)| {
        json_columns::summary(row).map(|summary| (stage, Summary { strata: Vec::new(), ..summary }))
    };
    blocking::giving_way(latest.into_iter()).map(read).collect::<Result<_, _>>().map(Some)
}

fn of_stage(strategy: &Strategy, at: usize, summaries: &[Summary]) -> Option<StageMeasured> {
    let stage = strategy.stages.get(at)?;
    let sum = aggregate(StageStatus::Completed, summaries);
    let of_two = || Some(sum.f1_calls?.saturating_add(sum.f2_calls?));
    let of_all = || sum.variations.iter().fold(0_u64, |all, one| all.saturating_add(one.calls));
    let calls = if sum.variations.is_empty() { of_two() } else { Some(of_all()) };
    Some(StageMeasured { children: summaries.len() as u32, calls, numbers: sum.numbers(stage) })
}
