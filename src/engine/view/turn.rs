//! A child's turn in one 64-bit word, so that a reader never sees half of a change.
//!
//! | bits | |
//! |---|---|
//! | 24 | release |
//! | 10 | attempt that the offer's name carries |
//! | 13 | piece: kind (2) and index or number (11) |
//! | 7 | slot of the current stage |
//! | 3 | its status |
//! | 3 | mode |
//!
//! Where the word can't say everything (a newborn, a child that was taken for lost) its mode says "ask the engine".

use domain::children::Child;
use domain::release::{
    assignment::{Assignment, StepIndex},
    next_action::{NextAction, rests, turn},
    offer::{OfferKind, OfferName},
    state::Snapshot,
};
use model::{ChildKey, ReleaseKey, StageStatus};

/// Releases that fit into a turn. One more is refused at submission.
pub const MAX_RELEASES: u32 = 1 << 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Idle = 0,
    /// An offer waits.
    Offer = 1,
    /// An offer was downloaded and is not over.
    InHand = 2,
    /// Only the engine knows what to answer.
    Ask = 3,
    /// It waits for a place; where there is one, the engine gives it.
    Queued = 4,
    /// It has a whole strategy in hand, or takes one back: what it is handed and told of that, only the engine knows.
    Leads = 5,
    /// As [`Self::Ask`]: another id has taken its place.
    Replaced = 6,
    /// Nothing waits for it but what rests: its polls ask the engine whether that is over.
    Rests = 7,
}

/// A child's turn, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    pub mode: Mode,
    pub release: ReleaseKey,
    pub name: OfferName,
    pub slot: StepIndex,
    pub stage_status: StageStatus,
}

const IDLE: u64 = Mode::Idle as u64;
const ASK: u64 = Mode::Ask as u64;
const REPLACED: u64 = Mode::Replaced as u64;
const RESTS: u64 = Mode::Rests as u64;

impl Published {
    fn pack(self) -> u64 {
        let (kind, number) = match self.name.kind {
            OfferKind::First => (0_u64, 0_u64),
            OfferKind::Stage(index) => (1, u64::from(index)),
            OfferKind::Rollout(function) => (2, u64::from(function)),
            OfferKind::Undo(number) => (3, u64::from(number)),
        };
        u64::from(self.release.0) << 36
            | u64::from(self.name.attempt) << 26
            | kind << 24
            | number << 13
            | u64::from(self.slot.0) << 6
            | u64::from(self.stage_status.wire()) << 3
            | self.mode as u64
    }

    #[inline]
    pub(crate) fn unpack(word: u64) -> Self {
        let number = (word >> 13) & 0x7ff;
        let kind = match (word >> 24) & 0x3 {
            0 => OfferKind::First,
            1 => OfferKind::Stage(number as u8),
            2 => OfferKind::Rollout(number as u8),
            _ => OfferKind::Undo(number as u16),
        };
        Self {
            mode: match word & 0x7 {
                0 => Mode::Idle,
                1 => Mode::Offer,
                2 => Mode::InHand,
                4 => Mode::Queued,
                5 => Mode::Leads,
                6 => Mode::Replaced,
                7 => Mode::Rests,
                _ => Mode::Ask,
            },
            release: ReleaseKey((word >> 36) as u32),
            name: OfferName { attempt: ((word >> 26) & 0x3ff) as u16, kind },
            slot: StepIndex(((word >> 6) & 0x7f) as u8),
            stage_status: StageStatus::from_wire((word >> 3) & 0x7).unwrap_or(StageStatus::Pending),
        }
    }
}

/// The word for a child, from the state.
pub(super) fn word(state: &Snapshot, key: ChildKey, child: &Child) -> u64 {
    if child.replaced.is_some() {
        return REPLACED;
    }
    let doubted = child
        .open
        .iter()
        .filter_map(|release| state.assignment(*release, key))
        .any(|assignment| assignment.rare().successor.is_some());
    if !child.called_again || doubted {
        return ASK;
    }
    let published = match turn(state, key) {
        NextAction::Idle | NextAction::Queued { .. } if rests(state, key) => return RESTS,
        NextAction::Idle => return IDLE,
        NextAction::Queued { release } => Published {
            mode: Mode::Queued,
            release,
            name: OfferName { attempt: 1, kind: OfferKind::First },
            slot: StepIndex(0),
            stage_status: StageStatus::Pending,
        },
        // Its next poll shows that it has nothing else in hand any more.
        NextAction::Offer { name: OfferName { kind: OfferKind::Undo(_), .. }, .. }
            if has_in_hand(state, key, child) =>
        {
            return ASK;
        }
        NextAction::Offer { release, name } => Published {
            mode: Mode::Offer,
            release,
            name,
            slot: StepIndex(0),
            stage_status: StageStatus::Pending,
        },
        NextAction::Busy { release, undo } => {
            let Some(assignment) = state.assignment(release, key).filter(|found| is_known(found, child))
            else {
                return ASK;
            };
            let name = match assignment.pending_undo().filter(|_| undo) {
                Some(undo) => OfferName::undo(undo.number),
                None => assignment.offer_name(),
            };
            let walks = assignment.is_whole() || assignment.polls_always(child.leads_itself());
            if walks && rests(state, key) {
                return RESTS;
            }
            Published {
                mode: if walks { Mode::Leads } else { Mode::InHand },
                release,
                name,
                slot: assignment.slot,
                stage_status: assignment.stage_status,
            }
        }
    };
    published.pack()
}

/// Whether what a child has in hand says all that is to be known of its next call. An agent that says no longer that it takes
/// whole strategies shows by its polls that it has lost the one that it had.
fn is_known(part: &Assignment, child: &Child) -> bool {
    !part.is_in_place() || child.leads_itself()
}

/// Whether an agent has something in hand that was taken back meanwhile.
fn has_in_hand(state: &Snapshot, key: ChildKey, child: &Child) -> bool {
    let parts = child.open.iter().filter_map(|release| state.assignment(*release, key));
    let shows_by_polling = |part: &Assignment| part.is_in_hand() && !part.is_in_place();
    !child.kind().is_manager() && parts.into_iter().any(shows_by_polling)
}
