//! Calls about releases that have left memory, answered from the store.
//!
//! A child's late call is decided on an image of the release that holds this child alone. Only if it changes
//! something is the whole release recalled into the engine's state.

use std::time::Duration;

use super::{
    handle::{Answer, Engine, EngineError},
    load::Building,
};
use heart::release::{
    change::Change,
    command::{Command, Decision, Refusal, Reply},
    decide, part,
    state::{Release, State},
};
use model::{ChildKey, ReleaseKey};
use store::{MAX_PAGE, StoreError};

/// Patience with the engine while a recall asks it for a child.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) enum Recalled {
    Answered(Answer),
    /// The part of one child, which is enough.
    Part {
        part: Box<Release>,
        /// Commands that had been decided before it was read.
        as_of: u64,
    },
    Whole(Box<Release>),
}

pub(super) fn failed(engine: &Engine, error: &StoreError) -> EngineError {
    engine.unreadable().note(error);
    tracing::warn!(%error, "a release could not be recalled from the store");
    match error {
        error if error.passes() => EngineError::Busy,
        _ => EngineError::Failed,
    }
}

/// Answers `command` from the store if it changes nothing; else brings the child's part where that is enough, or the whole
/// release.
pub(super) async fn about_one_child(
    engine: &Engine,
    key: ReleaseKey,
    command: &Command,
) -> Result<Recalled, EngineError> {
    let (child, offer) = match command {
        Command::Fetch { child, offer }
        | Command::Result { child, offer, .. }
        | Command::EndStage { child, offer, .. } => (Some(child.clone()), offer.clone()),
        Command::Pause { release, .. }
        | Command::Resume { release }
        | Command::Abort { release, .. }
        | Command::Approve { release }
        | Command::Promote { release }
        | Command::Extend { release }
        | Command::ExtendAnalysis { release, .. }
        | Command::SkipChild { release, .. }
        | Command::RetryChild { release, .. }
        | Command::Retry { release }
        | Command::PlanAgain { release }
        | Command::EndStageNow { release, .. }
        | Command::SkipStage { release, .. }
        | Command::UpstreamSkip { release, .. }
        | Command::UpstreamContinue { release, .. }
        | Command::UpstreamUndo { release, .. } => (None, release.clone()),
        Command::UpstreamEnd { .. } | Command::UpstreamHold { .. } | Command::UpstreamDisowned { .. } => {
            return Ok(Recalled::Answered(Ok(Reply::Done)));
        }
        _ => return Ok(Recalled::Answered(Err(Refusal::NotInMemory(key).into()))),
    };
    let Some(id) = engine.view().releases.id_of(&offer) else {
        return Ok(Recalled::Answered(Err(Refusal::UnknownRelease(offer).into())));
    };
    if let Some(child) = child
        && let Some(found) = of_child(engine, id.as_str(), &child, command).await?
    {
        return Ok(found);
    }
    let release = whole(engine, id.as_str()).await?;
    Ok(Recalled::Whole(Box::new(release)))
}

/// The answer, or the part of the child that it takes to find it; `None`: it takes the whole release.
async fn of_child(
    engine: &Engine,
    id: &str,
    child: &str,
    command: &Command,
) -> Result<Option<Recalled>, EngineError> {
    let name = child.to_owned();
    let found = engine
        .read(PATIENCE, move |state| {
            state.children.by_id(&name).map(|(key, child)| {
                let mut child = child.clone();
                child.open.clear();
                (key, child, state.decided)
            })
        })
        .await?;
    let Some((child_key, record, as_of)) = found else {
        return Ok(Some(Recalled::Answered(Err(Refusal::UnknownChild(child.to_owned()).into()))));
    };
    let mut building = head(engine, id).await?;
    let reader = engine.reader();
    let key = building.release.key;
    let row = reader.assignment(key.0, child_key.0).await.map_err(|e| failed(engine, &e))?;
    let mut image = State::default();
    image.apply(&Change::ChildArrived {
        child: child_key,
        arrival: heart::release::change::Arrival::Adopted,
        record: Box::new(record),
    });
    let has_acted = row.is_some();
    match row {
        Some(row) => {
            building.assignment(&row).map_err(|e| failed(engine, &e))?;
            let results = reader
                .stage_results(key.0, child_key.0, child_key.0)
                .await
                .map_err(|e| failed(engine, &e))?;
            for row in &results {
                building.stage_result(row).map_err(|e| failed(engine, &e))?;
            }
        }
        None => add_members(engine, &mut building, Some(child_key)).await?,
    }
    let part = Release { is_part: true, ..building.finish(&image) };
    let key = part.key;
    image.hold(part.clone());
    let now = engine.clock().now();
    let Decision { changes, answer } = decide(&image, engine.view().children.as_ref(), command, now);
    // What is said of the child alone needs no release: anybody can have an id that has not called again, and to bring
    // a release back costs what its children cost.
    let of_release: Vec<Change> = changes.into_iter().filter(|change| change.release().is_some()).collect();
    if of_release.is_empty() {
        return Ok(Some(Recalled::Answered(answer.map_err(EngineError::from))));
    }
    let is_enough = has_acted && part::is_late_news(&of_release, key);
    Ok(is_enough.then(|| Recalled::Part { part: Box::new(part), as_of }))
}

async fn head(engine: &Engine, id: &str) -> Result<Building, EngineError> {
    let row = engine.reader().release(id).await.map_err(|e| failed(engine, &e))?;
    let row = row.ok_or_else(|| Refusal::UnknownRelease(id.to_owned()))?;
    let key = row.release_key;
    let mut building = Building::new(row).map_err(|e| failed(engine, &e))?;
    for row in engine.reader().analysis_runs(key).await.map_err(|e| failed(engine, &e))? {
        building.analysis_run(&row).map_err(|e| failed(engine, &e))?;
    }
    Ok(building)
}

async fn add_members(
    engine: &Engine,
    building: &mut Building,
    only: Option<ChildKey>,
) -> Result<(), EngineError> {
    let rows = engine.reader().members(building.release.key.0).await.map_err(|e| failed(engine, &e))?;
    for row in rows {
        building.members(&row).map_err(|e| failed(engine, &e))?;
    }
    if let Some(only) = only {
        building.keep_member(only);
    }
    Ok(())
}

/// A release with all its assignments, as the store has it.
pub(super) async fn whole(engine: &Engine, id: &str) -> Result<Release, EngineError> {
    let mut building = head(engine, id).await?;
    add_members(engine, &mut building, None).await?;
    let key = building.release.key.0;
    let mut after = None;
    loop {
        let rows = engine.reader().assignments(key, after, MAX_PAGE).await.map_err(|e| failed(engine, &e))?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { break };
        let (first, last) = (first.child_key, last.child_key);
        for row in &rows {
            building.assignment(row).map_err(|e| failed(engine, &e))?;
        }
        let results =
            engine.reader().stage_results(key, first, last).await.map_err(|e| failed(engine, &e))?;
        for row in &results {
            building.stage_result(row).map_err(|e| failed(engine, &e))?;
        }
        after = Some(last);
    }
    engine.read(PATIENCE, move |state| building.finish(state)).await
}
