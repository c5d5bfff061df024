//! What the actions on an A/B release have in common.

use axum::{Json, http::StatusCode};

use super::lookup::{ServiceRelease, find};
use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope, v1::releases};
use domain::release::{command::Command, lifecycle, rollout, stages, state::ReleaseState};
use engine::By;
use protocol::ab_releases::ABRelease;

/// Carries out commands one after the other, then shows the release as it is now. Its strategy may want a note for that.
pub(super) async fn act(
    ctx: &Context,
    found: &ServiceRelease,
    commands: Vec<Command>,
    by: By,
) -> Result<Json<ABRelease>, Problem> {
    releases::check_note(ctx, &found.recorded.release, &by).await?;
    for command in commands {
        ctx.engine.call(command, by.clone(), PATIENCE).await?;
    }
    let found = find(ctx, &Scope::Everything, &found.row.id).await?;
    Ok(Json(found.whole(ctx).await?))
}

/// Refuses what only a release under way can do.
pub(super) fn under_way(found: &ServiceRelease, what: &str) -> Result<(), Problem> {
    let is_under_way = found.now.state.is_under_way();
    if is_under_way && !found.now.is_back {
        return Ok(());
    }
    let why = match &found.now.state {
        _ if is_under_way => {
            "its stage has failed at every router, and each gives the stable variation everything again: roll it back, or retry it"
        }
        ReleaseState::Planned => "it has not begun: start it first",
        ReleaseState::RollingBack { .. } => "it is being taken back",
        ReleaseState::Over { .. }
        | ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. } => "it is over",
    };
    let detail = format!("A/B release {} can't be {what}: {why}", found.recorded.release);
    Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail))
}

pub(super) fn resume(found: &ServiceRelease) -> Command {
    Command::Lifecycle(lifecycle::Command::Resume { release: found.recorded.release.clone() })
}

pub(super) fn approve(found: &ServiceRelease) -> Command {
    Command::Rollout(rollout::Command::Approve { release: found.recorded.release.clone() })
}

/// Has a variation serve alone in the end, unless that is what the stages lead to anyway.
pub(super) fn choose_winner(found: &ServiceRelease, which: usize) -> Option<Command> {
    let course = found.now.course();
    let is_to_win = course.winner(&found.recorded) == which;
    let release = found.recorded.release.clone();
    let variation = found.recorded.variations.get(which)?.name.clone();
    (!is_to_win).then_some(Command::Rollout(rollout::Command::ChooseWinner { release, variation }))
}

pub(super) fn roll_back(found: &ServiceRelease, by: &By) -> Command {
    releases::roll_back(found.recorded.release.clone(), by)
}

/// Lets everybody pass over these stages, which count from 0, and ends them for those who are in one.
pub(super) fn skip(found: &ServiceRelease, which: std::ops::Range<usize>) -> impl Iterator<Item = Command> {
    let stages = found.recorded.stages.get(which).unwrap_or_default().iter();
    stages.map(|stage| {
        let (release, stage) = (found.recorded.release.clone(), stage.name.clone());
        Command::Stages(stages::Command::Skip { release, stage })
    })
}
