//! How a child is led through a release, which is not what the child is.
//!
//! | led | offers | reports of |
//! |---|---|---|
//! | stepwise | one stage, or one roll-out, an offer | itself |
//! | whole | the whole strategy in one, walked by the child itself | the agents below it |
//!
//! Deployed agents are led stepwise, managers below whole. Each way has what only it needs; the rest of an [`Assignment`](super::Assignment) is
//! the same for both.

use super::{Rare, Rarely};
use crate::release::{
    manager::{Agents, Planned},
    offer::Piece,
};

/// How a child is led through a release: stage by stage, or with the whole strategy at once.
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

/// What is known of a child that has the whole strategy in hand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Whole {
    pub planned: Planned,
    /// What it said last of its agents.
    pub reported: Agents,
    /// The attempt that the name of the offer carries which the present one continues.
    pub continues: Option<u16>,
    /// That one is over, and the agents that ended badly in it get another attempt.
    pub retries: bool,
    /// How often it said anew what became of its agents, after it was done.
    pub recounts: u32,
    pub rare: Rare,
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
