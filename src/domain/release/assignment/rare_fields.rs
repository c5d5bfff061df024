//! What few parts in a release have. A child without any of it holds one empty pointer in its place: a release may have a
//! million members, and each byte of an [`Assignment`](super::Assignment) is there as often.

use std::ops::Deref;

use super::{FunctionSet, StageSet, Undo};
use crate::release::clock::ReleaseMs;
use model::ChildKey;

/// What a part has that is out of the ordinary, however the child is led.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rare {
    pub undo: Option<Box<Undo>>,
    pub successor: Option<ChildKey>,
    /// Whether it was at work when that one took its place: should it call again, it goes on.
    pub displaced: bool,
    pub predecessor: Option<ChildKey>,
    /// For one that joined when the release was under way: the lowest barrier that waits for it.
    pub joined: Option<u8>,
    /// The stage that it is in has failed, and keeps its shares.
    pub kept: Option<Keeping>,
}

/// What becomes of a stage that has failed at a child and keeps its shares.
///
/// Rule: who is told so lets the release stand still; whoever has it go on accepts what was told until then. Nothing ends such a stage before,
/// also not a signal that was given before the failure was known: else a version that fails would get more calls, and nobody had decided that.
/// Both are of one stage, and end with it.
///
/// Where the release came from above it is decided there: this manager says so, stands still when the parent does, and only what the
/// parent answers of that very failure counts (`parent::Change::FailuresAccepted`). A manager below which a stage has failed is as undecided
/// as an agent, and its part ends with the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// People are to decide.
    Undecided,
    /// It is gone on from.
    Accepted,
}

/// What is out of the ordinary in the part of a child that is led step by step, with what only such a child has.
#[derive(Debug, Clone, PartialEq)]
pub struct RareSteps {
    pub rare: Rare,
    /// Stages that it passed over when their offers may have been shown already.
    pub passed: StageSet,
    /// `None`: its stage was tried once, and waits for no calls.
    pub idle: Option<Idle>,
    /// Functions that it does not run, for want of a runtime: their stages count as passed, and they aren't rolled out.
    pub lacks: FunctionSet,
}

/// A stage that does not get the calls it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// When it began for the first time.
    pub since: ReleaseMs,
    /// The child was told to end it for want of calls.
    pub told: bool,
    /// It is not offered again before this serving time, in milliseconds.
    pub rests_until: Option<u64>,
}

impl Rare {
    pub const NOTHING: Self =
        Self { undo: None, successor: None, displaced: false, predecessor: None, joined: None, kept: None };
}

impl RareSteps {
    pub const NOTHING: Self =
        Self { rare: Rare::NOTHING, passed: StageSet::EMPTY, idle: None, lacks: FunctionSet::EMPTY };
}

/// [`RareSteps`], which take memory only where they hold something.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rarely(Option<Box<RareSteps>>);

impl Deref for Rarely {
    type Target = RareSteps;

    fn deref(&self) -> &RareSteps {
        static NOTHING: RareSteps = RareSteps::NOTHING;
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl From<RareSteps> for Rarely {
    fn from(rare: RareSteps) -> Self {
        Self((rare != RareSteps::NOTHING).then(|| Box::new(rare)))
    }
}

impl Rarely {
    /// Changes it, and gives the memory back if nothing is left of it.
    pub fn change(&mut self, change: impl FnOnce(&mut RareSteps)) {
        let mut rare = RareSteps::clone(self);
        change(&mut rare);
        *self = rare.into();
    }

    /// Its undo, if it was ever offered one. Whatever is changed of that, one remains.
    pub fn undo_mut(&mut self) -> Option<&mut Undo> {
        self.0.as_deref_mut().and_then(|steps| steps.rare.undo.as_deref_mut())
    }
}
