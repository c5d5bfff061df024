//! How a child is led through a release, which is not what the child is.
//!
//! | led | offers | reports of |
//! |---|---|---|
//! | stepwise | one stage, or one roll-out, an offer | itself |
//! | whole | the whole strategy in one, walked by the child itself | the agents below it |
//!
//! Deployed agents are led stepwise, managers below whole. Each way has what only it needs; the rest of an [`Assignment`] is
//! the same for both.

use serde::{Deserialize, Serialize};

use super::{Assignment, FunctionSet, StageSet, Undo};
use crate::release::{
    manager::{Agents, Planned},
    offer::Piece,
    rare::{Idle, Rare, Rarely},
};

/// See the module's text.
#[derive(Debug, Clone, PartialEq)]
pub enum Led {
    Stepwise(Stepwise),
    Whole(Box<Whole>),
}

/// Where a child stands that is led piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepwise {
    pub piece: Piece,
    /// Whether an earlier build handed it out, and lets the agent act on its own; see [`crate::release::by_itself`].
    pub by_itself: bool,
    /// Whether it has one of the places that `max_in_progress` gives; its next offer is shown then.
    pub admitted: bool,
    /// What most don't have.
    pub rare: Rarely,
}

/// What is known of a child that has the whole strategy in hand. It is stored without what is rare.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Whole {
    #[serde(flatten)]
    pub planned: Planned,
    /// What it said last of its agents.
    #[serde(default)]
    pub reported: Agents,
    /// The attempt that the name of the offer carries which the present one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<u16>,
    /// That one is over, and the agents that ended badly in it get another attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries: bool,
    /// How often it said anew what became of its agents, after it was done.
    #[serde(default, skip_serializing_if = "is_never")]
    pub recounts: u32,
    #[serde(skip)]
    pub rare: Rare,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_never(count: &u32) -> bool {
    *count == 0
}

impl Stepwise {
    /// One that has not acted yet.
    pub fn new() -> Self {
        Self { piece: Piece::FIRST, by_itself: false, admitted: false, rare: Rarely::default() }
    }
}

impl Default for Stepwise {
    fn default() -> Self {
        Self::new()
    }
}

impl Whole {
    pub fn new(planned: Planned) -> Self {
        Self { planned, ..Self::default() }
    }

    /// The first wave after this one in which more of its agents have their turn.
    pub fn wave_after(&self, wave: u32) -> Option<u32> {
        self.planned.quotas.iter().map(|(of, _)| *of).find(|of| *of > wave)
    }

    /// How many of its waves are open in this one.
    pub fn waves_open(&self, wave: u32) -> u32 {
        self.planned.quotas.iter().filter(|(of, _)| *of <= wave).count().max(1) as u32
    }
}

impl Assignment {
    /// Where it stands, if it is led piece by piece.
    pub const fn stepwise(&self) -> Option<&Stepwise> {
        match &self.led {
            Led::Stepwise(steps) => Some(steps),
            Led::Whole(_) => None,
        }
    }

    pub(super) const fn stepwise_mut(&mut self) -> Option<&mut Stepwise> {
        match &mut self.led {
            Led::Stepwise(steps) => Some(steps),
            Led::Whole(_) => None,
        }
    }

    /// What is known of it, if it has the whole strategy in hand.
    pub fn whole(&self) -> Option<&Whole> {
        match &self.led {
            Led::Stepwise(_) => None,
            Led::Whole(whole) => Some(whole),
        }
    }

    pub fn whole_mut(&mut self) -> Option<&mut Whole> {
        match &mut self.led {
            Led::Stepwise(_) => None,
            Led::Whole(whole) => Some(whole),
        }
    }

    pub const fn is_whole(&self) -> bool {
        matches!(self.led, Led::Whole(_))
    }

    /// Whether it is led piece by piece, also in what it has in hand: its stages end when it is told so, and leave the base
    /// version.
    pub fn is_led_stepwise(&self) -> bool {
        self.stepwise().is_some_and(|steps| !steps.by_itself)
    }

    /// Whether an earlier build handed out what it has in hand.
    pub fn acts_by_itself(&self) -> bool {
        self.stepwise().is_some_and(|steps| steps.by_itself)
    }

    /// What the current offer hands out.
    pub fn piece(&self) -> Piece {
        self.stepwise().map_or(Piece::Whole, |steps| steps.piece)
    }

    /// What most don't have, however they are led.
    pub fn rare(&self) -> &Rare {
        match &self.led {
            Led::Stepwise(steps) => &steps.rare.rare,
            Led::Whole(whole) => &whole.rare,
        }
    }

    pub fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        match &mut self.led {
            Led::Stepwise(steps) => steps.rare.change(|steps| change(&mut steps.rare)),
            Led::Whole(whole) => change(&mut whole.rare),
        }
    }

    /// Its last undo, if it was ever offered one.
    pub fn undo(&self) -> Option<&Undo> {
        self.rare().undo.as_deref()
    }

    pub(super) fn change_undo(&mut self, change: impl FnOnce(&mut Undo)) {
        let undo = match &mut self.led {
            Led::Stepwise(steps) => steps.rare.undo_mut(),
            Led::Whole(whole) => whole.rare.undo.as_deref_mut(),
        };
        if let Some(undo) = undo {
            change(undo);
        }
    }

    /// Functions that it does not run. Who has the whole strategy in hand sees to that for those below.
    pub fn lacks(&self) -> FunctionSet {
        self.stepwise().map_or(FunctionSet::EMPTY, |steps| steps.rare.lacks)
    }

    /// Stages that it passed over when their offers may have been shown already.
    pub fn passed(&self) -> StageSet {
        self.stepwise().map_or(StageSet::EMPTY, |steps| steps.rare.passed)
    }

    /// Whether it has one of the places that `max_in_progress` gives. Who is led whole gives places of its own.
    pub fn is_admitted(&self) -> bool {
        self.stepwise().is_some_and(|steps| steps.admitted)
    }

    /// `None`: its stage was tried once, and waits for no calls.
    pub fn idle(&self) -> Option<Idle> {
        self.stepwise().and_then(|steps| steps.rare.idle)
    }

    pub(super) fn set_idle(&mut self, idle: Option<Idle>) {
        if let Some(steps) = self.stepwise_mut() {
            steps.rare.change(|rare| rare.idle = idle);
        }
    }
}
