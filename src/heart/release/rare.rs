//! What few parts in a release have. A child without any of it holds one empty pointer in its place: a release may have a
//! million members, and each byte of an [`Assignment`](super::assignment::Assignment) is there as often.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{
    assignment::{FunctionSet, ReleaseMs, StageSet, Undo},
    manager::Manager,
};
use model::ChildKey;

/// What a part has that is out of the ordinary.
#[derive(Debug, Clone, PartialEq)]
pub struct Rare {
    /// `None`: it is an agent.
    pub manager: Option<Box<Manager>>,
    pub undo: Option<Box<Undo>>,
    /// Stages that it passed over when their offers may have been shown already.
    pub passed: StageSet,
    /// `None`: its stage was tried once, and waits for no calls.
    pub idle: Option<Idle>,
    /// Functions that it does not run, for want of a runtime: their stages count as passed, and they aren't rolled out.
    pub lacks: FunctionSet,
    pub successor: Option<ChildKey>,
    /// Whether it was at work when that one took its place: should it call again, it goes on.
    pub displaced: bool,
    pub predecessor: Option<ChildKey>,
    /// For one that joined when the release was under way: the lowest barrier that waits for it.
    pub joined: Option<u8>,
}

/// A stage that does not get the calls it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// When it began for the first time.
    pub since: ReleaseMs,
    /// The child was told to end it for want of calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
}

impl Rare {
    pub const NOTHING: Self = Self {
        manager: None,
        undo: None,
        passed: StageSet::EMPTY,
        idle: None,
        lacks: FunctionSet::EMPTY,
        successor: None,
        displaced: false,
        predecessor: None,
        joined: None,
    };
}

/// A [`Rare`], which takes memory only where it holds something.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rarely(Option<Box<Rare>>);

impl Deref for Rarely {
    type Target = Rare;

    fn deref(&self) -> &Rare {
        static NOTHING: Rare = Rare::NOTHING;
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl From<Rare> for Rarely {
    fn from(rare: Rare) -> Self {
        Self((rare != Rare::NOTHING).then(|| Box::new(rare)))
    }
}

impl Rarely {
    /// Changes it, and gives the memory back if nothing is left of it.
    pub fn change(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = Rare::clone(self);
        change(&mut rare);
        *self = rare.into();
    }

    /// The same of what is kept of a manager, if it is one.
    pub fn change_manager(&mut self, change: impl FnOnce(&mut Manager)) {
        if let Some(manager) = self.0.as_deref_mut().and_then(|rare| rare.manager.as_deref_mut()) {
            change(manager);
        }
    }

    /// The same of its undo, if it was ever offered one.
    pub fn change_undo(&mut self, change: impl FnOnce(&mut Undo)) {
        if let Some(undo) = self.0.as_deref_mut().and_then(|rare| rare.undo.as_deref_mut()) {
            change(undo);
        }
    }
}
