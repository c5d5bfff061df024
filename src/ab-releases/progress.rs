//! How far a release has come, in the words of this interface.

use domain::release::{
    assignment::{Dated, ReleaseEvent, StageSet},
    pause::PausedBy,
    previous_run::Timed,
    state::{End, ReleaseState},
};
use model::name_variants;

use super::{Recorded, RecordedStage, shares::WHOLE};

/// Where an A/B release stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Created,
    Deploying,
    Running,
    Promoting,
    Completed,
    RolledBack,
}

name_variants!(Status {
    Created => "created",
    Deploying => "deploying",
    Running => "running",
    Promoting => "promoting",
    Completed => "completed",
    RolledBack => "rolled_back",
});

/// What the status is silent about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    WaitingForStart,
    Queued,
    Deploying,
    InStage,
    Promoting,
    Paused,
    AwaitingApproval,
    RollingBack,
    RolledBackUnproven,
    Done,
    DoneWithFailures,
    DoneUntested,
    RolledBack,
    Aborted,
    NoParticipants,
}

name_variants!(Phase {
    WaitingForStart => "waiting_for_start",
    Queued => "queued",
    Deploying => "deploying",
    InStage => "in_stage",
    Promoting => "promoting",
    Paused => "paused",
    AwaitingApproval => "awaiting_approval",
    RollingBack => "rolling_back",
    RolledBackUnproven => "rolled_back_unproven",
    Done => "done",
    DoneWithFailures => "done_with_failures",
    DoneUntested => "done_untested",
    RolledBack => "rolled_back",
    Aborted => "aborted",
    NoParticipants => "no_participants",
});

/// Where a stage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageState {
    Pending,
    Running,
    Succeeded,
    Failed,
    Skipped,
}

name_variants!(StageState {
    Pending => "pending",
    Running => "running",
    Succeeded => "succeeded",
    Failed => "failed",
    Skipped => "skipped",
});

/// How a stage went, with times in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageCourse {
    pub state: StageState,
    pub started: Option<i64>,
    pub completed: Option<i64>,
}

/// What a release says of itself, whether it is in memory or was read from a store.
#[derive(Debug, Clone, Copy)]
pub struct Course<'r> {
    pub state: &'r ReleaseState,
    /// It starts only when somebody says so.
    pub deferred: bool,
    pub facts: &'r [Dated],
    pub times: &'r [Timed],
    /// In milliseconds since 1970.
    pub ended: Option<i64>,
    /// All its routers have failed, and give the stable variation everything again.
    pub is_back: bool,
    /// Stages by their places in the strategy that have failed and kept their shares, whatever was decided of them.
    pub failed: StageSet,
}

impl Course<'_> {
    fn is_skipped(&self, place: u8) -> bool {
        self.facts
            .iter()
            .any(|dated| matches!(dated.fact, ReleaseEvent::StageSkipped { stage, .. } if stage == place))
    }

    /// When the first child began a stage.
    fn began(&self, place: u8) -> Option<i64> {
        let of = self.times.iter().filter(|timed| timed.stage == Some(place));
        of.map(|timed| timed.began_ms).min()
    }

    /// When the last wave had it behind itself that has.
    fn passed(&self, place: u8) -> Option<i64> {
        self.times.iter().filter(|timed| timed.stage == Some(place)).filter_map(|timed| timed.ended_ms).max()
    }

    /// The place among these stages of the last one that anybody has begun.
    #[must_use]
    pub fn current(&self, recorded: &Recorded) -> Option<usize> {
        recorded.stages.iter().rposition(|stage| self.began(stage.place).is_some())
    }

    /// How each stage went.
    #[must_use]
    pub fn stages(&self, recorded: &Recorded) -> Vec<StageCourse> {
        let current = self.current(recorded);
        let next_began =
            |at: usize| recorded.stages.iter().skip(at + 1).filter_map(|stage| self.began(stage.place)).min();
        let stage = |(at, stage): (usize, &RecordedStage)| {
            let (started, is_current) = (self.began(stage.place), current == Some(at));
            let state = match started {
                _ if self.failed.contains(stage.place) => StageState::Failed,
                _ if self.is_skipped(stage.place) => StageState::Skipped,
                None if self.is_over() || current.is_some_and(|current| at < current) => StageState::Skipped,
                None => StageState::Pending,
                Some(_) if !is_current => StageState::Succeeded,
                Some(_) => self.of_current(),
            };
            let over = || self.ended.or_else(|| self.passed(stage.place));
            let completed = match state {
                StageState::Pending | StageState::Running => None,
                StageState::Succeeded => self.passed(stage.place).or_else(|| next_began(at)).or_else(over),
                StageState::Failed if is_current => over(),
                StageState::Failed => self.passed(stage.place).or_else(|| next_began(at)),
                StageState::Skipped => next_began(at).or(self.ended),
            };
            StageCourse { state, started, completed }
        };
        recorded.stages.iter().enumerate().map(stage).collect()
    }

    /// Of the last one that was begun.
    fn of_current(&self) -> StageState {
        match self.state {
            ReleaseState::Paused(pause) if pause.by == PausedBy::Limit => StageState::Failed,
            ReleaseState::Planned
            | ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. } => StageState::Running,
            ReleaseState::RollingBack { .. } => StageState::Failed,
            ReleaseState::Over { end, .. } => match end {
                End::Done => StageState::Succeeded,
                End::DoneWithFailures
                | End::RolledBack
                | End::Aborted
                | End::NoParticipants
                | End::Untested => StageState::Failed,
            },
        }
    }

    const fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// The place of the variation that serves alone if the release goes well: the one that somebody chose, else the one that the stages
    /// lead to.
    #[must_use]
    pub fn winner(&self, recorded: &Recorded) -> usize {
        self.chosen_winner().unwrap_or_else(|| recorded.ends_with())
    }

    /// The one that somebody chose.
    #[must_use]
    pub fn chosen_winner(&self) -> Option<usize> {
        self.facts.iter().rev().find_map(|dated| dated.fact.winner()).map(usize::from)
    }

    /// What each variation gets in a stage: what somebody chose last, else what the strategy says.
    #[must_use]
    pub fn shares_in(&self, stage: &RecordedStage) -> Vec<u16> {
        let chosen = self.facts.iter().rev().filter_map(|dated| dated.fact.shares());
        let mut of_stage = chosen.filter(|(place, _)| *place == stage.place).map(|(_, new)| new);
        of_stage.next().map_or_else(|| stage.shares.clone(), |new| vec![WHOLE.saturating_sub(new), new])
    }

    /// What each variation gets by what the release has come to, in units of 0.01 %.
    #[must_use]
    pub fn shares(&self, recorded: &Recorded) -> Vec<u16> {
        match self.state {
            _ if self.is_back => recorded.all_stable(),
            ReleaseState::Planned | ReleaseState::RollingBack { .. } => recorded.all_stable(),
            ReleaseState::Over { end, .. } => match end {
                End::Done | End::DoneWithFailures => recorded.all_to(self.winner(recorded)),
                End::RolledBack | End::Aborted | End::NoParticipants | End::Untested => recorded.all_stable(),
            },
            ReleaseState::Running | ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. } => {
                let current = self.current(recorded).and_then(|at| recorded.stages.get(at));
                current.map_or_else(|| recorded.all_stable(), |stage| self.shares_in(stage))
            }
        }
    }

    #[must_use]
    pub fn status(&self, recorded: &Recorded) -> Status {
        match self.state {
            ReleaseState::Planned => Status::Created,
            ReleaseState::Over { .. } if self.is_back => Status::RolledBack,
            ReleaseState::Over { end: End::Done | End::DoneWithFailures, .. } => Status::Completed,
            // Not proven: calls may still come to what was taken back.
            ReleaseState::Over { end: End::RolledBack, unconfirmed: 1.. }
            | ReleaseState::RollingBack { .. } => self.status_by_shares(recorded),
            ReleaseState::Over { .. } => Status::RolledBack,
            ReleaseState::Running | ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. } => {
                self.status_by_shares(recorded)
            }
        }
    }

    /// Of a release under way: by how far its shares have come.
    fn status_by_shares(&self, recorded: &Recorded) -> Status {
        let begun = recorded.stages.iter().filter(|stage| self.began(stage.place).is_some());
        let begun: Vec<Vec<u16>> = begun.map(|stage| self.shares_in(stage)).collect();
        let has_all = |shares: &Vec<u16>| shares.first() == Some(&0);
        let last = recorded.stages.last();
        if begun.last().is_some_and(has_all) || last.is_some_and(|last| self.passed(last.place).is_some()) {
            Status::Promoting
        } else if begun.iter().any(|shares| shares.iter().skip(1).any(|share| *share > 0)) {
            Status::Running
        } else {
            Status::Deploying
        }
    }

    #[must_use]
    pub fn phase(&self, recorded: &Recorded) -> Phase {
        match self.state {
            ReleaseState::Planned if self.deferred => Phase::WaitingForStart,
            ReleaseState::Planned => Phase::Queued,
            ReleaseState::Paused(_) => Phase::Paused,
            ReleaseState::AwaitingApproval { .. } => Phase::AwaitingApproval,
            ReleaseState::RollingBack { .. } => Phase::RollingBack,
            ReleaseState::Running => match self.status_by_shares(recorded) {
                Status::Promoting => Phase::Promoting,
                Status::Running => Phase::InStage,
                Status::Created | Status::Deploying | Status::Completed | Status::RolledBack => {
                    Phase::Deploying
                }
            },
            ReleaseState::Over { end: End::Done, .. } => Phase::Done,
            ReleaseState::Over { end: End::DoneWithFailures, .. } if self.is_back => Phase::RolledBack,
            ReleaseState::Over { end: End::DoneWithFailures, .. } => Phase::DoneWithFailures,
            ReleaseState::Over { end: End::Untested, .. } => Phase::DoneUntested,
            ReleaseState::Over { end: End::RolledBack, unconfirmed: 1.. } => Phase::RolledBackUnproven,
            ReleaseState::Over { end: End::RolledBack, .. } => Phase::RolledBack,
            ReleaseState::Over { end: End::Aborted, .. } => Phase::Aborted,
            ReleaseState::Over { end: End::NoParticipants, .. } => Phase::NoParticipants,
        }
    }
}
