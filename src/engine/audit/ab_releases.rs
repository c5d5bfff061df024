//! What changes of a release of a service are called in the words of progressive delivery, beside their own names: the same for each
//! release, however it was submitted.

use ::ab_releases::{percent, shares_of, subject_of, variation_of};

use super::event::Event;
use domain::release::{
    assignment::ReleaseEvent,
    change::Change,
    lifecycle, stages,
    state::{End, Release},
};

/// The changes are applied already.
pub(super) fn events<'a>(change: &'a Change, release: &'a Release) -> Vec<Event<'a>> {
    if subject_of(&release.strategy).is_none() {
        return Vec::new();
    }
    match change {
        Change::Lifecycle(change) => of_life(change, release),
        Change::Stages(stages::Change::Timed { stage: Some(stage), number, ended: false, .. }) => {
            began(release, *stage, *number)
        }
        Change::Stages(
            stages::Change::Timed { .. }
            | stages::Change::Ended { .. }
            | stages::Change::Skipped { .. }
            | stages::Change::UntestedRolledOut { .. },
        )
        | Change::Children(_)
        | Change::Rollout(_)
        | Change::Members(_)
        | Change::Parent(_)
        | Change::Analysis(_)
        | Change::Traffic(_)
        | Change::Workflows(_) => Vec::new(),
    }
}

fn of_life<'a>(change: &'a lifecycle::Change, release: &'a Release) -> Vec<Event<'a>> {
    let id = release.id.as_str();
    match change {
        lifecycle::Change::Submitted { .. } => {
            vec![Event::AbCreated { release: id, name: &release.strategy.name }]
        }
        lifecycle::Change::Started { .. } => vec![Event::AbStarted { release: id }],
        lifecycle::Change::Aborted { .. } => {
            last_begun(release, None).map(|stage| failed(release, stage)).into_iter().collect()
        }
        lifecycle::Change::Ended { end, unconfirmed, .. } => ended(release, *end, *unconfirmed),
        lifecycle::Change::Paused { .. }
        | lifecycle::Change::Resumed { .. }
        | lifecycle::Change::FaultNoted { .. }
        | lifecycle::Change::ActedOn { .. }
        | lifecycle::Change::RoutersBack { .. }
        | lifecycle::Change::Retried { .. }
        | lifecycle::Change::Replanned { .. }
        | lifecycle::Change::Removed { .. } => Vec::new(),
    }
}

fn ended(release: &Release, end: End, unconfirmed: u32) -> Vec<Event<'_>> {
    let id = release.id.as_str();
    let last = last_begun(release, None);
    let has_failed = || last.map(|stage| failed(release, stage)).into_iter();
    let winner = release.winner().unwrap_or(1);
    let promoted = Event::AbPromoted { release: id, variation: variation(release, winner) };
    let rolled_back = Event::AbRolledBack { release: id, variation: variation(release, 0), unconfirmed };
    match end {
        End::Done => last.and_then(|stage| passed(release, stage)).into_iter().chain([promoted]).collect(),
        End::DoneWithFailures if !release.counts.are_back(release.strategy.is_hybrid()) => {
            has_failed().chain([promoted]).collect()
        }
        End::DoneWithFailures | End::Untested => has_failed().chain([rolled_back]).collect(),
        End::RolledBack | End::Aborted | End::NoParticipants => vec![rolled_back],
    }
}

/// A stage began for the first wave: the one before has passed, unless it was left out.
fn began(release: &Release, stage: u8, wave: u32) -> Vec<Event<'_>> {
    let first = release.times.iter().find(|timed| timed.stage == Some(stage)).map(|timed| timed.number);
    let Some(number) = number_of(release, stage).filter(|_| first == Some(wave)) else { return Vec::new() };
    let id = release.id.as_str();
    let mut events = Vec::new();
    if let Some(before) = last_begun(release, Some(stage)) {
        events.extend(passed(release, before));
        events.push(Event::AbStageAdvanced { release: id, stage_number: number });
    }
    events.push(Event::CanaryStageStarted {
        release: id,
        stage_number: number,
        stage: name(release, stage),
        traffic_percentage: share(release, stage),
    });
    events
}

/// `None`: nobody begins it any more, so it can't have passed.
fn passed(release: &Release, stage: u8) -> Option<Event<'_>> {
    let is_skip = |fact: ReleaseEvent| matches!(fact, ReleaseEvent::StageSkipped { stage: skipped, .. } if skipped == stage);
    let is_skipped = release.facts.iter().any(|dated| is_skip(dated.fact));
    let stage_number = number_of(release, stage).filter(|_| !is_skipped)?;
    let (release, stage) = (release.id.as_str(), name(release, stage));
    Some(Event::CanaryStagePassed { release, stage_number, stage })
}

fn failed(release: &Release, stage: u8) -> Event<'_> {
    let stage_number = number_of(release, stage).unwrap_or_default();
    let (release, stage) = (release.id.as_str(), name(release, stage));
    Event::CanaryStageFailed { release, stage_number, stage }
}

/// The last stage of the service that anybody has begun, or the last before one.
fn last_begun(release: &Release, before: Option<u8>) -> Option<u8> {
    let begun = release.times.iter().filter_map(|timed| timed.stage);
    let of_service = begun.filter(|stage| number_of(release, *stage).is_some());
    of_service.filter(|stage| before.is_none_or(|before| *stage < before)).max()
}

/// Its number among the stages of the first service.
fn number_of(release: &Release, stage: u8) -> Option<u32> {
    let subject = subject_of(&release.strategy)?;
    let own = release.strategy.stages.iter().zip(0_u8..).filter(|(stage, _)| stage.subject == subject);
    own.zip(1..).find(|((_, place), _)| *place == stage).map(|(_, number)| number)
}

fn name(release: &Release, stage: u8) -> &str {
    release.strategy.stages.get(usize::from(stage)).map_or("?", |stage| &stage.name)
}

fn share(release: &Release, stage: u8) -> f64 {
    let stage = release.strategy.stages.get(usize::from(stage));
    stage.map_or(0.0, |stage| percent(shares_of(stage).iter().skip(1).sum()))
}

fn variation(release: &Release, which: usize) -> &str {
    variation_of(&release.strategy, which).unwrap_or("?")
}
