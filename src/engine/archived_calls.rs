//! Calls about releases that have left memory, answered from the store.
//!
//! A child's late call is decided on an image of the release that holds this child alone. Only if it changes
//! something is the whole release recalled into the engine's state.

use std::time::Duration;

use super::{error::EngineError, handle::Engine, load::Building, mailbox::Answer};
use domain::children;
use domain::release::{
    analysis, archived_call,
    change::Change,
    command::{Command, Decision, NoReply, Refusal, Reply},
    decide, lifecycle, members, parent, rollout, stages,
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
    if error.passes() { EngineError::Busy } else { EngineError::Failed }
}

/// Answers `command` from the store if it changes nothing; else brings the child's part where that is enough, or the whole
/// release.
pub(super) async fn about_one_child(
    engine: &Engine,
    key: ReleaseKey,
    command: &Command,
) -> Result<Recalled, EngineError> {
    let (child, offer) = match about(command) {
        About::Child { child, offer } => (Some(child), offer.to_owned()),
        About::Release(release) => (None, release.to_owned()),
        About::NothingLeft => return Ok(Recalled::Answered(Ok(Reply::Done))),
        About::NoRelease => {
            tracing::error!(?key, "a release is missing for a command that is about none");
            return Err(EngineError::Failed);
        }
    };
    let Some(id) = engine.view().releases.id_of(&offer) else {
        return Ok(Recalled::Answered(Err(Refusal::UnknownRelease(offer).into())));
    };
    if let Some(child) = child
        && let Some(found) = of_child(engine, id.as_str(), child, command).await?
    {
        return Ok(found);
    }
    let release = whole(engine, id.as_str()).await?;
    Ok(Recalled::Whole(Box::new(release)))
}

/// What a command needs of a release that has left memory.
enum About<'a> {
    /// It is the call of a child, about an offer of the release.
    Child { child: &'a str, offer: &'a str },
    /// The release itself, by its id.
    Release(&'a str),
    /// Of one that is over there is nothing left to do.
    NothingLeft,
    /// No command that a release could be missing for.
    NoRelease,
}

fn about(command: &Command) -> About<'_> {
    match command {
        Command::Members(command) => match command {
            members::Command::Fetch { child, offer }
            | members::Command::Result { child, offer, .. }
            | members::Command::EndStage { child, offer, .. } => About::Child { child, offer },
            members::Command::Skip { release, .. } | members::Command::Retry { release, .. } => {
                About::Release(release)
            }
        },
        Command::Lifecycle(command) => match command {
            lifecycle::Command::Pause { release, .. }
            | lifecycle::Command::Resume { release }
            | lifecycle::Command::Abort { release, .. }
            | lifecycle::Command::Retry { release }
            | lifecycle::Command::PlanAgain { release } => About::Release(release),
            lifecycle::Command::Submit { .. } | lifecycle::Command::Remove { .. } => About::NoRelease,
        },
        Command::Rollout(command) => match command {
            rollout::Command::Approve { release }
            | rollout::Command::Promote { release }
            | rollout::Command::PromoteToGate { release }
            | rollout::Command::ChooseWinner { release, .. }
            | rollout::Command::ChooseShares { release, .. }
            | rollout::Command::PromoteVariation { release, .. }
            | rollout::Command::Extend { release } => About::Release(release),
            rollout::Command::Turnout(_) => About::NoRelease,
        },
        // Of what is guarded the tag is to be looked at, also where nothing is left to do.
        Command::Stages(stages::Command::End { release, .. } | stages::Command::Skip { release, .. })
        | Command::Analysis(analysis::Command::Extend { release, .. })
        | Command::Guarded { release, .. } => About::Release(release),
        Command::Parent(command) => match command {
            parent::Command::Skip { release, .. }
            | parent::Command::Continue { release, .. }
            | parent::Command::Undo { release, .. } => About::Release(release),
            parent::Command::End { .. }
            | parent::Command::Accept { .. }
            | parent::Command::Hold { .. }
            | parent::Command::Disowned { .. } => About::NothingLeft,
            parent::Command::NoteForwarded { .. } => About::NoRelease,
        },
        Command::Analysis(analysis::Command::Looked(_))
        | Command::Children(_)
        | Command::Traffic(_)
        | Command::Workflows(_)
        | Command::Tick
        | Command::Recalled { .. }
        | Command::RecalledPart { .. } => About::NoRelease,
    }
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
    image.apply(&Change::Children(children::Change::Arrived {
        child: child_key,
        arrival: children::Arrival::Adopted,
        record: Box::new(record),
    }));
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
        return match answer {
            Ok(reply) => Ok(Some(Recalled::Answered(Ok(reply)))),
            Err(NoReply::Refused(refusal)) => Ok(Some(Recalled::Answered(Err(refusal.into())))),
            Err(NoReply::Missing(_)) => Ok(None),
        };
    }
    let is_enough = has_acted && archived_call::is_late_news(&of_release, key);
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
