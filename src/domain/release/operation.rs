//! What an operator can do to a release as it is now, and whom that would reach, without doing it.
//!
//! Whether something can be done is told by the functions that decide it: [`Snapshot::can`] calls the same checks over the same release as
//! [`super::decide()`] does, so there is one list of rules, and a refusal has the words that whoever tries would hear. It reads a
//! snapshot, so that whoever looks costs the engine nothing. So does [`Snapshot::would`], for commands that an operation has no word for, and for
//! several that come one after the other. One thing a snapshot doesn't have: what each child runs. So a retry of a release
//! that is over may still be refused because a later release changed the same functions and is over as well.

use super::{
    advance::advance,
    assignment::{Assignment, StepIndex},
    command::{Command, Decision, LastSeen, NoReply, Refusal},
    gate::Gate,
    lifecycle, rollout, stages,
    state::{Release, ReleaseRecord, ReleaseState, Snapshot, State},
};
use model::{ChildKey, Now};

/// What is done to a release as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Approve,
    Pause,
    Resume,
    /// All that is left opens.
    Promote,
    /// The gate that comes next opens.
    PromoteToGate,
    /// Of the stage at this place in the strategy.
    SkipStage(usize),
    Retry,
    Extend,
    Abort,
}

/// What it would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Something,
    /// It is so already.
    Nothing,
}

impl Snapshot {
    /// Whether an operation would do something now, or why it would be refused. `release` is one of this snapshot, or one that is over and
    /// was read from the store. Looks through the children for a retry and an extension.
    pub fn can(
        &self,
        seen: &dyn LastSeen,
        release: &Release,
        operation: Operation,
        now: Now,
    ) -> Result<Effect, Refusal> {
        let decided = match operation {
            Operation::Approve => rollout::approve(release, now).map(|decided| effect(&decided)),
            Operation::Promote => rollout::promote(release, now).map(|decided| effect(&decided)),
            Operation::PromoteToGate => {
                rollout::promote_to_gate(release, now).map(|decided| effect(&decided))
            }
            Operation::Pause => lifecycle::pause(release, "", now).map(|decided| effect(&decided)),
            Operation::Resume => {
                let conflicts = self.conflicts(&release.strategy, release.key);
                lifecycle::resumed(release, now, conflicts).map(|decided| effect(&decided))
            }
            Operation::SkipStage(at) => {
                let name = release.strategy.stages.get(at).map_or("", |stage| stage.name.as_str());
                stages::skipped(release, name, false, now).map(|decided| effect(&decided))
            }
            Operation::Abort => lifecycle::is_abortable(release).map(something),
            Operation::Extend => {
                return self.newcomers(seen, release, now).map(|new| something(!new.is_empty()));
            }
            Operation::Retry => self.can_retry(release).map(|()| Effect::Something),
        };
        decided.map_err(|why| refused(release, why))
    }

    /// What commands about a release of this snapshot would come to, one after the other, or why the first of them that is refused would be.
    /// They are decided and applied, with all that follows, on a copy that nobody sees. It has this one release alone to look up, so it isn't
    /// for what begins a release, or tries one again.
    pub fn would(
        &self,
        seen: &dyn LastSeen,
        release: &Release,
        commands: &[Command],
        now: Now,
    ) -> Result<Effect, Refusal> {
        let (key, digest) = (release.key, release.digest);
        let mut copy = State { shared: self.clone(), ..State::default() };
        copy.known.insert(release.id.clone(), ReleaseRecord { key, digest });
        for command in commands {
            let (_, mut answer) = advance(&mut copy, seen, command, now);
            // The one before may have ended it, and what is over leaves memory.
            if matches!(answer, Err(NoReply::Missing(_)))
                && let Some(ended) = copy.take_closed().remove(&key)
            {
                let then = Box::new(command.clone());
                let recalled = Command::Recalled { release: Box::new(ended), then };
                (_, answer) = advance(&mut copy, seen, &recalled, now);
            }
            answer.map_err(|why| refused(release, why))?;
        }
        let is_as_it_was = copy.find(key).is_some_and(|found| found.tag() == release.tag());
        Ok(something(!is_as_it_was))
    }

    /// Whom an extension would take in now, each with its agents, or why there can't be one. It plans the release anew.
    pub fn newcomers(
        &self,
        seen: &dyn LastSeen,
        release: &Release,
        now: Now,
    ) -> Result<Vec<(ChildKey, u32)>, Refusal> {
        rollout::newcomers(self, seen, release, now).map_err(|why| refused(release, why))
    }

    fn can_retry(&self, release: &Release) -> Result<(), NoReply> {
        lifecycle::check_retry(release)?;
        let is_known = |child: &ChildKey| self.children.get(*child).is_some();
        let mut parts = release.assignments.iter();
        let has_retryable = parts.any(|(child, part)| part.is_retryable() && is_known(child));
        let is_succeeded = || self.conflicts(&release.strategy, release.key).next().is_some();
        lifecycle::check_retried(release, has_retryable, is_succeeded)
    }
}

fn refused(release: &Release, why: NoReply) -> Refusal {
    match why {
        NoReply::Refused(refusal) => refusal,
        // Whoever asks has it.
        NoReply::Missing(_) => Refusal::UnknownRelease(release.id.to_string()),
    }
}

fn something(is_there: bool) -> Effect {
    if is_there { Effect::Something } else { Effect::Nothing }
}

fn effect(decided: &Decision) -> Effect {
    something(!decided.changes.is_empty())
}

impl Release {
    /// The gate that waits for somebody's yes.
    pub fn gate_to_approve(&self) -> Option<Gate> {
        let is_asking = matches!(self.state, ReleaseState::AwaitingApproval { .. });
        self.gates.stand.reached.map(|reached| reached.gate).filter(|_| is_asking)
    }

    /// Whether a part can go on when a gate opens.
    fn is_behind(&self, gate: Option<Gate>, part: &Assignment) -> bool {
        match gate {
            Some(Gate::Wave(wave)) => (self.gates.stand.waves..=wave).contains(&part.wave),
            Some(Gate::Level(_)) => part.wave < self.gates.stand.waves,
            None => false,
        }
    }

    /// How many agents of one part an operation would reach now, where nothing is in the way of it. An extension reaches none that has a
    /// part: [`Snapshot::newcomers`] has those.
    pub fn agents_reached(&self, part: &Assignment, operation: Operation) -> u32 {
        let agents = part.agents();
        let is_over = part.status.is_over();
        let left = if is_over {
            0
        } else {
            agents.participants.saturating_sub(agents.succeeded.saturating_add(agents.bad()))
        };
        match operation {
            Operation::Pause | Operation::Resume | Operation::Promote => left,
            Operation::Approve if self.is_behind(self.gate_to_approve(), part) => left,
            Operation::PromoteToGate if self.is_behind(self.next_gate(), part) => left,
            Operation::SkipStage(stage) => {
                let has_passed = part.slot.stage_index().is_none()
                    || (part.mark(StepIndex::stage(stage)).is_some() && !part.is_in(stage));
                if has_passed { 0 } else { left }
            }
            Operation::Retry if part.is_retryable() => {
                if part.is_whole() {
                    agents.bad()
                } else {
                    1
                }
            }
            Operation::Abort if part.may_run_new().is_empty() => left,
            // Who has it already takes it back.
            Operation::Abort => agents.participants.max(1),
            Operation::Approve | Operation::PromoteToGate | Operation::Retry | Operation::Extend => 0,
        }
    }
}
