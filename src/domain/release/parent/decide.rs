//! What the parent asks for: that a stage ends, that the next wave begins, that a release is taken back.

use super::Command;
use crate::release::{
    change::Change,
    command::{Decision, LastSeen, NoReply, Refusal, Reply},
    decide::checks::{another_fact, find},
    ending::{Cause, Ending},
    gate::Gate,
    lifecycle::{self, roll_back},
    liveness_check::ReportedLiveness,
    parent,
    pause::Pause,
    rollout, stages,
    state::{End, Release, ReleaseState, State},
};
use language::Amount;
use model::{Now, ReleaseKey};

/// Decides what the parent asks for.
pub(in crate::release) fn decide(
    state: &State,
    seen: &dyn LastSeen,
    command: &Command,
    now: Now,
) -> Decision {
    match command {
        Command::End { release, stage, undo } => end(state, release, *stage, *undo, now).into(),
        Command::Disowned { release, why } => disowned(state, release, why, now).into(),
        Command::NoteForwarded { release, to } => {
            let change = parent::Change::Forwarded { id: release.clone(), to: to.clone() };
            Decision::new(vec![Change::Parent(change)], Reply::Done)
        }
        Command::Continue { release, offer, waves, retries, amounts, liveness_checks } => {
            let counted = Counted { waves: *waves, amounts, liveness_checks };
            go_on(state, seen, (release, offer), &counted, *retries, now).into()
        }
        Command::Undo { release, offer } => undo(state, release, offer, now).into(),
        Command::Skip { release, stage } => stages::skip(state, release, stage, true, now).into(),
        Command::Accept { release, failures } => accept(state, release, *failures, now),
        Command::Hold { release, hold } => self::hold(state, release, *hold, now).into(),
    }
}

/// The parent ended a stage. Children that are not ready are told to end it as well. `undo`: it takes the release back.
fn end(state: &State, id: &str, stage: u8, undo: bool, now: Now) -> Result<Decision, NoReply> {
    let Some(release) = state.release_by_id(id) else {
        return match state.known.get(id) {
            // Over, and nobody is awaited any more.
            Some(_) => Ok(Decision::unchanged(Reply::Done)),
            None => Err(Refusal::UnknownRelease(id.to_owned()).into()),
        };
    };
    if undo && release.may_end_well() {
        return Ok(Decision::new(take_back(state, release, now), Reply::Done));
    }
    let Some(waiting) =
        release.waits_for_parent().filter(|waiting| waiting.stage == stage && release.is_running())
    else {
        return Ok(Decision::unchanged(Reply::Done));
    };
    let barrier = release.barrier_of_parent(usize::from(stage));
    let mut changes: Vec<Change> =
        barrier.map(|level| release.opening(Gate::Level(level), now)).into_iter().collect();
    if !waiting.is_ready && release.assignments.values().any(|part| part.is_in(usize::from(stage))) {
        changes.push(Change::Stages(stages::Change::Ended { release: release.key, stage, now }));
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// It is decided above to go on from so many failures; not from one that nobody there had heard of.
fn accept(state: &State, id: &str, failures: u32, now: Now) -> Decision {
    let heard = |release: &&Release| {
        let parent = release.parent.as_ref();
        release.is_running() && parent.is_some_and(|of| of.failed.is_some() && of.failures <= failures)
    };
    let accepted = state
        .release_by_id(id)
        .filter(heard)
        .map(|release| Change::Parent(parent::Change::FailuresAccepted { release: release.key, now }));
    Decision::new(accepted.into_iter().collect(), Reply::Done)
}

/// Nobody above would ever end it, so it must not wait for that, nor others behind it.
fn disowned(state: &State, id: &str, why: &str, now: Now) -> Result<Decision, NoReply> {
    match state.release_by_id(id) {
        Some(release) if release.may_end_well() => {
            let ending = Ending::new(Cause::Disowned, why);
            Ok(Decision::new(roll_back(state, release, ending, End::RolledBack, now), Reply::Done))
        }
        Some(_) => Ok(Decision::unchanged(Reply::Done)),
        None if state.known.contains_key(id) => Ok(Decision::unchanged(Reply::Done)),
        None => Err(Refusal::UnknownRelease(id.to_owned()).into()),
    }
}

/// The parent's own release is paused, or goes on. A pause by somebody here stays until they resume it.
fn hold(state: &State, id: &str, hold: bool, now: Now) -> Result<Decision, NoReply> {
    let Some(release) = state.release_by_id(id) else {
        return match state.known.get(id) {
            Some(_) => Ok(Decision::unchanged(Reply::Done)),
            None => Err(Refusal::UnknownRelease(id.to_owned()).into()),
        };
    };
    let said = release.parent.as_ref().is_some_and(|parent| parent.held != hold);
    let mut changes = Vec::new();
    if said && release.may_end_well() {
        changes.push(Change::Parent(parent::Change::Held { release: release.key, held: hold }));
    }
    let is_going = release.state.is_going();
    if hold && is_going {
        another_fact(release)?;
        let pause = Pause::by_parent(false);
        changes.push(Change::Lifecycle(lifecycle::Change::Paused { release: release.key, pause, now }));
    } else if !hold && release.is_held() {
        changes.push(Change::Lifecycle(lifecycle::Change::Resumed { release: release.key, now }));
    }
    Ok(Decision::new(changes, Reply::Done))
}

fn take_back(state: &State, release: &Release, now: Now) -> Vec<Change> {
    let ending = Ending::new(Cause::Parent, "the parent takes it back");
    roll_back(state, release, ending, End::RolledBack, now)
}

/// The waves of a parent.
struct Counted<'a> {
    /// So many are open now.
    pub waves: u32,
    /// How they are counted; empty: as before.
    pub amounts: &'a [Amount],
    /// What managers below say of who can take part in those that are not open yet.
    pub liveness_checks: &'a ReportedLiveness,
}

/// The parent's next offer goes on with this release; `retries`: those that ended badly get another attempt, if that can
/// be. Said twice it changes nothing.
fn go_on(
    state: &State,
    seen: &dyn LastSeen,
    (id, offer): (&str, &str),
    Counted { waves, amounts, liveness_checks }: &Counted<'_>,
    retries: bool,
    now: Now,
) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    let key = release.key;
    if release.parent.as_ref().is_none_or(|parent| parent.offer == offer) {
        return Ok(Decision::unchanged(Reply::Done));
    }
    let mut changes =
        vec![Change::Parent(parent::Change::Continued { release: key, offer: offer.to_owned() })];
    let open = release.gates.stand.waves;
    let most = (*waves).min(release.turns.waves().max(amounts.len() as u32));
    if release.may_end_well() && most > open {
        let amounts = (!amounts.is_empty()).then_some(*amounts);
        changes.extend(release.waves_anew(state, seen, liveness_checks, amounts, now));
        changes.push(Change::Rollout(rollout::Change::WavesOpened {
            release: key,
            from: open,
            to: most - 1,
            now,
        }));
    }
    if retries {
        // Else it is said again how it stands.
        changes.extend(lifecycle::retry(state, id, now).map(|retried| retried.changes).unwrap_or_default());
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// The parent takes a release back, whatever became of it here.
fn undo(state: &State, id: &str, offer: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    let Some(parent) = &release.parent else {
        // It came from elsewhere and is only called the same.
        return Ok(Decision::unchanged(Reply::TakenBack { is_under_way: false, unconfirmed: 0 }));
    };
    let is_taken_back = release.state.is_taken_back();
    if let ReleaseState::Over { unconfirmed, .. } = release.state
        && is_taken_back
    {
        return Ok(Decision::unchanged(Reply::TakenBack { is_under_way: false, unconfirmed }));
    }
    let mut changes = if is_taken_back { Vec::new() } else { take_back(state, release, now) };
    if !parent.undos.iter().any(|awaited| awaited == offer) {
        changes.insert(0, awaited(release.key, offer));
    }
    Ok(Decision::new(changes, Reply::TakenBack { is_under_way: true, unconfirmed: 0 }))
}

fn awaited(release: ReleaseKey, offer: &str) -> Change {
    Change::Parent(parent::Change::UndoAwaited { release, offer: offer.to_owned() })
}
