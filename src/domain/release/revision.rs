//! Which release somebody has seen, so that they act on that one and on no other.
//!
//! Rule: a release has a revision, which moves with every change of what an operator decides on, in the same step as that change: its
//! state, what waits for an approval, which waves, levels and stages are open, ended or skipped, facts, verdicts, attempts, and whatever
//! an operator did to one of its children. What children do by themselves, counts and deadlines don't move it.
//!
//! Invariant: two states of one release that readers can see and that differ in any of that have different revisions, for the number only
//! grows, is stored with the release in the commit of the change, and the key is given to no other release. A content hash would not do:
//! a gate that is left and reached again looks as it did when the first approval was meant for it.
//!
//! Whoever stops a release means it however far it went on by itself, so a pause and an abort are refused only where it was acted on since:
//! by operators or the manager above, by another attempt, or by its end ([`Release::fits_whoever_stops`]).
//!
//! Whoever acts may name the tags that they have seen. Whether one of them is the current one is decided with the command, on the same
//! state ([`super::command::Command::Guarded`]): what one of two did is seen by the other's decision.

use std::{fmt, str::FromStr};

use super::{
    analysis,
    change::Change,
    lifecycle, parent,
    pause::PausedBy,
    rollout, stages,
    state::{Release, Revision, State},
};
use model::ReleaseKey;

/// One revision of one release: `KEY-NUMBER-COMMIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub release: ReleaseKey,
    pub revision: Revision,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.release.0, self.revision.number, self.revision.commit)
    }
}

/// The text is no tag of a release.
#[derive(Debug, PartialEq, Eq)]
pub struct NoTag;

impl FromStr for Tag {
    type Err = NoTag;

    fn from_str(text: &str) -> Result<Self, NoTag> {
        let mut parts = text.split('-');
        let mut next = || parts.next().ok_or(NoTag);
        let (release, number, commit) = (next()?, next()?, next()?);
        let release = ReleaseKey(release.parse().map_err(|_| NoTag)?);
        let number = number.parse().map_err(|_| NoTag)?;
        let tag = Self { release, revision: Revision { number, commit: commit.parse().map_err(|_| NoTag)? } };
        // One revision has one tag: `+7` and `07` are none.
        if parts.next().is_none() && tag.to_string() == text { Ok(tag) } else { Err(NoTag) }
    }
}

impl Release {
    /// The tag of this release as it is.
    pub const fn tag(&self) -> Tag {
        Tag { release: self.key, revision: self.revision }
    }

    /// Whether nobody acted on this release since it had this tag, although it may have gone on by itself.
    pub const fn fits_whoever_stops(&self, seen: Tag) -> bool {
        seen.release.0 == self.key.0
            && self.acted <= seen.revision.number
            && seen.revision.number <= self.revision.number
    }
}

impl State {
    /// Moves the revision of the release that a change belongs to, if it is one that people decide on.
    pub(super) fn revise(&mut self, change: &Change) {
        let Some(key) = change.release().filter(|_| is_decided_on(change)) else { return };
        let commit = self.commit;
        let is_act = is_act(change);
        self.with_release(key, |release| {
            let number = release.revision.number.saturating_add(1);
            release.revision = Revision { number, commit };
            if is_act {
                release.acted = number;
            }
        });
    }
}

/// Whether somebody who means to stop a release would want to hear of this before: people acted, another attempt began, or it is over.
/// What an operator opens or ends is told by the change beside it, [`lifecycle::Change::ActedOn`]; such things also happen by themselves.
const fn is_act(change: &Change) -> bool {
    match change {
        Change::Lifecycle(change) => match change {
            lifecycle::Change::Submitted { .. }
            | lifecycle::Change::Resumed { .. }
            | lifecycle::Change::Aborted { .. }
            | lifecycle::Change::Retried { .. }
            | lifecycle::Change::Replanned { .. }
            | lifecycle::Change::Ended { .. }
            | lifecycle::Change::ActedOn { .. } => true,
            lifecycle::Change::Paused { pause, .. } => match pause.by {
                PausedBy::Operator | PausedBy::Parent { .. } => true,
                PausedBy::Limit | PausedBy::Unproven | PausedBy::Analysis | PausedBy::Agent => false,
            },
            lifecycle::Change::Started { .. }
            | lifecycle::Change::RoutersBack { .. }
            | lifecycle::Change::FaultNoted { .. }
            | lifecycle::Change::Removed { .. } => false,
        },
        Change::Rollout(change) => {
            matches!(
                change,
                rollout::Change::Approved { .. }
                    | rollout::Change::WinnerChosen { .. }
                    | rollout::Change::SharesChosen { .. }
            )
        }
        Change::Stages(change) => matches!(change, stages::Change::Skipped { .. }),
        Change::Parent(change) => {
            matches!(change, parent::Change::Held { .. } | parent::Change::FailuresAccepted { .. })
        }
        Change::Analysis(_)
        | Change::Children(_)
        | Change::Members(_)
        | Change::Traffic(_)
        | Change::Workflows(_) => false,
    }
}

/// Whether somebody who decided before this change might decide otherwise after it. The row of the release is written with each of these.
pub const fn is_decided_on(change: &Change) -> bool {
    match change {
        Change::Lifecycle(change) => match change {
            lifecycle::Change::Submitted { .. }
            | lifecycle::Change::Started { .. }
            | lifecycle::Change::Paused { .. }
            | lifecycle::Change::Resumed { .. }
            | lifecycle::Change::Aborted { .. }
            | lifecycle::Change::Retried { .. }
            | lifecycle::Change::RoutersBack { .. }
            | lifecycle::Change::Replanned { .. }
            | lifecycle::Change::Ended { .. }
            | lifecycle::Change::ActedOn { .. } => true,
            lifecycle::Change::FaultNoted { .. } | lifecycle::Change::Removed { .. } => false,
        },
        Change::Rollout(change) => match change {
            rollout::Change::GateReached { .. }
            | rollout::Change::GateLeft { .. }
            | rollout::Change::ApprovalAsked { .. }
            | rollout::Change::Approved { .. }
            | rollout::Change::WavesOpened { .. }
            | rollout::Change::LevelOpened { .. }
            | rollout::Change::WinnerChosen { .. }
            | rollout::Change::SharesChosen { .. } => true,
            // Who is silent comes last: that is no news to whoever says yes to those who aren't.
            rollout::Change::TurnoutAsked { .. } | rollout::Change::WavesPlanned { .. } => false,
        },
        Change::Stages(change) => match change {
            stages::Change::Ended { .. }
            | stages::Change::Skipped { .. }
            | stages::Change::UntestedRolledOut { .. } => true,
            stages::Change::Timed { .. } => false,
        },
        Change::Parent(change) => match change {
            parent::Change::Held { .. }
            | parent::Change::Failed { .. }
            | parent::Change::FailuresAccepted { .. } => true,
            parent::Change::Recounted { .. }
            | parent::Change::StageReported { .. }
            | parent::Change::Forwarded { .. }
            | parent::Change::Continued { .. }
            | parent::Change::UndoAwaited { .. }
            | parent::Change::UndoReported { .. } => false,
        },
        Change::Analysis(change) => match change {
            analysis::Change::VerdictGiven { .. } | analysis::Change::Extended { .. } => true,
            analysis::Change::Began { .. } | analysis::Change::Looked { .. } => false,
        },
        Change::Children(_) | Change::Members(_) | Change::Traffic(_) | Change::Workflows(_) => false,
    }
}
