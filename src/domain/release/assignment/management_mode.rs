//! How a child is led through a release, which is not what the child is.
//!
//! | led | offers | reports of |
//! |---|---|---|
//! | stepwise | one stage, or one roll-out, an offer | itself |
//! | in place | the whole strategy in one, walked by the child itself | itself |
//! | whole | the whole strategy in one, walked by the child for its own children | the agents below it |
//!
//! Deployed agents are led stepwise, agents that say `leads: whole` in place, managers below whole. Which it is, is decided when
//! a child is planned, and anew as long as it has begun nothing: never by what a child says in between. Each way has
//! what only it needs; the rest of an [`Assignment`](super::Assignment) is the same for all.
//!
//! An agent that is led in place counts as one, as a deployed one does. It waits in every stage for the signal, whatever its
//! type, so that a pause, a limit and a barrier hold it; and it goes back function by function, by the offers that any
//! agent understands, so that it doesn't matter which program comes for them.

use super::{Idle, Rare, Rarely};
use crate::release::{
    manager::{Agents, Planned},
    offer::Unit,
};

/// How a child is led through a release: stage by stage, or with the whole strategy at once.
#[derive(Debug, Clone, PartialEq)]
pub enum ManagementMode {
    Stepwise(Stepwise),
    InPlace(Box<InPlace>),
    Whole(Box<Whole>),
}

/// What is known of an agent that walks through the whole strategy by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InPlace {
    /// Whether it has one of the places that `max_in_progress` gives; its offer is shown then.
    pub admitted: bool,
    /// `None`: its stage waits for no calls.
    pub idle: Option<Idle>,
    pub rare: Rare,
}

/// Where a child stands that is led piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepwise {
    pub piece: Unit,
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
    /// How often it said that stages have failed below it and keep their shares.
    pub failures: u32,
    pub rare: Rare,
}

impl Stepwise {
    /// One that has not acted yet.
    pub fn new() -> Self {
        Self { piece: Unit::FIRST, admitted: false, rare: Rarely::default() }
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
