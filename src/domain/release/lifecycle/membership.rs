//! The members of a release.

use std::{collections::BTreeMap, sync::Arc};

use crate::release::{assignment::FunctionSet, manager::Planned};
use model::{ChildKey, Exclusion};

/// Who takes part in a release, and how many not, and why.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Membership {
    /// Ascending.
    pub members: Arc<[ChildKey]>,
    pub excluded: Vec<(Exclusion, u32)>,
    /// The wave of each member, from 0, in their order. Empty: all are in the first.
    pub waves: Vec<u32>,
    /// The members that are managers themselves.
    pub managers: BTreeMap<ChildKey, Planned>,
    /// The members that are agents and walk through the whole strategy by themselves, ascending.
    pub in_place: Vec<ChildKey>,
    /// The functions that each member does not run, in their order. Empty: all run all.
    pub lacks: Vec<FunctionSet>,
    /// Agents that come last because they are silent.
    pub left_out: u32,
}
