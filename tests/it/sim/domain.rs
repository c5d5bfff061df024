//! The domain of a manager, whole or with a flaw: each flaw shows that an invariant is really watched.

use std::collections::BTreeMap;

use domain::children;
use domain::{
    release,
    release::{
        assignment::{Assignment, Step},
        change::Change,
        command::{Command, Form, LastSeen, NoReply, Refusal, Reply},
        decide,
        gate::Gate,
        lifecycle, members,
        pause::PausedBy,
        rollout, settle,
        state::State,
        waiting_offer,
    },
};
use language::Group;
use model::{ChildKey, ChildKind, ChildStatus, Now, StageStatus};

use super::plans::NAMES;

/// What is wrong with a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Invariant 1: what was committed is not there after a restart.
    ForgetsCommits,
    /// Invariant 2: a stage that waits is taken for one that has just begun.
    StatusGoesBack,
    /// Invariant 3: the last child is not waited for.
    BarrierOneEarly,
    /// Invariant 3: nobody has to approve.
    ApprovesItself,
    /// Invariant 4: everybody takes part.
    OutsideTarget,
    /// Invariant 5: time passes unnoticed.
    NoTick,
    /// Invariant 6: what is to be undone is forgotten.
    NoUndo,
    /// Invariant 7: what was applied is applied again.
    AppliesTwice,
    /// Invariant 10: the roll-out is handed out in the place of a stage.
    RollsOutAtOnce,
    /// Invariant 12: an agent that is on its own is handed all stages at once.
    HandsOutWhole,
    /// An offer that was shown and withdrawn is refused.
    RefusesWithdrawn,
    /// Invariant 3: a barrier below opens without the signal from above.
    OpensBelow,
    /// Invariant 6: an undo from above is told to be done, and nothing else happens.
    ForgetsUndoOfParent,
    /// Invariant 7: what a manager reports is applied again.
    AppliesReportsTwice,
    /// Invariant 9: what was sent to the parent is kept for ever.
    KeepsWhatWasSent,
    /// Invariant 8: one child is missing in what is reported.
    SumsOneShort,
    /// Invariant 13: whoever is silent while it sets up is taken for gone.
    ReplacesTheSilent,
    /// Invariant 14: a wave that nobody has proven opens.
    OpensUnproven,
    /// Invariant 15: the proxy says of each version that nobody holds it.
    StopsAtOnce,
    /// Invariant 15: the proxy says that it has a table in force, whoever asks it, and goes on by the one before.
    KeepsOldTable,
    /// Invariant 15: the proxy has another table in force than it says.
    DistortsTable,
    /// Invariant 15: a version gets calls before it was healthy.
    StartsBlindly,
    /// Invariant 16: what an own agent decided is not always on disk when it goes on, and it dies.
    SavesLate,
    /// Invariant 16: an own agent takes a result for answered whose call broke off.
    TakesSilenceForAnswer,
    /// Invariant 5: a router says that it leads what it has refused.
    SeesWhatWasRefused,
    /// Invariant 16: the proxy tells more calls than there were.
    CountsTwice,
    /// Invariant 10: own agents are told to pass over all stages.
    PassesOverAll,
    /// Invariant 17: an own agent that starts anew has forgotten which variations have won.
    ForgetsWhoWon,
    /// Invariant 19: each offer draws users of its own.
    SaltsByOffer,
    /// Invariant 19: an own agent that starts anew gives its buckets to others.
    ShufflesBuckets,
    /// Invariant 21: routers have their turn together with the agents.
    RoutersAtOnce,
    /// Invariant 22: it is taken for granted that routers are back.
    AgentsGoBackFirst,
    /// Invariant 23: an own agent hears nothing of which variation an operator chose.
    ForgetsChoice,
    /// Invariant 20: an own agent that starts anew has forgotten which shares were chosen.
    ForgetsShares,
    /// Invariant 23: a variation is chosen when another one has taken over somewhere.
    ChoosesLate,
    /// Invariant 25: what operators take back at agents is not heard.
    IgnoresOperators,
    /// Invariant 24: an undo that failed is offered again at once.
    OffersUndoAtOnce,
    /// Invariant 24: whatever a child says, however often, is stored.
    StoresAllThatIsSaid,
    /// Invariant 26: who has failed and keeps its shares is told to go on, whoever has decided that.
    GoesOnUndecided,
    /// Invariant 26: a manager in which stages have failed is told that people go on from them, whatever they have decided.
    AcceptsUndecided,
    /// Invariant 27: whatever serves there, everybody takes part.
    BeginsAnywhere,
    /// Invariant 20: the shares of the first and the last stage are swapped on their way to own agents.
    SwapsShares,
}

/// Decides and applies a command, with a flaw if there is one.
pub fn advance(
    state: &mut State,
    seen: &dyn LastSeen,
    command: &Command,
    now: Now,
    flaw: Option<Flaw>,
) -> (Vec<Change>, Result<Reply, NoReply>) {
    let Some(flaw) = flaw else { return release::advance(state, seen, command, now) };
    if let Command::Recalled { release, .. } = command
        && state.release(release.key).is_none()
    {
        state.hold((**release).clone());
    }
    let decision = decide(state, seen, command, now);
    let mut round = decision.changes;
    let mut changes = Vec::new();
    loop {
        bend(flaw, state, &mut round, now);
        if round.is_empty() {
            break;
        }
        for change in &round {
            state.apply(change);
        }
        let follow = settle::settle(state, seen, &round, now);
        changes.append(&mut round);
        round = follow;
    }
    state.let_go_of_closed(command, &changes);
    let answer = decision.answer.map(|reply| match reply {
        Reply::Polled { child, key, .. } => Reply::Polled { child, key, offer: waiting_offer(state, key) },
        other => other,
    });
    if flaw == Flaw::GoesOnUndecided && is_undecided(state, command) {
        let answer = answer.map(|_| Reply::EndStage {
            end: true,
            rollback: false,
            skip: Vec::new(),
            winner: None,
            shares: BTreeMap::new(),
            accepted: true,
        });
        return (changes, answer);
    }
    if flaw == Flaw::AcceptsUndecided
        && is_undecided(state, command)
        && let (
            Command::Members(members::Command::EndStage { failures: Some(_), .. }),
            Ok(Reply::EndStage { end, rollback, skip, winner, shares, .. }),
        ) = (command, &answer)
    {
        let (end, rollback, skip) = (*end, *rollback, skip.clone());
        let (winner, shares) = (winner.clone(), shares.clone());
        return (changes, Ok(Reply::EndStage { end, rollback, skip, winner, shares, accepted: true }));
    }
    (changes, bend_answer(flaw, answer))
}

/// Whether somebody asks for the end of a stage that has failed and of which nobody has decided anything.
fn is_undecided(state: &State, command: &Command) -> bool {
    let Command::Members(members::Command::EndStage { child, .. }) = command else { return false };
    let Some(child) = state.children.key(child) else { return false };
    let mut parts = state.releases.values().filter_map(|release| release.assignments.get(&child));
    parts.any(Assignment::is_undecided)
}

fn bend(flaw: Flaw, state: &State, changes: &mut Vec<Change>, now: Now) {
    match flaw {
        Flaw::StatusGoesBack => {
            let is_tick = changes
                .iter()
                .any(|change| matches!(change, Change::Children(children::Change::Seen { .. })));
            let waits = state.releases.values().filter(|_| is_tick).find_map(|release| {
                let waits = |part: &Assignment| part.stage_status == StageStatus::SuccessWaiting;
                let (child, part) = release.assignments.iter().find(|(_, part)| waits(part))?;
                Some((release.key, *child, Step::StageBegan { slot: part.slot }, release.at(now)))
            });
            if let Some((release, child, step, at)) = waits {
                changes.push(Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step,
                    at,
                    summary: None,
                }));
            }
        }
        Flaw::BarrierOneEarly => {
            let early = state.releases.values().find(|release| {
                release.is_running() && release.counts.behind == 1 && release.counts.in_play > 1
            });
            if let Some(release) = early
                && changes.iter().any(|change| {
                    matches!(
                        change,
                        Change::Members(members::Change::Stepped { step: Step::Waiting { .. }, .. })
                    )
                })
            {
                let top = release.gates.levels.rollout();
                let stand = release.gates.stand.level;
                if stand <= top {
                    let level = release.gates.levels.barrier_from(stand + 1);
                    changes.push(Change::Rollout(rollout::Change::LevelOpened {
                        release: release.key,
                        level,
                        now,
                    }));
                }
            }
        }
        Flaw::ApprovesItself => {
            let asked = changes.iter().find_map(|change| match change {
                Change::Rollout(rollout::Change::ApprovalAsked { release, .. }) => Some(*release),
                _ => None,
            });
            changes.extend(asked.map(|release| Change::Rollout(rollout::Change::Approved { release, now })));
        }
        Flaw::OutsideTarget => {
            for change in changes.iter_mut() {
                if let Change::Lifecycle(lifecycle::Change::Started { membership, .. }) = change {
                    let all: Vec<ChildKey> = state.children.iter().map(|(key, _)| key).collect();
                    membership.waves =
                        if membership.waves.is_empty() { Vec::new() } else { vec![0; all.len()] };
                    membership.members = all.into();
                    membership.excluded.clear();
                }
            }
        }
        Flaw::NoUndo => {
            changes.retain(|change| {
                !matches!(
                    change,
                    Change::Members(members::Change::Stepped { step: Step::UndoOffered { .. }, .. })
                )
            });
            let aborted: Vec<_> = changes
                .iter()
                .filter_map(|change| match change {
                    Change::Lifecycle(lifecycle::Change::Aborted { release, now, .. }) => {
                        Some((*release, *now))
                    }
                    _ => None,
                })
                .collect();
            for (key, now) in aborted {
                let Some(release) = state.release(key) else { continue };
                let at = release.at(now);
                changes.extend(release.assignments.keys().map(|child| {
                    let step = Step::UndoDropped;
                    Change::Members(members::Change::Stepped {
                        release: key,
                        child: *child,
                        step,
                        at,
                        summary: None,
                    })
                }));
            }
        }
        Flaw::AppliesTwice => {
            let again = changes
                .iter()
                .find(|change| {
                    matches!(
                        change,
                        Change::Members(members::Change::Stepped { step: Step::Reported { .. }, .. })
                    )
                })
                .cloned();
            changes.extend(again);
        }
        Flaw::OpensBelow => {
            let opened = changes.iter().find_map(|change| match change {
                Change::Rollout(rollout::Change::GateReached { release, gate: Gate::Level(level), now }) => {
                    let found = state.release(*release).filter(|found| found.parent.is_some())?;
                    let level = found.gates.levels.barrier_from(level + 1);
                    Some(Change::Rollout(rollout::Change::LevelOpened {
                        release: *release,
                        level,
                        now: *now,
                    }))
                }
                _ => None,
            });
            changes.extend(opened);
        }
        Flaw::OpensUnproven => {
            for change in changes.iter_mut() {
                if let Change::Lifecycle(lifecycle::Change::Paused { release, pause, now }) = change
                    && pause.by == PausedBy::Unproven
                    && let Some(found) = state.release(*release)
                {
                    let open = found.gates.stand.waves;
                    *change = Change::Rollout(rollout::Change::WavesOpened {
                        release: *release,
                        from: open,
                        to: open,
                        now: *now,
                    });
                }
            }
        }
        Flaw::AppliesReportsTwice => {
            let is_manager = |child: &ChildKey| {
                state.children.get(*child).is_some_and(|record| record.kind() == ChildKind::Rm)
            };
            let again = changes.iter().find(|change| {
                matches!(change, Change::Members(members::Change::Stepped { child, step: Step::Reported { .. }, .. }) if is_manager(child))
            });
            changes.extend(again.cloned());
        }
        Flaw::ReplacesTheSilent => {
            let is_tick = changes
                .iter()
                .any(|change| matches!(change, Change::Children(children::Change::Seen { .. })));
            let silent = state.releases.values().filter(|_| is_tick).find_map(|release| {
                let works = |part: &Assignment| part.fetched && part.stage_status == StageStatus::InProgress;
                let child = *release.assignments.iter().find(|(_, part)| works(part))?.0;
                state.children.get(child).filter(|record| record.replaced.is_none()).map(|_| child)
            });
            changes.extend(
                silent.map(|child| Change::Children(children::Change::Replaced { child, by: child, now })),
            );
        }
        Flaw::RoutersAtOnce => {
            let early = state.releases.values().find_map(|release| {
                let first = release.first_of_routers().filter(|_| release.is_running())?;
                let open = release.gates.stand.waves;
                (open <= first).then_some((release.key, open, first + 1))
            });
            changes.extend(early.map(|(release, from, to)| {
                Change::Rollout(rollout::Change::WavesOpened { release, from, to, now })
            }));
        }
        Flaw::IgnoresOperators => {
            let is_replaced = |change: &Change| {
                matches!(
                    change,
                    Change::Members(members::Change::Stepped { step: Step::Replaced { .. }, .. })
                )
            };
            if changes.iter().any(is_replaced) {
                changes.clear();
            }
        }
        Flaw::OffersUndoAtOnce => {
            for change in changes.iter_mut() {
                if let Change::Members(members::Change::Stepped {
                    step: Step::UndoFailed { rests_until, .. },
                    ..
                }) = change
                {
                    *rests_until = None;
                }
            }
        }
        Flaw::StoresAllThatIsSaid => {
            changes.retain(|change| !matches!(change, Change::Children(children::Change::Paced { .. })));
        }
        Flaw::BeginsAnywhere => {
            for change in changes.iter_mut() {
                if let Change::Lifecycle(lifecycle::Change::Started { release, membership, .. }) = change
                    && membership.managers.is_empty()
                    && state.release(*release).is_some_and(|release| release.strategy.target.is_none())
                {
                    let all: Vec<ChildKey> = state.children.iter().map(|(key, _)| key).collect();
                    membership.waves =
                        if membership.waves.is_empty() { Vec::new() } else { vec![0; all.len()] };
                    (membership.in_place, membership.members) = (all.clone(), all.into());
                    membership.lacks.clear();
                    membership.excluded.clear();
                }
            }
        }
        Flaw::AgentsGoBackFirst => {
            let waits = state.releases.values().find(|release| release.holds_agents());
            changes.extend(waits.map(|release| {
                Change::Lifecycle(lifecycle::Change::RoutersBack { release: release.key, now })
            }));
        }
        Flaw::ChoosesLate => {
            let late = state.releases.values().find_map(|release| {
                let [service] = &release.strategy.services[..] else { return None };
                let subject = release.strategy.functions.len();
                let is_done =
                    |part: &Assignment| part.status == ChildStatus::Done && part.rolled_out.contains(subject);
                let some = release.is_running() && release.assignments.values().any(is_done);
                let other = (1..service.variations.len()).find(|at| release.winner() != Some(*at))?;
                (some && release.chosen_winner().is_none()).then_some((release.key, other as u8))
            });
            changes.extend(late.map(|(release, variation)| {
                Change::Rollout(rollout::Change::WinnerChosen { release, variation, now })
            }));
        }
        Flaw::ForgetsCommits
        | Flaw::ForgetsChoice
        | Flaw::ForgetsShares
        | Flaw::GoesOnUndecided
        | Flaw::AcceptsUndecided
        | Flaw::KeepsWhatWasSent
        | Flaw::NoTick
        | Flaw::RollsOutAtOnce
        | Flaw::HandsOutWhole
        | Flaw::RefusesWithdrawn
        | Flaw::ForgetsUndoOfParent
        | Flaw::StopsAtOnce
        | Flaw::KeepsOldTable
        | Flaw::DistortsTable
        | Flaw::StartsBlindly
        | Flaw::SavesLate
        | Flaw::TakesSilenceForAnswer
        | Flaw::CountsTwice
        | Flaw::SeesWhatWasRefused
        | Flaw::PassesOverAll
        | Flaw::ForgetsWhoWon
        | Flaw::SaltsByOffer
        | Flaw::ShufflesBuckets
        | Flaw::SwapsShares
        | Flaw::SumsOneShort => {}
    }
}

fn bend_answer(flaw: Flaw, answer: Result<Reply, NoReply>) -> Result<Reply, NoReply> {
    match (flaw, answer) {
        (Flaw::RollsOutAtOnce, Ok(Reply::Offer(mut offer))) => {
            if let Form::Stage { stage } = offer.form {
                offer.form =
                    Form::Rollout { function: offer.strategy.stages[usize::from(stage)].subject as u8 };
            }
            Ok(Reply::Offer(offer))
        }
        (Flaw::HandsOutWhole, Ok(Reply::Offer(mut offer))) => {
            if offer.strategy.rollout.is_none() && offer.form == (Form::Stage { stage: 0 }) {
                offer.form = Form::InPlace { is_reported: false, group: Group::Agents };
            }
            Ok(Reply::Offer(offer))
        }
        (Flaw::RefusesWithdrawn, Ok(Reply::Offer(offer))) if offer.form == Form::Withdrawn => {
            Err(Refusal::NeverOffered { child: String::new(), offer: String::new() }.into())
        }
        (Flaw::PassesOverAll, Ok(Reply::EndStage { rollback: false, shares, .. })) => {
            let skip = NAMES.map(str::to_owned).to_vec();
            Ok(Reply::EndStage { end: true, rollback: false, skip, winner: None, shares, accepted: false })
        }
        (_, answer) => answer,
    }
}
