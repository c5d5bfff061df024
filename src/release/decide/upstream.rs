//! What the manager above asks for: that a stage ends, or that what it released is taken back.

use super::operate::{self, roll_back};
use crate::{
    model::Now,
    release::{
        change::{Change, Submitted},
        command::{Decision, Refusal, Reply},
        gate::Gate,
        state::{End, Release, State},
        upstream::HELD,
    },
    strategy::{Strategy, render},
};

/// The parent ended a stage. Children that are not ready are told to end it as well.
pub(super) fn end(state: &State, id: &str, stage: u8, undo: bool, now: Now) -> Decision {
    let Some(release) = state.release_by_id(id) else {
        return match state.known.get(id) {
            // Over, and nobody is awaited any more.
            Some(_) => Decision::unchanged(Reply::Done),
            None => Decision::refused(Refusal::UnknownRelease(id.to_owned())),
        };
    };
    if undo && (release.is_under_way() || release.state == crate::release::state::ReleaseState::Planned) {
        let reason = "the parent takes it back";
        return Decision::new(roll_back(state, release, reason, End::RolledBack, now), Reply::Done);
    }
    let Some(waiting) = release.waits_above().filter(|waiting| waiting.stage == stage) else {
        return Decision::unchanged(Reply::Done);
    };
    let barrier = release.gates.levels.after_stage(usize::from(stage));
    let mut changes = vec![release.opening(Gate::Level(barrier), now)];
    if !waiting.is_ready {
        changes.push(Change::StageEnded { release: release.key, stage, now });
    }
    Decision::new(changes, Reply::Done)
}

/// The parent's own release is paused, or goes on. A pause by somebody here stays until they resume it.
pub(super) fn hold(state: &State, id: &str, hold: bool, now: Now) -> Decision {
    match state.release_by_id(id) {
        Some(release) if hold && release.is_running() => operate::pause(state, id, HELD, now).into(),
        Some(release) if !hold && release.is_held() => operate::resume(state, id, now).into(),
        Some(_) => Decision::unchanged(Reply::Done),
        None if state.known.contains_key(id) => Decision::unchanged(Reply::Done),
        None => Decision::refused(Refusal::UnknownRelease(id.to_owned())),
    }
}

/// What has to end before an order from above to take something back can begin: whatever else from above still
/// changes the same functions.
pub(super) fn before(state: &State, submitted: &Submitted, now: Now) -> Vec<Change> {
    if submitted.upstream.is_none() || !is_undo(&submitted.strategy) {
        return Vec::new();
    }
    let is_from_above = |release: &&Release| {
        let may_end_well =
            release.is_under_way() || release.state == crate::release::state::ReleaseState::Planned;
        release.upstream.is_some()
            && may_end_well
            && !is_undo(&release.strategy)
            && release.shares_function_with(&submitted.strategy)
    };
    let releases = state.releases.values().filter(is_from_above);
    let reason = format!("the parent takes it back: {}", submitted.id);
    releases.flat_map(|release| roll_back(state, release, &reason, End::RolledBack, now)).collect()
}

/// Whether it is an order to take something back, as [`render::undo`] writes it for a manager below.
fn is_undo(strategy: &Strategy) -> bool {
    let base_again = strategy.functions.iter().all(|function| function.base == function.new);
    base_again
        && matches!(strategy.stages.as_slice(), [stage] if stage.name == render::UNDO_STAGE && stage.new_traffic == 0)
}
